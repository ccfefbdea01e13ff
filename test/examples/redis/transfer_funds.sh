#!/bin/bash
# Tests the example transfer_funds; $1 is the directory of the examples.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=../support/check.sh
source "$(dirname "$0")/../support/check.sh" "$1"
# shellcheck source-path=SCRIPTDIR source=../../../scripts/redis.sh
source "$(dirname "$0")/../../../scripts/redis.sh"
start_redis

# An overdraft would lower the lowest balance: each run empties an account.
run transfer_funds --redis "$redis_url" --seconds 2 --kill-every 300 --freeze-every 500
expect_status 0
expect_text 'lowest balance: 0' 'money in the end: 10000 of 10000'
for what in 'transfers done' 'transfers refused' 'processes killed' 'stopped'; do
  [[ $output == *"$what: "[1-9]* ]] || complain "$command_line wrote no '$what: ' above 0, but $output"
done

run transfer_funds --redis "$redis_url" --seconds 1 --kill-every 0 --freeze-every 0 --accounts 2
expect_status 0
expect_text 'processes killed: 0, stopped: 0' 'lowest balance: ' 'money in the end: 2000 of 2000'

expect_help transfer_funds --redis --processes --accounts --seconds --kill-every --freeze-every --lease
expect_refusal "--accounts: '1' is not a whole number from 2 to 10000" transfer_funds --accounts 1
expect_server_errors transfer_funds

finish
