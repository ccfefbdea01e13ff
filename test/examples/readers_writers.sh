#!/bin/bash
# Tests the example readers_writers; $1 is the directory of the examples.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=support/check.sh
source "$(dirname "$0")/support/check.sh" "$1"

# In the chart, a column with a W has no other W and no r.
expect_writers_alone() {
  awk -v command="$command_line" '
    function check_piece(   i, column) {
      for (i in columns) {
        column = columns[i]
        if (gsub(/W/, "W", column) > 1 || column ~ /W/ && column ~ /r/) {
          print "FAILED: " command ": together in one column: " column
          wrong = 1
        }
        writes += column ~ /W/
        reads += column ~ /r.*r/
      }
      delete columns
    }
    /longest wait/ { exit }
    /^(reader|writer) [0-9]+ +[-.rW]/ {
      row = substr($0, 11)
      for (i = 1; i <= length(row); ++i)
        columns[i] = columns[i] substr(row, i, 1)
      next
    }
    { check_piece() }
    END {
      check_piece()
      if (!writes || !reads) { print "FAILED: " command ": no chart"; wrong = 1 }
      exit wrong
    }' <<< "$output" || failures=$((failures + 1))
}

run readers_writers
expect_status 0
expect_text 'reader 5      5 ' 'writer 2      5 ' 'Everybody had 5 turns in ' 'each writer was alone.' \
  'At most 5 read at once.'
expect_writers_alone
default_output=$output

run readers_writers --time-unit 0
expect_output "$default_output"
run readers_writers --seed 7
expect_status 0
[[ $output != "$default_output" ]] || complain 'the seed changes nothing'

for seed in {0..19}; do
  run readers_writers --seed "$seed" --rounds 30 --writers 4 --time-unit 0
  expect_status 0
  expect_text 'Everybody had 30 turns'
  expect_writers_alone
done

run readers_writers --readers 1 --writers 1 --rounds 1 --time-unit 0
expect_status 0
run readers_writers --readers 100 --writers 100 --rounds 3 --time-unit 0
expect_status 0

run readers_writers --verbose --time-unit 0 --rounds 1
expect_status 0
expect_text 'reader 1 wants to come in' 'reader 5 reads' 'writer 1 writes' 'writer 2 goes home'

expect_help readers_writers --readers --writers --rounds --seed --time-unit --verbose

expect_refusal "--readers: '0' is not a whole number from 1 to 100" readers_writers --readers 0
expect_refusal "--writers: '101' is not a whole number from 1 to 100" readers_writers --writers 101
expect_refusal "--rounds: 'many' is not a whole number from 1 to 1000" readers_writers --rounds many
expect_refusal 'not expected: --speed' readers_writers --speed

finish
