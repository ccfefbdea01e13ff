#!/bin/bash
# Checks that a body or predicate that the compiler would destroy twice is rejected with the remedy, if the compiler has
# this defect. Wrong completion tokens, and executors that cannot be the fallback of an object, are rejected in a few
# lines.
set -euo pipefail
# This script searches for English messages of the compiler.
export LC_ALL=C
compiler=$1 include=$2 boost=$3 source=$4 refuses_temporaries=$5

compile() {
  "$compiler" -std=c++20 -fsyntax-only -I"$include" -isystem "$boost" "$@" "$source" 2>&1
}

failures=0

fail() {
  echo "$1" && failures=$((failures + 1))
}

compile || fail 'what is safe does not compile'

for macro in WITH_LOCK WITH_PERMIT ASYNC_WITH ASYNC_WAIT ASYNC_WAIT_FOR SECTION_WAIT; do
  if said=$(compile "-D$macro"); then
    [[ $refuses_temporaries == OFF ]] || fail "$macro: compiles"
  elif [[ $refuses_temporaries == OFF ]]; then
    fail "$macro: does not compile: $said"
  elif ! grep -q 'name the lambda and pass its name, or std::ref' <<< "$said"; then
    fail "$macro: the compiler does not name the remedy but says: $said"
  fi
done

for macro in LOCK_TOKEN PERMIT_TOKEN MONITOR_TOKEN; do
  if said=$(compile "-D$macro"); then
    fail "$macro: compiles"
  elif grep -q 'async_result.hpp' <<< "$said" && (($(grep -c 'error:' <<< "$said") > 2)); then
    fail "$macro: the compiler complains of what is inside: $said"
  fi
done

if said=$(compile -DCOMPLETION_EXECUTOR); then
  fail 'COMPLETION_EXECUTOR: compiles'
elif ! grep -q 'fallback_executor' <<< "$said" || (($(grep -c 'error:' <<< "$said") > 2)); then
  fail "COMPLETION_EXECUTOR: the compiler does not name the concept, or complains of what is inside: $said"
fi

((failures == 0))
