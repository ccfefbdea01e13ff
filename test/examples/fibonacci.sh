#!/bin/bash
# Tests the example fibonacci; $1 is the directory of the examples.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=support/check.sh
source "$(dirname "$0")/support/check.sh" "$1"

growing='[0, 1, 1]
[0, 1, 1, 2]
[0, 1, 1, 2, 3]
[0, 1, 1, 2, 3, 5]
[0, 1, 1, 2, 3, 5, 8]'

run fibonacci
expect_status 0
expect_output "$growing"

run fibonacci --guard
expect_status 0
expect_output "$growing"

run fibonacci --no-mutex
expect_status 0
expect_output '[0, 1, 1, 1, 1, 1, 1]
[0, 1, 1, 1, 1, 1, 1]
[0, 1, 1, 1, 1, 1, 1]
[0, 1, 1, 1, 1, 1, 1]
[0, 1, 1, 1, 1, 1, 1]'

run fibonacci --count 1
expect_status 0
expect_output '[0, 1, 1]'

# The largest number that fits into 64 bits.
run fibonacci --count 92
expect_status 0
expect_text '4660046610375530309, 7540113804746346429, 12200160415121876738]'

run fibonacci --count 3 --no-mutex
expect_status 0
expect_output '[0, 1, 1, 1, 1]
[0, 1, 1, 1, 1]
[0, 1, 1, 1, 1]'

expect_help fibonacci --count --no-mutex --guard

rule='is not a whole number from 1 to 92, as later numbers do not fit into 64 bits'
for value in 0 93 -1 010 abc 5x 1.5 '' 99999999999999999999; do
  expect_refusal "--count: '$value' $rule" fibonacci --count "$value"
done
expect_refusal --count fibonacci --count
expect_refusal '--no-mutex excludes --guard' fibonacci --no-mutex --guard
expect_refusal 'not expected: 7' fibonacci 7
expect_refusal 'not expected: --cuont' fibonacci --cuont

finish
