#!/bin/bash
# Tests the example serialized_writer; $1 is the directory of the examples.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=support/check.sh
source "$(dirname "$0")/support/check.sh" "$1"

run serialized_writer
expect_status 0
expect_output 'The first lines that arrived:
  writer 1, message 1: from the first byte to the last
  writer 2, message 1: from the first byte to the last
  writer 3, message 1: from the first byte to the last
  writer 4, message 1: from the first byte to the last
  writer 5, message 1: from the first byte to the last

20 writers sent 50 messages each: 1000 arrived whole, 0 lines were torn.'

run serialized_writer --writers 200 --messages 20
expect_status 0
expect_text '4000 arrived whole, 0 lines were torn.'

# A single writer needs no lock.
run serialized_writer --no-mutex --writers 1
expect_status 0
expect_text '50 arrived whole, 0 lines were torn.'

# With several writers, lines are torn; their number varies.
run serialized_writer --no-mutex
expect_status 0
expect_text 'writer 1, writer 2' ' without a lock: '
torn=$(sed -nE 's/.* ([0-9]+) lines were torn\.$/\1/p' <<< "$output")
((torn > 0)) || complain 'nothing was torn without the lock'

expect_help serialized_writer --writers --messages --no-mutex

expect_refusal "--writers: '0' is not a whole number from 1 to 1000" serialized_writer --writers 0
expect_refusal "--messages: '1001' is not a whole number from 1 to 1000" \
  serialized_writer --messages 1001
expect_refusal 'not expected: --port' serialized_writer --port

finish
