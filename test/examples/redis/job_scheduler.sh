#!/bin/bash
# Tests the example job_scheduler with processes; $1 is the directory of the examples.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=../support/check.sh
source "$(dirname "$0")/../support/check.sh" "$1"
# shellcheck source-path=SCRIPTDIR source=../../../scripts/redis.sh
source "$(dirname "$0")/../../../scripts/redis.sh"
start_redis --appendonly yes --appendfsync always

# Without kills and expired leases, each job starts once.
run job_scheduler --redis "$redis_url" --jobs 300 --rate 0 --lease 60000
expect_status 0
expect_text 'killed: 0, pauses: 0, restarts after a lost connection: 0' 'starts: 300, jobs that ran again: 0' \
  'finishes: 300 accepted, 0 rejected, 0 without an answer' \
  'All 300 jobs were finished, none twice as far as the workers know, and the queues are empty.'

# Kills processes until enough were killed, also if they come late.
for what in 'worker' 'generator' 'dispatcher --dispatcher' 'any --dispatcher --pause-every 100'; do
  read -ra options <<< "$what"
  run_with_kills job_scheduler --redis "$redis_url" --jobs 1500 --rate 1000 --work 5 --workers 6 --lease 500 \
    --kill-every 100 --kill "${options[@]}"
  expect_status 0
  expect_text 'All 1500 jobs were finished, none twice as far as the workers know, and the queues are empty.'
done

# The server is killed while jobs are pushed and done. A file of its own takes the output, because `run` waits.
report=$(mktemp)
redis-cli -s "${redis_url#unix://}" config resetstat > /dev/null
"$examples/job_scheduler" --redis "$redis_url" --jobs 3000 --rate 1000 --work 5 --workers 6 --lease 1000 > "$report" &
scheduler=$!
for _ in 1 2; do
  # Until then, the scheduler may not have connected. All jobs together need several thousand commands, and a new server
  # counts from 0.
  until (($(redis-cli -s "${redis_url#unix://}" info stats |
    sed -n 's/^total_commands_processed:\([0-9]*\).*/\1/p') > 1000)) || ! kill -0 "$scheduler" 2> /dev/null; do
    sleep 0.02
  done
  restart_redis
done
command_line='job_scheduler with restarts of the server'
status=0
wait "$scheduler" || status=$?
output=$(< "$report")
errors=
rm "$report"
expect_status 0
expect_text 'All 3000 jobs were finished, none twice as far as the workers know, and the queues are empty.'

[[ -z $(redis-cli -s "${redis_url#unix://}" --scan --pattern '*scheduler_*') ]] || complain 'a run left keys'

expect_help job_scheduler --redis --lease --kill
expect_refusal '--redis' job_scheduler --kill generator
expect_refusal '--local' job_scheduler --local --redis "$redis_url"
expect_refusal "--lease: '100' is not a whole number from 200 to 60000" \
  job_scheduler --redis "$redis_url" --lease 100
expect_refusal '--kill' job_scheduler --redis "$redis_url" --kill everybody
expect_server_errors job_scheduler

finish
