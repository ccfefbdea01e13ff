# shellcheck shell=bash
# Starts a private Redis server for the script that sources this file, on a unix socket in a temporary folder.

# start_redis [OPTION...]   sets $redis_url to the server's URL; the server ends with the script
start_redis() {
  redis_folder=$(mktemp -d)
  # Debian's redis-tools contains the server under another name.
  redis_command=("$(command -v redis-server || command -v redis-check-rdb)" --port 0
    --unixsocket "$redis_folder/redis.sock" --dir "$redis_folder" --save '' --loglevel warning "$@")
  trap 'kill_redis; rm -rf "$redis_folder"' EXIT
  run_redis
  # shellcheck disable=SC2034  # for the script that sources this
  redis_url=unix://$redis_folder/redis.sock
}

# Kills the server, and starts it again with what it has stored.
restart_redis() {
  kill_redis
  run_redis
}

kill_redis() {
  kill -KILL "$redis_pid" 2> /dev/null || true
  wait "$redis_pid" 2> /dev/null || true
}

run_redis() {
  local waited
  (exec -a redis-server "${redis_command[@]}" > "$redis_folder/log" 2>&1) &
  redis_pid=$!
  # While a server still reads its files, it answers with an error.
  for ((waited = 0; waited < 1000; ++waited)); do
    if [[ $(redis-cli -s "$redis_folder/redis.sock" ping 2> /dev/null) == PONG ]]; then
      forget_cut_script
      return
    fi
    sleep 0.02
  done
  cat "$redis_folder/log" >&2
  echo 'redis-server did not start' >&2
  return 1
}

# See docs/failures.md: otherwise, the server would execute a part of a script after the next restart.
forget_cut_script() {
  grep -q 'Truncating the AOF' "$redis_folder/log" || return 0
  redis-cli -s "$redis_folder/redis.sock" bgrewriteaof > /dev/null
  while redis-cli -s "$redis_folder/redis.sock" info persistence |
    grep -qE 'aof_rewrite_(in_progress|scheduled):1'; do
    sleep 0.02
  done
}
