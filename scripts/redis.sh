# shellcheck shell=bash
# Starts a private Redis server for the script that sources this file, on a unix socket in a temporary folder.

# start_redis   sets $redis_url to the server's URL; the server ends with the script
start_redis() {
  local folder command waited
  folder=$(mktemp -d)
  # Debian's redis-tools contains the server under another name.
  command=$(command -v redis-server || command -v redis-check-rdb)
  (exec -a redis-server "$command" --port 0 --unixsocket "$folder/redis.sock" --dir "$folder" --save '' \
    --loglevel warning > "$folder/log" 2>&1) &
  # shellcheck disable=SC2064  # expand now
  trap "kill $! 2> /dev/null; wait $! 2> /dev/null; rm -rf '$folder'" EXIT
  for ((waited = 0; waited < 1000; ++waited)); do
    redis-cli -s "$folder/redis.sock" ping > "$folder/ping" 2> /dev/null && break
    sleep 0.02
  done
  grep -q PONG "$folder/ping" || {
    cat "$folder/log" >&2
    echo 'redis-server did not start' >&2
    return 1
  }
  # shellcheck disable=SC2034  # for the script that sources this
  redis_url=unix://$folder/redis.sock
}
