#!/bin/bash
# Measures how long each public header takes to compile, compared with the two headers of Asio that each user of
# coroutines includes.
#
#   bench/headers.sh BUILD JSON [HEADER...]
#
# scripts/bench calls it with the build directory, the path of the JSON file and the headers to measure, such as
# redis/monitor.hpp; without headers, all of them. Each value is the processor time of a source that only includes the
# header, without optimization. The sources are compiled by turns, and each ratio is the median of 3 rounds.
set -euo pipefail

json=$2
shift 2
cxx=${CXX:-g++}
rounds=3
bar=1.4
baseline='asio: awaitable.hpp and steady_timer.hpp'

# shellcheck source=scripts/lib.sh
source scripts/lib.sh
options=(-std=c++20 -O0 -c -o /dev/null -Iinclude)
if [[ ${Boost_ROOT-} ]]; then
  options+=(-isystem "$Boost_ROOT/include")
elif [[ -d $(boost_prefix)/include ]]; then
  options+=(-isystem "$(boost_prefix)/include")
fi

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# milliseconds HEADER...: prints the processor time that a source with these headers takes.
milliseconds() {
  printf '#include <%s>\n' "$@" > "$folder/source.cpp"
  { TIMEFORMAT='%3U %3S' && time "$cxx" "${options[@]}" "$folder/source.cpp" 2> "$folder/errors"; } 2> "$folder/time" ||
    fail "$(cat "$folder/errors")"
  awk '{ printf "%d\n", ($1 + $2) * 1000 }' "$folder/time"
}

median() {
  sort -g | awk '{ value[NR] = $1 } END { print value[int((NR + 1) / 2)] }'
}

if (($#)); then
  headers=("$@")
else
  mapfile -t headers < <(cd include/turnstile && printf '%s\n' *.hpp redis/*.hpp)
fi

for ((round = 0; round < rounds; ++round)); do
  for header in "${headers[@]}"; do
    base=$(milliseconds boost/asio/awaitable.hpp boost/asio/steady_timer.hpp)
    own=$(milliseconds "turnstile/$header")
    echo "$own" >> "$folder/${header//\//_}.times"
    awk -v own="$own" -v base="$base" 'BEGIN { print own / base }' >> "$folder/${header//\//_}.ratios"
  done
done

separator='['
for header in "${headers[@]}"; do
  value=$(median < "$folder/${header//\//_}.times")
  ratio=$(median < "$folder/${header//\//_}.ratios")
  met=$(awk -v ratio="$ratio" -v bar="$bar" 'BEGIN { print ratio <= bar ? "true" : "false" }')
  printf '%-32s %6s ms   %.2f  %s\n' "$header" "$value" "$ratio" "$([[ $met == true ]] || echo 'bar missed')"
  printf '%s\n  {"case": "turnstile/%s", "value": %s, "unit": "ms", "baseline": "%s", "ratio": %.3f, "bar": %s, "met": %s}' \
    "$separator" "$header" "$value" "$baseline" "$ratio" "$bar" "$met" >> "$folder/json"
  separator=','
done
{ cat "$folder/json" && printf '\n]\n'; } > "$json"
