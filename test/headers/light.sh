#!/bin/bash
# Checks that no file that a source includes directly or indirectly is forbidden in public headers.
set -euo pipefail
compiler=$1 include=$2 boost=$3 source=$4

files=$("$compiler" -std=c++20 -I"$include" -isystem "$boost" -M "$source" | tr -s ' \\' '\n')
# Detects an empty list of files.
grep -q '/turnstile/redis/config.hpp$' <<< "$files" || { echo "config.hpp is not included" && exit 1; }

if heavy=$(grep -E '/boost/(redis|json)[/.]|/openssl/|/asio/ssl' <<< "$files"); then
  echo "included, and should not be:" && echo "$heavy"
  exit 1
fi
