#!/bin/bash
# Builds the packages, with the umask of a careful builder, and checks that they contain the headers and the files that
# CMake looks for, in folders that each user can read.
set -euo pipefail
cpack=$1 build=$2 redis=$3 service=$4 cli=$5

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# expect PACKAGE FILE...: the package contains the files below /usr.
expect() {
  local contents file
  contents=$(dpkg-deb --contents "$1")
  for file in "${@:2}"; do
    grep -q " ./usr/$file$" <<< "$contents" || { echo "$1 lacks $file" && exit 1; }
  done
}

umask 077
"$cpack" --config "$build/CPackConfig.cmake" -B "$dir"

for package in "$dir"/*.deb; do
  name=$(dpkg-deb --field "$package" Package)
  expect "$package" "share/doc/$name/copyright"
  if dpkg-deb --contents "$package" | grep '^d' | grep -v '^drwxr-xr-x'; then
    echo "$package: folders with the builder's umask" && exit 1
  fi
done

expect "$dir"/libturnstile-dev_*_all.deb include/turnstile/error.hpp \
  share/cmake/turnstile/turnstileConfig.cmake
if dpkg-deb --contents "$dir"/libturnstile-dev_*_all.deb | grep redis; then
  echo "in the wrong package" && exit 1
fi

if [[ $redis == ON ]]; then
  expect "$dir"/libturnstile-redis-dev_*_"$(dpkg --print-architecture)".deb \
    include/turnstile/redis/config.hpp 'lib/libturnstile_redis\..*' \
    share/cmake/turnstile/turnstileRedisTargets.cmake share/cmake/turnstile/turnstileRedisBoost.cmake
fi

if [[ $service == 1 ]]; then
  package=$(echo "$dir"/turnstile-server_*_"$(dpkg --print-architecture)".deb)
  expect "$package" bin/turnstile-server share/man/man1/turnstile-server.1 \
    lib/systemd/system/turnstile-server.service \
    share/bash-completion/completions/turnstile-server \
    share/doc/turnstile-server/examples/turnstile-server.conf
  dpkg-deb --field "$package" Depends | grep -q libssl
  dpkg-deb --field "$package" Description | grep -q HTTP
  # The package is complete: the server needs no library of another package of this project.
  dpkg-deb --extract "$package" "$dir/server"
  "$dir/server/usr/bin/turnstile-server" --help > /dev/null
fi

if [[ $cli == 1 ]]; then
  package=$(echo "$dir"/turnstile-cli_*_"$(dpkg --print-architecture)".deb)
  expect "$package" bin/turnstile share/man/man1/turnstile.1 share/bash-completion/completions/turnstile
  dpkg-deb --extract "$package" "$dir/cli"
  "$dir/cli/usr/bin/turnstile" --help > /dev/null
fi
