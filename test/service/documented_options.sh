#!/bin/bash
# Checks that the man page and docs/service.md have the options that --help prints, and that the man page and the sample
# configuration have their environment variables.
#
#   documented_options.sh SERVER ROOT
set -euo pipefail
server=$1 root=$2

# The help is printed whatever the variables are.
help=$(TURNSTILE_MAX_WAIT=5s "$server" --help)
[[ $(TURNSTILE_MAX_WAIT=5s "$server" -h) == "$help" ]]
options=$(grep -oE -- '^ +(-h, *)?--[a-z-]+' <<< "$help" | grep -oE -- '--[a-z-]+' | sort)
variables=$(grep -oE 'Env:TURNSTILE_[A-Z_]+' <<< "$help" | sed 's/Env://' | sort)

# compare NAME EXPECTED FOUND
compare() {
  diff <(echo "$2") <(echo "$3") || { echo "$1 differs from --help" && exit 1; }
}

page=$(sed 's/\\-/-/g' "$root/man/turnstile-server.1")
compare "man page" "$options" "$(grep -E '^\.BR -' <<< "$page" | grep -oE -- '--[a-z-]+' | sort)"
compare "man page" "$variables" "$(grep -E '^\.BR -' <<< "$page" | grep -oE 'TURNSTILE_[A-Z_]+' | sort)"
compare "sample configuration" "$variables" \
  "$(grep -oE '^#TURNSTILE_[A-Z_]+' "$root/dist/turnstile-server.conf" | tr -d '#' | grep -vE 'TOKEN|SECRET' | sort)"
compare docs/service.md "$options" \
  "$({ echo --help && grep -E '^\| `--' "$root/docs/service.md" | grep -oE -- '--[a-z-]+'; } | grep -E '^--[a-z]' | sort)"
