#!/bin/bash
# Compares turnstile-server with a bare server of Boost.Beast and, if Node.js is installed, with one of Node.js, and
# measures its memory. Needs wrk.
#
#   bench/service.sh BUILD JSON [SECONDS]
#
# scripts/bench calls it with the build directory, the path of the JSON file and the duration of each run in seconds.
set -euo pipefail

build=$1 json=$2 seconds=${3:-3}
program=$build/bench/bench_service
port=19870
rounds=3

folder=$(mktemp -d)
server=
stop() {
  [[ -n $server ]] || return 0
  { kill "$server" && wait "$server" || true; } 2> /dev/null
  server=
}
trap 'stop; rm -rf "$folder"' EXIT
ulimit -n "$(ulimit -Hn)"

# The server and its clients have one core each, so that the scheduler cannot change the figures.
first=() second=()
if (($(nproc) > 1)); then
  first=(taskset -c 0) second=(taskset -c 1)
fi

cat > "$folder/up.lua" << 'END'
wrk.method = "POST"
wrk.body = '{"name":"a"}'
wrk.headers["Content-Type"] = "application/json"
END

# start COMMAND...: returns when the server listens.
start() {
  "${first[@]}" "$@" > /dev/null 2>> "$folder/log" &
  server=$!
  until (exec 3<> "/dev/tcp/127.0.0.1/$port") 2> /dev/null; do
    kill -0 "$server"
    sleep 0.05
  done
}

start_kind() {
  case $1 in
    turnstile) start "$build/turnstile-server" --port $port ;;
    Beast) start "$program" bare $port ;;
    Node.js) start node bench/service.js $port ;;
  esac
}

memory() {
  awk '/^VmRSS/ { print $2 }' "/proc/$server/status"
}

kinds=(turnstile Beast)
! command -v node > /dev/null || kinds+=(Node.js)

# The rounds alternate, so that a slow period of the machine affects all servers.
for ((round = 0; round < rounds; ++round)); do
  for kind in "${kinds[@]}"; do
    start_kind "$kind"
    (exec 3<> "/dev/tcp/127.0.0.1/$port"
     body='{"name":"a","value":1}'
     printf 'POST /semaphore HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s' \
       ${#body} "$body" >&3
     head -c 12 <&3 > /dev/null)
    for connections in 1 32; do
      "${second[@]}" wrk --latency -t 1 -c "$connections" -d "$seconds" -s "$folder/up.lua" \
        "http://127.0.0.1:$port/semaphore/up" > "$folder/out"
      # wrk prints latencies as 12.34us, 1.23ms or 0.98s.
      awk '/Requests\/sec/ { print $2 }' "$folder/out" >> "$folder/$kind.$connections.rate"
      awk '/ 99%/ { v = $2 + 0; if ($2 ~ /us/) f = 1; else if ($2 ~ /ms/) f = 1e3; else f = 1e6; print v * f }' \
        "$folder/out" >> "$folder/$kind.$connections.p99"
      ! grep -q 'Non-2xx\|Socket errors' "$folder/out" || { cat "$folder/out" && exit 1; }
    done
    stop
  done
done

median() {
  sort -g "$1" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}

rows=()
# row CASE VALUE UNIT [BASELINE BASELINE_VALUE [BAR least|most]]: value / baseline, and whether it keeps the bar.
row() {
  local text
  text=$(awk -v c="$1" -v v="$2" -v u="$3" -v b="${4:-}" -v bv="${5:-}" -v bar="${6:-}" -v side="${7:-}" 'BEGIN {
    ratio = b == "" ? "null" : sprintf("%.2f", v / bv)
    if (bar == "") { bar = met = "null" }
    else {
      x = b == "" ? v : v / bv
      met = (side == "least" ? x >= bar : x <= bar) ? "true" : "false"
    }
    printf "{\"case\": \"%s\", \"value\": %s, \"unit\": \"%s\", \"baseline\": %s, \"ratio\": %s, \"bar\": %s, \"met\": %s}",
      c, v, u, b == "" ? "null" : "\"" b "\"", ratio, bar, met
  }')
  rows+=("$text")
  echo "$text"
}

for connections in 1 32; do
  ours=$(median "$folder/turnstile.$connections.rate")
  slow=$(median "$folder/turnstile.$connections.p99")
  beast=$(median "$folder/Beast.$connections.rate")
  bar=()
  ((connections == 1)) || bar=(0.8 least)
  row "up, $connections connections" "$ours" "requests/s" "bare Beast server" "$beast" "${bar[@]}"
  if [[ -f $folder/Node.js.$connections.rate ]]; then
    bar=()
    ((connections == 1)) || bar=(1 least)
    row "up, $connections connections" "$ours" "requests/s" "Node.js server" \
      "$(median "$folder/Node.js.$connections.rate")" "${bar[@]}"
  fi
  bar=()
  ((connections == 1)) || bar=(2 most)
  row "p99 of up, $connections connections" "$slow" "us" "bare Beast server" \
    "$(median "$folder/Beast.$connections.p99")" "${bar[@]}"
  row "bare Beast server, $connections connections" "$beast" "requests/s"
done

start_kind turnstile
row "memory of an idle server" "$(memory)" "KiB" "" "" 15360 most
"$program" create $port 100000
row "memory with 100,000 semaphores" "$(memory)" "KiB"
stop

start "$build/turnstile-server" --port $port
coproc waiters { "$program" wait $port 10000; }
read -r ready <&"${waiters[0]}"
[[ $ready == ready ]]
row "memory with 10,000 waiting clients" "$(memory)" "KiB"
stop
kill "$waiters_PID" 2> /dev/null || true

{
  echo "["
  for ((i = 0; i < ${#rows[@]}; ++i)); do
    echo "  ${rows[i]}$( ((i + 1 == ${#rows[@]})) || echo ,)"
  done
  echo "]"
} > "$json"
