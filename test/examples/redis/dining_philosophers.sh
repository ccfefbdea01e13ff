#!/bin/bash
# Tests the example dining_philosophers with forks that several processes share; $1 is the directory of the
# examples.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=../support/check.sh
source "$(dirname "$0")/../support/check.sh" "$1"
# shellcheck source-path=SCRIPTDIR source=../../../scripts/redis.sh
source "$(dirname "$0")/../../../scripts/redis.sh"
start_redis

# Long enough for kills, even if they come late.
run_with_kills dining_philosophers --redis "$redis_url?idle_time=1h" --processes 3 --rounds 30 --time-unit 20 \
  --kill-every 25
expect_status 0
expect_text 'Aristotle    30 meals' 'Buddha       30 meals' 'Confucius    30 meals' \
  'Diogenes     30 meals' 'Epicurus     30 meals' 'longest wait: ' \
  'Everybody had 30 meals, and all forks lie on the table.'

# The counters in the server.
meals=$(redis-cli -s "${redis_url#unix://}" hget example:dinner meals)
[[ $meals == 150 ]] || complain "the server knows of $meals meals instead of 150"

# The server remembers the semaphores for the idle time.
forks=$(redis-cli -s "${redis_url#unix://}" --scan --pattern 'turnstile:*:semaphore:example:fork:?' | wc -l)
((forks == 5)) || complain "$forks forks are semaphores, instead of 5"

# More processes than philosophers, without kills.
run dining_philosophers --redis "$redis_url" --processes 4 --philosophers 2 --rounds 5 --time-unit 1
expect_status 0
expect_text 'processes killed: 0' 'Everybody had 5 meals'

expect_help dining_philosophers --redis --processes --kill-every --lease
expect_refusal '--redis' dining_philosophers --processes 2
expect_refusal "--processes: '0' is not a whole number from 1 to 100" \
  dining_philosophers --redis "$redis_url" --processes 0
expect_refusal '--left-first' dining_philosophers --redis "$redis_url" --left-first
expect_refusal 'redis://' dining_philosophers --redis http://localhost
expect_refusal '--redis: must not be empty' dining_philosophers --redis ''
expect_server_errors dining_philosophers

finish
