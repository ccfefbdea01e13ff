#!/bin/bash
# Checks that the man page and docs/cli.md have the options that --help prints, and that bash completes them.
#
#   documented.sh PROGRAM ROOT
set -euo pipefail
program=$1 root=$2

options=$(for command in '' run show free; do
  "$program" ${command:+"$command"} --help | grep -oE '^ +(-h, *)?--[a-z-]+' | grep -oE -- '--[a-z-]+'
done | sort -u)

# compare NAME FOUND
compare() {
  diff <(echo "$options") <(echo "$2") || { echo "$1 differs from --help" && exit 1; }
}

page=$(sed 's/\\-/-/g' "$root/man/turnstile.1" | grep -E '^\.BR? -' | grep -oE -- '--[a-z-]+' | sort -u)
compare "man page" "$page"
compare docs/cli.md "$({ echo --help && grep -v '^cmake ' "$root/docs/cli.md" | grep -oE -- '(^| |`)--[a-z-]+' | tr -d ' `'; } | sort -u)"

source "$root/dist/completion.bash"

# complete_line WORD...: prints what bash offers for the last word.
complete_line() {
  COMP_WORDS=("$@")
  COMP_CWORD=$(($# - 1))
  _turnstile "$1"
  echo "${COMPREPLY[*]}"
}
[[ $(complete_line "$program" '') == 'run show free' ]]
[[ $(complete_line "$program" show --k) == --kind ]]
[[ $(complete_line "$program" show --r) == --redis ]]
[[ $(complete_line "$program" run a --ti) == --timeout ]]
[[ -z $(complete_line "$program" run a -- --ti) ]]
