#!/bin/bash
# Checks that turnstile/fwd.hpp includes only any_io_executor, the default of its templates, and that
# turnstile/redis/fwd.hpp includes nothing.
set -euo pipefail
compiler=$1 include=$2 boost=$3

# included_by HEADER: prints the files that the header includes, directly or indirectly.
included_by() {
  # The compiler puts a backslash before a space in a path.
  "$compiler" -std=c++20 -I"$include" -isystem "$boost" -x c++ -M - <<< "#include <$1>" |
    sed 's/\\ /_/g' | tr -s ' \\' '\n' | grep / | sort
}

# Detects an empty list of files.
[[ $(included_by turnstile/fwd.hpp) == *turnstile/fwd.hpp* ]] || { echo 'fwd.hpp is not included' && exit 1; }

more=$(comm -23 <(included_by turnstile/fwd.hpp) <(included_by boost/asio/any_io_executor.hpp) | grep -v 'turnstile/fwd.hpp$' || true)
more+=$(included_by turnstile/redis/fwd.hpp | grep -v -e 'turnstile/redis/fwd.hpp$' -e stdc-predef || true)
[[ -z $more ]] || { echo 'included, and should not be:' && echo "$more" && exit 1; }
