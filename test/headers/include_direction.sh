#!/bin/bash
# Checks that the files of src include only what the table in src/README.md allows, and that no public header of the
# core includes one of the Redis backend.
set -euo pipefail
cd "$1"

# words COLUMN ROW: prints the words in backquotes.
words() {
  cut -d '|' -f "$1" <<< "$2" | { grep -o '`[^`]*`' || true; } | tr -d '`'
}

# included EXPRESSION FOLDER...: prints FILE:LINE:FOLDER for each include that the expression matches.
included() {
  grep -rnoP "^#include $1" "${@:2}" --include='*.[ch]pp' || true
}

rows=$(grep '^| `' src/README.md)
listed=$(cut -d '`' -f 2 <<< "$rows" | sort)
present=$(cd src && find . -mindepth 2 -type f -printf '%P\n' | xargs dirname | cut -d / -f 1,2 | sort -u)
if [[ $listed != "$present" ]]; then
  echo "src/README.md and the folders of src differ:"
  diff <(echo "$listed") <(echo "$present") || true
  exit 1
fi

wrong=$(
  while IFS= read -r row; do
    folder=$(words 2 "$row")
    private=$(words 4 "$row") boost=$(words 5 "$row")
    included '"\K[^"]*(?=/[^/"]*")' "src/$folder" | grep -vE ":(${folder}${private:+|${private//$'\n'/|}})$" || true
    included '<boost/\K\w+' "src/$folder" | grep -vE ":(${boost:+${boost//$'\n'/|}})$" || true
  done <<< "$rows"
  included '<\Kturnstile/redis(?=/)' include/turnstile | grep -v '^include/turnstile/redis/' || true
)
if [[ -n $wrong ]]; then
  echo "The table in src/README.md does not allow:"
  echo "$wrong"
  exit 1
fi
