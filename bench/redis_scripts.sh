#!/bin/bash
# Counts the instructions that operations cost the server or the client, with callgrind.
#
#   bench/redis_scripts.sh BUILD JSON [CASE...]
#
# scripts/bench calls it with the build directory, the path of the JSON file and the cases to count;
# without cases, all of them.
set -euo pipefail

program=$1/bench/bench_redis_scripts
json=$2
shift 2
if [[ ${1:-} == --list ]]; then
  exec "$program" --list
fi
server=$(command -v "${TURNSTILE_REDIS_SERVER:-redis-server}")

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
counted=(valgrind --tool=callgrind --callgrind-out-file=/dev/null --log-file="$folder/log")
cat > "$folder/redis-server" << END
#!/bin/bash
exec ${counted[@]} "$server" "\$@" --hz 1 --dynamic-hz no
END
chmod +x "$folder/redis-server"

# instructions CASE COUNT: prints the instructions of the server, or of the client, for COUNT
# operations, its start included.
instructions() {
  if [[ $1 = "client: "* ]]; then
    TURNSTILE_REDIS_SERVER=$server "${counted[@]}" "$program" --case "$1" --count "$2"
  else
    TURNSTILE_REDIS_SERVER="$folder/redis-server" "$program" --case "$1" --count "$2"
  fi
  sed -n 's/.*Collected : *//p' "$folder/log"
}

if (($#)); then
  cases=("$@")
else
  mapfile -t cases < <("$program" --list)
fi

arguments=()
for case in "${cases[@]}"; do
  few=$(instructions "$case" 200)
  many=$(instructions "$case" 1200)
  arguments+=(--instructions "$case=$(((many - few) / 1000))")
done
"$program" --json "$json" "${arguments[@]}"
