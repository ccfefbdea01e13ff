#!/bin/bash
# Tests the README: its code equals that of readme.cpp, its outputs equal those of the examples, and it names every header
# and every example. $1 is the directory of the examples.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=support/check.sh
source "$(dirname "$0")/support/check.sh" "$1"

here=$(cd "$(dirname "$0")" && pwd)
root=${here%/test/examples}
readme=$(< "$root/README.md")

# shellcheck disable=SC2016  # marks of Markdown
code=$(sed -n '/^```cpp$/,/^```$/ { /^```/!p }' <<< "$readme")
compiled=$(sed -n '/^\/\/ \[README\]$/,/^\/\/ \[README\]$/ { /^\/\/ \[README\]$/!p }' "$here/readme.cpp")
[[ $code == "$compiled" ]] || complain "the code of the README is
$code
instead of
$compiled"

# A block with a program's output begins with the command.
shown=0
while IFS= read -r line; do
  if [[ $line == '$ '* ]]; then
    read -ra words <<< "${line#'$ '}"
    run "${words[@]}"
    rest=$output$'\n'
    ((shown += 1))
  elif [[ $line == '```'* ]]; then
    rest=
  elif [[ -n ${rest:-} ]]; then
    expected=${rest%%$'\n'*}
    rest=${rest#*$'\n'}
    [[ $line == "$expected" ]] || complain "the README says '$line' where $command_line says '$expected'"
  fi
done <<< "$readme"
((shown > 0)) || complain 'the README shows no output of an example'

for path in "$root"/include/turnstile/*.hpp; do
  header=${path##*/}
  [[ $readme == *"$header"* ]] || complain "the README does not name $header"
done

for path in "$root"/examples/*.cpp; do
  name=$(basename "$path" .cpp)
  [[ $readme == *"$name"* ]] || complain "the README does not name the example $name"
done

finish
