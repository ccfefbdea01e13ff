#!/bin/bash
# Makes the package and looks whether it has what a user includes and what CMake looks for.
set -euo pipefail
cpack=$1 build=$2

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

"$cpack" --config "$build/CPackConfig.cmake" -B "$dir"
contents=$(dpkg-deb --contents "$dir"/libturnstile-dev_*_all.deb)
for file in include/turnstile/error.hpp share/cmake/turnstile/turnstileConfig.cmake; do
  grep -q " ./usr/$file$" <<< "$contents" || { echo "missing: $file" && exit 1; }
done
