#!/bin/bash
# Tests the example dining_philosophers; $1 is the directory of the examples.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=support/check.sh
source "$(dirname "$0")/support/check.sh" "$1"

# No philosopher eats at the same time as the one in the next row. The last row is next to the first one.
expect_no_neighbours_eating() {
  awk -v command="$command_line" '
    function check_piece(   i, column, next_row) {
      for (i = 0; i < rows; ++i) {
        next_row = row[(i + 1) % rows]
        for (column = 1; column <= length(row[i]); ++column)
          if (substr(row[i], column, 1) == "#") {
            ++meals
            if (substr(next_row, column, 1) == "#") {
              print "FAILED: " command ": neighbours eat at once:\n" row[i] "\n" next_row
              wrong = 1
            }
          }
      }
      rows = 0
    }
    /longest wait/ { exit }
    /^[A-Z][a-z]+( |$)/ { row[rows++] = substr($0, 12); next }
    { check_piece() }
    END {
      check_piece()
      if (!meals) { print "FAILED: " command ": no chart"; wrong = 1 }
      exit wrong
    }' <<< "$output" || failures=$((failures + 1))
}

run dining_philosophers
expect_status 0
expect_text 'Aristotle      5 ' 'Epicurus       5 ' \
  'Everybody had 5 meals in ' 'neighbours never ate at once.'
expect_no_neighbours_eating
default_output=$output

# The speed of time does not affect the result; the seed does.
run dining_philosophers --time-unit 0
expect_output "$default_output"
run dining_philosophers --seed 1 --rounds 5 --philosophers 5 --time-unit 0
expect_output "$default_output"
run dining_philosophers --seed 7
expect_status 0
[[ $output != "$default_output" ]] || complain 'the seed changes nothing'

for seed in {0..19}; do
  run dining_philosophers --seed "$seed" --rounds 30 --time-unit 0
  expect_status 0
  expect_text 'Everybody had 30 meals'
  expect_no_neighbours_eating
done

for count in 2 3 8 100; do
  run dining_philosophers --philosophers "$count" --time-unit 0
  expect_status 0
  expect_text 'Everybody had 5 meals'
done
expect_text 'guest 100 '

run dining_philosophers --verbose --time-unit 0 --rounds 1
expect_status 0
expect_text 'Buddha wants to eat' 'Confucius has one fork' 'Diogenes eats' 'Epicurus leaves'

# Each philosopher holds one fork: the program reports the deadlock.
run dining_philosophers --left-first --seed 2 --time-unit 0
expect_status 1
for name in Aristotle Buddha Confucius Diogenes Epicurus; do
  expect_text "WRONG: $name had" 'and in the end has one fork'
done

expect_help dining_philosophers --philosophers --rounds --seed --time-unit --left-first --verbose

expect_refusal "--philosophers: '1' is not a whole number from 2 to 100" \
  dining_philosophers --philosophers 1
expect_refusal "--philosophers: '101' is not" dining_philosophers --philosophers 101
expect_refusal "--rounds: '0' is not a whole number from 1 to 1000" dining_philosophers --rounds 0
expect_refusal "--seed: '-1' is not a whole number from 0 to 1000000000" \
  dining_philosophers --seed -1
expect_refusal "--time-unit: '5ms' is not a whole number from 0 to 10000" \
  dining_philosophers --time-unit 5ms
expect_refusal 'not expected: fork' dining_philosophers fork

finish
