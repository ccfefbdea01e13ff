#!/bin/bash
# Tests the example shared_fibonacci; $1 is the directory of the examples.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=../support/check.sh
source "$(dirname "$0")/../support/check.sh" "$1"
# shellcheck source-path=SCRIPTDIR source=../../../scripts/redis.sh
source "$(dirname "$0")/../../../scripts/redis.sh"
start_redis
# The example is not about time: a paused process must not lose a lease, a connection or an answer.
redis_url+='?lease=5min&claim_lease=1min&health_check=1min&connect_timeout=1min'

list='[0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610, 987, 1597, 2584, 4181, 6765, 10946]'
run shared_fibonacci --redis "$redis_url" --processes 4 --count 20
expect_status 0
expect_output "$list
4 processes, 20 numbers: the list is right"

# Without a lock, the processes race. The program has to report what became of the list.
run shared_fibonacci --redis "$redis_url" --processes 4 --count 20 --no-mutex
expect_status 0
if [[ $output == "$list"* ]]; then
  expect_text '4 processes, 20 numbers: the list is right'
else
  expect_text '4 processes, 20 numbers: the list is wrong'
fi

run shared_fibonacci --redis "$redis_url" --processes 1 --count 1
expect_status 0
expect_output '[0, 1, 1]
1 processes, 1 numbers: the list is right'

expect_help shared_fibonacci --redis --processes --count --no-mutex
expect_refusal "--count: '93' is not a whole number from 1 to 92" shared_fibonacci --count 93
expect_refusal "--processes: '0' is not a whole number from 1 to 100" shared_fibonacci --processes 0
expect_refusal 'redis://' shared_fibonacci --redis http://localhost
expect_server_errors shared_fibonacci

finish
