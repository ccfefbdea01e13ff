#!/bin/bash
# Runs the commands of docs/service.md, Producers and consumers, against a server.
#
#   documented_buffer.sh SERVER ROOT
set -euo pipefail
server=$1 root=$2

export no_proxy=127.0.0.1
folder=$(mktemp -d)
mkfifo "$folder/output"
"$server" --port 0 > "$folder/output" &
running=$!
trap 'kill "$running" || true; rm -rf "$folder"' EXIT
read -r line < "$folder/output"
address=${line##*://}

# shellcheck disable=SC2016  # no expansion is meant
commands=$(sed -n '/^## Producers and consumers/,/^## C/{/^```sh/,/^```$/{/^```/!p}}' "$root/docs/service.md" |
  sed "s/localhost:1880/$address/")
[[ $commands == *"$address"* ]] || { echo "no commands in docs/service.md" && exit 1; }

good=
# The goods are lines of a file: more than there are places, and each consumer takes the first one.
make_one() { (flock 9 && echo "$good" >> "$folder/goods") 9> "$folder/lock"; }
use_one() {
  (flock 9 && head -n 1 "$folder/goods" >> "$folder/used" && sed -i 1d "$folder/goods" &&
    wc -l < "$folder/goods" >> "$folder/left") 9> "$folder/lock"
}
eval "$commands" > /dev/null

clients=()
for i in {1..12}; do
  consume > /dev/null &
  clients+=($!)
  good=$i produce > /dev/null &
  clients+=($!)
done
for client in "${clients[@]}"; do
  wait "$client"
done
[[ $(sort -n "$folder/used") == "$(seq 12)" ]]
(($(sort -n "$folder/left" | tail -n 1) < 3))
[[ $(curl -s "$address/semaphore/value/free" "$address/semaphore/value/goods") == '{"name":"free","value":3}{"name":"goods","value":0}' ]]
