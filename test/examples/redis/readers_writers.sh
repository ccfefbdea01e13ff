#!/bin/bash
# Tests the example readers_writers with a room that several processes share; $1 is the directory of the
# examples.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=../support/check.sh
source "$(dirname "$0")/../support/check.sh" "$1"
# shellcheck source-path=SCRIPTDIR source=../../../scripts/redis.sh
source "$(dirname "$0")/../../../scripts/redis.sh"
start_redis

cli() { redis-cli -s "${redis_url#unix://}" "$@"; }

# All participants had $1 turns, $2 in total. According to the state, nobody is left. The leases and a busy
# machine explain the longest wait.
expect_good_end() {
  expect_status 0
  expect_text "turns: $2, most readers at once: " \
    'in the end: 0 inside, 0 write, 0 wait to read, 0 wait to write' \
    "Everybody had $1 turns, each writer was alone, and the room is empty."
  [[ $(cli hget example:room:book turns) == "$2" && $(cli hlen example:room:list) == 0 ]] ||
    complain "$command_line: the book says $(cli hgetall example:room:book), the list $(cli hgetall example:room:list)"
  local state field
  state=$(cli --scan --pattern 'turnstile:*monitor.state:*')
  for field in inside writers waiting_readers waiting_writers; do
    [[ $(cli hget "$state" "$field") == 0 ]] || complain "$command_line: the state is $(cli hgetall "$state")"
  done
  if [[ $output =~ 'longest wait: '([0-9]+)' ms, of '([0-9]+)' ms' ]]; then
    ((BASH_REMATCH[1] <= BASH_REMATCH[2])) || complain "$command_line: ${BASH_REMATCH[0]}"
  else
    complain "$command_line does not report how long one waited: $output"
  fi
}

# Without kills.
run readers_writers --redis "$redis_url" --rounds 10 --lease 60000
expect_good_end 10 70
expect_text 'reader 1      10 turns' 'reader 5      10 turns' 'writer 2      10 turns' \
  'processes killed: 0, with 0 readers and 0 writers inside'
# Only the state of the monitor has no TTL.
while IFS= read -r key; do
  [[ $(cli ttl "$key") != -1 || $key == *monitor.state:* ]] || complain "$command_line left $key for ever"
done < <(cli --scan --pattern 'turnstile:*')
writes=$(cli hget "$(cli --scan --pattern 'turnstile:*monitor.state:*')" writes)
((writes >= 20)) || complain "$command_line: the state knows of $writes writes"

# Long enough for kills, even if they come late.
run_with_kills readers_writers --redis "$redis_url" --rounds 30 --time-unit 10 --kill-every 20
expect_good_end 30 210
# Most writers wait, and a killed process has more contributions than one script undoes.
run_with_kills readers_writers --redis "$redis_url" --readers 100 --writers 60 --processes 2 --rounds 2 \
  --time-unit 20 --kill-every 50
expect_good_end 2 320

# A process is stopped while its reader is in the room, until the lease of the reader has ended and the writer has been in
# the room. Then the process continues, and the reader repeats that turn.
log=$(mktemp)
command_line='readers_writers, of which one process stands still'
# Whether a process is neither stopped nor at its end.
runs() {
  grep -qs '^State:.[RSD]' "/proc/$1/status"
}
stood_still=
# If this script is paused, the program may end before one of its processes is stopped.
for _ in 1 2 3 4 5; do
  "$examples/readers_writers" --redis "$redis_url" --processes 2 --readers 1 --writers 1 --rounds 15 --time-unit 50 \
    --lease 500 > "$log" 2>&1 &
  program=$!
  while [[ -z $stood_still ]] && kill -0 "$program" 2> /dev/null; do
    visit=$(cli hget example:room:list 'reader 1')
    [[ -n $visit ]] || continue
    read -r reader writer <<< "$(cat "/proc/$program/task/$program/children" 2> /dev/null)"
    kill -STOP "$reader" 2> /dev/null || continue
    while runs "$reader"; do :; done
    if [[ $(cli hget example:room:list 'reader 1') == "$visit" ]]; then
      state=$(cli --scan --pattern 'turnstile:*monitor.state:*')
      writes=$(cli hget "$state" writes)
      while [[ $(cli hget "$state" writes) == "$writes" ]] && runs "$writer"; do :; done
      [[ $(cli hget "$state" writes) == "$writes" ]] || stood_still=yes
    fi
    kill -CONT "$reader" 2> /dev/null || true
  done
  status=0
  wait "$program" || status=$?
  [[ -z $stood_still ]] || break
done
output=$(< "$log")
errors=
rm "$log"
[[ -n $stood_still ]] || complain "$command_line: nobody was stopped"
expect_good_end 15 30
[[ $output == *'had been lost: '[1-9]* ]] || complain "$command_line: no turn was repeated: $output"

# More processes than participants.
run readers_writers --redis "$redis_url" --readers 1 --writers 1 --processes 5 --time-unit 1 --verbose
expect_status 0
expect_text 'reader 1 wants to come in' 'reader 1 reads' 'writer 1 writes' 'writer 1 goes home' \
  'Everybody had 5 turns'

expect_help readers_writers --redis --processes --kill-every --lease
expect_refusal '--redis' readers_writers --processes 2
expect_refusal "--processes: '0' is not a whole number from 1 to 100" \
  readers_writers --redis "$redis_url" --processes 0
expect_refusal "--lease: '100' is not a whole number from 200 to 60000" \
  readers_writers --redis "$redis_url" --lease 100
expect_refusal 'redis://' readers_writers --redis http://localhost
expect_server_errors readers_writers

finish
