#!/bin/bash
# Runs bench_local, and counts the instructions of uncontended pairs before, if valgrind is there.
#
#   bench/local.sh BUILD JSON [ARGUMENT...]
#
# Called by scripts/bench with the build directory, the path of the JSON file and the arguments for
# the program.
set -euo pipefail

program=$1/bench/bench_local
json=$2
shift 2

# Of a run with so many pairs.
instructions() {
  local kind=$1 pairs=$2 output
  output=$(valgrind --tool=callgrind --callgrind-out-file=/dev/null "$program" --kind "$kind" --pairs "$pairs" 2>&1)
  sed -n 's/.*Collected : *//p' <<< "$output"
}

# What starting the program costs is the same in both runs.
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
