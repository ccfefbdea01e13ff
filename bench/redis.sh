#!/bin/bash
# Runs bench_redis with the programs of those other locks that are installed.
#
#   bench/redis.sh BUILD JSON [ARGUMENT...]
#
# scripts/bench calls it with the build directory, the path of the JSON file and the
# program's arguments.
set -euo pipefail

build=$1
json=$2
shift 2

peers=(--peer "turnstile=$build/bench/bench_redis_workers")

# Debian's package belongs to Debian's Python, which need not be the first in the PATH.
python=
for each in /usr/bin/python3 python3; do
  if "$each" -c 'import redis.lock' 2> /dev/null; then
    python=$each
    break
  fi
done
if [[ -n $python ]]; then
  peers+=(--peer "redis-py=$python bench/peers_redis/redis_py.py")
else
  peers+=(--peer 'redis-py!no python3 with the package redis (Debian: python3-redis)')
fi

modules=build/_deps/npm/node_modules
for each in redis-semaphore redlock; do
  if command -v node > /dev/null && [[ -d $modules/$each && -d $modules/ioredis ]]; then
    peers+=(--peer "$each=env NODE_PATH=$modules node bench/peers_redis/node.js $each")
  else
    peers+=(--peer "$each!no node, or scripts/setup could not install the package with npm")
  fi
done

"$build/bench/bench_redis" --json "$json" "${peers[@]}" "$@"
