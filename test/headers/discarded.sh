#!/bin/bash
# Checks that the compiler warns about an operation that is not started, and about a discarded guard, permit, token
# or contribution, with an explanation.
set -euo pipefail
# This script searches for English messages of the compiler.
export LC_ALL=C
compiler=$1 include=$2 boost=$3 source=$4

said=$("$compiler" -std=c++20 -Wall -Wno-unused-function -fsyntax-only -I"$include" -isystem "$boost" "$source" 2>&1)

skipped='// clang++: '
if "$compiler" --version | grep -q clang; then
  skipped=
fi

failures=0
number=0
while IFS= read -r line; do
  number=$((number + 1))
  warning=$(grep "$(basename "$source"):$number:.*warning" <<< "$said" || true)
  if [[ ! $line =~ \;\ *//\ (clang\+\+:\ )?(.*)$ || (-n $skipped && $line == *"$skipped"*) ]]; then
    [[ -z $warning ]] || { echo "an unexpected $warning" && failures=$((failures + 1)); }
  elif ! grep -qF "${BASH_REMATCH[2]}" <<< "$warning"; then
    echo "line $number: no warning '${BASH_REMATCH[2]}' but: $warning" && failures=$((failures + 1))
  fi
done < "$source"

((failures == 0))
