# shellcheck shell=bash
# Functions for the tests of the examples, which source this file with the examples' directory as $1.

examples=$1
failures=0

# complain TEXT...
complain() {
  printf 'FAILED: %s\n' "$*"
  failures=$((failures + 1))
}

# run PROGRAM ARGUMENT... sets $status, $output and $errors
run() {
  command_line=$*
  local errors_file
  errors_file=$(mktemp)
  status=0
  output=$("$examples/$1" "${@:2}" 2> "$errors_file") || status=$?
  errors=$(< "$errors_file")
  rm "$errors_file"
}

# run_with_kills PROGRAM ARGUMENT... for a program that kills some of its processes. Repeats the run if all of them ended
# before the first kill, because the machine was busy.
run_with_kills() {
  for _ in 1 2 3; do
    run "$@"
    [[ $output != *'killed: '[1-9]* ]] || return 0
  done
  complain "$command_line killed nobody: $output"
}

# expect_status NUMBER
expect_status() {
  ((status == $1)) || complain "$command_line returned $status instead of $1: $output $errors"
}

# expect_output TEXT
expect_output() {
  [[ $output == "$1" ]] || complain "$command_line wrote
$output
instead of
$1"
}

# expect_text TEXT... each TEXT occurs in the output
expect_text() {
  local text
  for text; do
    [[ $output == *"$text"* ]] || complain "$command_line did not write '$text' but
$output"
  done
}

# expect_help PROGRAM OPTION...
expect_help() {
  run "$1" --help
  expect_status 0
  expect_text "Usage: $1" "${@:2}"
}

# expect_refusal TEXT PROGRAM ARGUMENT... the program fails, its error contains TEXT, and there is no output
expect_refusal() {
  run "${@:2}"
  ((status != 0)) || complain "$command_line did not fail"
  [[ -z $output ]] || complain "$command_line went on: $output"
  [[ $errors == *"$1"* ]] || complain "$command_line said '$errors' instead of '$1'"
}

# expect_server_errors PROGRAM the program names the reason why it cannot use a server
expect_server_errors() {
  expect_refusal 'redis://127.0.0.1:1: the server cannot be reached' "$1" --redis redis://127.0.0.1:1
  # shellcheck disable=SC2154  # start_redis sets the variable
  expect_refusal 'the server refuses user and password' "$1" --redis "${redis_url%%\?*}?user=nobody&password=wrong"
  expect_refusal 'rediss://127.0.0.1:1: the examples use neither TLS nor sentinels' "$1" --redis rediss://127.0.0.1:1
  expect_refusal 'the examples use neither TLS nor sentinels' "$1" --redis redis+sentinel://127.0.0.1:1/master
}

# The end of a test.
finish() {
  ((failures == 0))
}
