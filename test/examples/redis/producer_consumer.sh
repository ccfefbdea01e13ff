#!/bin/bash
# Tests the example producer_consumer with a shelf that several processes share; $1 is the directory of the
# examples.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=../support/check.sh
source "$(dirname "$0")/../support/check.sh" "$1"
# shellcheck source-path=SCRIPTDIR source=../../../scripts/redis.sh
source "$(dirname "$0")/../../../scripts/redis.sh"
start_redis

cli() { redis-cli -s "${redis_url#unix://}" "$@"; }

# Checks the server's memory after a run with $1 items: each was consumed once, and only this example's own
# data have no TTL.
expect_books() {
  [[ $(cli hget example:shop:book produced) == "$1" && $(cli hget example:shop:book consumed) == "$1" ]] ||
    complain "$command_line: the book says $(cli hgetall example:shop:book)"
  [[ $(cli hlen example:shop:consumed) == "$1" && $(cli hvals example:shop:consumed | sort -u) == 1 ]] ||
    complain "$command_line: not each item was consumed once: $(cli hgetall example:shop:consumed)"
  [[ $(cli llen example:shop:shelf) == 0 ]] || complain "$command_line left items on the shelf"
}

# Without kills and expired leases, no semaphore has surplus units.
run producer_consumer --redis "$redis_url" --rounds 10 --lease 60000
expect_status 0
expect_text 'producer 1       10 items' 'producer 3       10 items' \
  'produced 30, consumed 30, of those 30 different ones, left on the shelf 0' \
  'most on the shelf at once: ' ' of 3' 'processes killed: 0' \
  'units too many: 0 found the shelf full, 0 found it empty' \
  'All 30 items were consumed, each once, and all 3 slots are free.'
expect_books 30
keys=0
while IFS= read -r key; do
  keys=$((keys + 1))
  [[ $(cli ttl "$key") != -1 ]] || complain "$command_line left $key for ever"
done < <(cli --scan --pattern 'turnstile:*')
((keys != 0)) || complain 'there were no semaphores'

# Long enough for kills, even if they come late. With one slot, a unit that is missing for longer than a
# lease would stop everything.
for slots_and_unit in '1 10' '4 20'; do
  read -r slots unit <<< "$slots_and_unit"
  run_with_kills producer_consumer --redis "$redis_url" --slots "$slots" --consumers 3 --rounds 40 \
    --time-unit "$unit" --kill-every 20
  expect_status 0
  expect_text 'producer 1       40 items' 'producer 2       40 items' 'producer 3       40 items' \
    "All 120 items were consumed, each once, and all $slots slots are free."
  expect_books 120
done

# More processes than producers and consumers.
run producer_consumer --redis "$redis_url" --producers 1 --consumers 1 --processes 5 --time-unit 1 --verbose
expect_status 0
expect_text 'producer 1 has a slot and makes an item' 'consumer 1 consumes an item' 'consumer 1 leaves' \
  'All 5 items were consumed'

expect_help producer_consumer --redis --processes --kill-every --lease
expect_refusal '--redis' producer_consumer --processes 2
expect_refusal "--processes: '0' is not a whole number from 1 to 100" \
  producer_consumer --redis "$redis_url" --processes 0
expect_refusal "--lease: '100' is not a whole number from 200 to 60000" \
  producer_consumer --redis "$redis_url" --lease 100
expect_refusal 'redis://' producer_consumer --redis http://localhost
expect_server_errors producer_consumer

finish
