#!/bin/bash
# Counts the instructions that g++ needs for each public header, compared with the two headers of Asio that each user
# of coroutines includes.
#
#   bench/headers.sh BUILD JSON [HEADER...]
#
# scripts/bench calls it with the build directory, the path of the JSON file and the headers to measure, such as
# redis/monitor.hpp; without headers, all of them. Each value is for a source that only includes the header, without
# optimization. Callgrind counts, so the figures do not depend on the load of the machine; a header takes about half a
# minute.
set -euo pipefail

json=$2
shift 2
bar=1.4
baseline='asio: awaitable.hpp and steady_timer.hpp'

# shellcheck source=scripts/lib.sh
source scripts/lib.sh
options=(-std=c++20 -O0 -S -x c++ -o /dev/null -Iinclude)
if [[ ${Boost_ROOT-} ]]; then
  options+=(-isystem "$Boost_ROOT/include")
elif [[ -d $(boost_prefix)/include ]]; then
  options+=(-isystem "$(boost_prefix)/include")
fi

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# count NAME HEADER...: writes the instructions, in millions, for a source with these headers to the file NAME.
count() {
  local log=$folder/${1//\//_}
  local name=$log.count
  shift
  printf '#include <%s>\n' "$@" |
    g++ -wrapper "valgrind,--tool=callgrind,--callgrind-out-file=/dev/null,--log-file=$log" "${options[@]}" - ||
    fail "cannot compile: $*"
  awk '/Collected :/ { printf "%d\n", $NF / 1000000 }' "$log" > "$name"
}

if (($#)); then
  headers=("$@")
else
  mapfile -t headers < <(cd include/turnstile && printf '%s\n' *.hpp redis/*.hpp)
fi

count base boost/asio/awaitable.hpp boost/asio/steady_timer.hpp
base=$(< "$folder/base.count")
# Each of the processes takes every jobs-th header.
processes=()
for ((first = 0; first < jobs; ++first)); do
  for ((i = first; i < ${#headers[@]}; i += jobs)); do
    count "${headers[i]}" "turnstile/${headers[i]}"
  done &
  processes+=($!)
done
for process in "${processes[@]}"; do
  wait "$process"
done

separator='['
for header in "${headers[@]}"; do
  value=$(< "$folder/${header//\//_}.count")
  ratio=$(awk -v own="$value" -v base="$base" 'BEGIN { printf "%.3f", own / base }')
  met=$(awk -v ratio="$ratio" -v bar="$bar" 'BEGIN { print ratio <= bar ? "true" : "false" }')
  printf '%-32s %6s million   %.2f  %s\n' "$header" "$value" "$ratio" "$([[ $met == true ]] || echo 'bar missed')"
  printf '%s\n  {"case": "turnstile/%s", "value": %s, "unit": "million instructions", "baseline": "%s", "ratio": %s, "bar": %s, "met": %s}' \
    "$separator" "$header" "$value" "$baseline" "$ratio" "$bar" "$met" >> "$folder/json"
  separator=','
done
{ cat "$folder/json" && printf '\n]\n'; } > "$json"
