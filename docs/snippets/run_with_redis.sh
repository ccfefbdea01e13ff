#!/bin/bash
# Runs a program with a separate Redis server, as a user that has only the permissions in docs/redis.md.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=../../scripts/redis.sh
source "$(dirname "$0")/../../scripts/redis.sh"
start_redis
eval "$(sed -n '/^redis-cli ACL SETUSER/,/^```/{/^```/d;s|^redis-cli|& -s "${redis_url#unix://}"|;p}' "$(dirname "$0")/../redis.md")" |
  grep -qx OK
# The program does not test times: a pause of the program or the server must not end a lease, a connection or the wait
# for an answer.
times='lease=5min&claim_lease=1min&health_check=1min&connect_timeout=1min'
TURNSTILE_REDIS_URL="${redis_url/unix:\/\//unix://app:secret@}?$times" "$@"
