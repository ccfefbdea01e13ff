#!/bin/bash
# Runs bench_jobs with the programs of those other job queues that are installed.
#
#   bench/jobs.sh BUILD JSON [ARGUMENT...]
#
# scripts/bench calls it with the build directory, the path of the JSON file and the
# program's arguments.
set -euo pipefail

build=$1
json=$2
shift 2

peers=(--peer "turnstile=$build/bench/bench_jobs_workers")
modules=build/_deps/npm/node_modules
for each in bullmq lists; do
  if command -v node > /dev/null && [[ -d $modules/bullmq && -d $modules/ioredis ]]; then
    peers+=(--peer "$each=env NODE_PATH=$modules node bench/peers_redis/jobs.js $each")
  else
    peers+=(--peer "$each!no node, or scripts/setup could not install the package with npm")
  fi
done

"$build/bench/bench_jobs" --json "$json" "${peers[@]}" "$@"
