#!/bin/bash
# Tests the example producer_consumer; $1 is the directory of the examples.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=support/check.sh
source "$(dirname "$0")/support/check.sh" "$1"

# In the chart, each producer makes $1 items, and all of them are consumed. In each row, every stretch of = or
# # is one item.
expect_items_in_chart() {
  awk -v command="$command_line" -v each="$1" '
    /longest wait/ { exit }
    /^(producer|consumer) [0-9]+ / { rows[$1 " " $2] = rows[$1 " " $2] substr($0, 13, 60) }
    END {
      for (name in rows) {
        row = rows[name]
        made = gsub(/=+/, "", row)
        consumed += gsub(/#+/, "", row)
        if (name ~ /^producer/) {
          all += each
          if (made != each) {
            print "FAILED: " command ": " name " made " made " items: " rows[name]
            wrong = 1
          }
        }
      }
      if (!all || consumed != all) {
        print "FAILED: " command ": " consumed " of " all " items were consumed"
        wrong = 1
      }
      exit wrong
    }' <<< "$output" || failures=$((failures + 1))
}

run producer_consumer
expect_status 0
expect_text 'producer 1      5 ' 'producer 3      5 ' 'All 15 items were consumed in ' 'each once and in order' \
  'of 3 slots were taken at once, and in the end all of them are free.'
expect_items_in_chart 5
default_output=$output

# The speed of time does not affect the result; the seed does.
run producer_consumer --time-unit 0
expect_output "$default_output"
run producer_consumer --producers 3 --consumers 2 --slots 3 --rounds 5 --seed 1 --time-unit 0
expect_output "$default_output"
run producer_consumer --seed 7
expect_status 0
[[ $output != "$default_output" ]] || complain 'the seed changes nothing'

# More producers than slots, and few consumers: all slots are used, and no item is put on a full shelf.
for seed in {0..19}; do
  run producer_consumer --seed "$seed" --producers 6 --consumers 1 --slots 2 --rounds 10 --time-unit 0
  expect_status 0
  expect_text 'All 60 items were consumed' 'At most 2 of 2 slots'
done

# Most of the many consumers get nothing, and all of them stop.
run producer_consumer --producers 1 --consumers 100 --rounds 1 --time-unit 0
expect_status 0
expect_text 'All 1 items were consumed' 'consumer 100      0 '
run producer_consumer --producers 100 --consumers 100 --slots 1 --rounds 3 --time-unit 0
expect_status 0
expect_text 'All 300 items were consumed' 'At most 1 of 1 slots'

run producer_consumer --verbose --time-unit 0 --rounds 1
expect_status 0
expect_text 'producer 1 waits' 'producer 2 has a slot and makes an item' \
  'producer 3 puts the item on the shelf' 'consumer 1 goes to the shelf for an item' \
  'consumer 2 consumes an item' 'consumer 2 leaves'

expect_help producer_consumer --producers --consumers --slots --rounds --seed --time-unit --verbose

expect_refusal "--producers: '0' is not a whole number from 1 to 100" producer_consumer --producers 0
expect_refusal "--consumers: '101' is not a whole number from 1 to 100" producer_consumer --consumers 101
expect_refusal "--slots: '0' is not a whole number from 1 to 1000" producer_consumer --slots 0
expect_refusal "--rounds: 'many' is not a whole number from 1 to 1000" producer_consumer --rounds many
expect_refusal 'not expected: item' producer_consumer item

finish
