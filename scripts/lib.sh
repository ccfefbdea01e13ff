# shellcheck shell=bash
# Shared by the scripts in this folder, which source it; not a program itself.
# It goes to the root of the tree, where every script expects to be.

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

# Where scripts/setup leaves a redis-server if the system has none.
PATH=$PATH:$PWD/build/_deps/redis

# How much to build and test at once.
# shellcheck disable=SC2034  # for those who source this
jobs=${JOBS:-$(nproc)}

# The folder below which the headers of an unpacked Boost lie; without argument, those of the one
# that the presets use.
boost_prefix() {
  echo "$PWD/build/_deps/boost${1:+-$1}/usr"
}

heading() {
  printf '\n=== %s\n' "$*"
}

fail() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 1
}

# All C++ files of the tree, also those that are not committed yet.
cpp_files() {
  find . \( -path ./build -o -path ./.git \) -prune -o -name '*.[ch]pp' -printf '%P\n' | sort
}
