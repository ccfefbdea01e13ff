#!/bin/bash
# Runs bench_local. If valgrind is installed, counts the instructions of uncontended pairs before.
#
#   bench/local.sh BUILD JSON [ARGUMENT...]
#
# scripts/bench calls it with the build directory, the path of the JSON file and the
# program's arguments.
set -euo pipefail

program=$1/bench/bench_local
json=$2
shift 2

# Prints the number of instructions for the given number of pairs, the program's start included.
instructions() {
  local kind=$1 pairs=$2 output
  output=$(valgrind --tool=callgrind --callgrind-out-file=/dev/null "$program" --kind "$kind" --pairs "$pairs" 2>&1)
  sed -n 's/.*Collected : *//p' <<< "$output"
}

# The difference of two runs cancels the program's start.
instructions_per_pair() {
  awk -v many="$(instructions "$1" 11000)" -v few="$(instructions "$1" 1000)" \
    'BEGIN { print (many - few) / 10000 }'
}

arguments=()
if command -v valgrind > /dev/null; then
  for kind in 'uncontended '{async_lock,async_acquire}', '{any,typed}; do
    arguments+=(--instructions "$kind=$(instructions_per_pair "$kind")")
  done
else
  echo "no valgrind: instructions are not counted"
fi
"$program" --json "$json" "${arguments[@]}" "$@"
