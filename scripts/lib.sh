# shellcheck shell=bash
# The scripts in this folder source this file. It changes to the root of the tree.

# With CDPATH, cd could find another folder of this name.
unset CDPATH
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

# The folder in which scripts/setup installs redis-server if the system has none.
PATH=$PATH:$PWD/build/_deps/redis

# The number of parallel build and test jobs.
# shellcheck disable=SC2034  # for the scripts that source this
jobs=${JOBS:-$(nproc)}

# Prints the folder of the Boost that scripts/setup unpacks: of version $1, or of the one that the
# presets use.
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

# Prints all C++ files of the tree, including uncommitted ones.
cpp_files() {
  find . \( -path ./build -o -path ./.git \) -prune -o -name '*.[ch]pp' -printf '%P\n' | sort
}
