#!/bin/bash
# Runs the commands of the README's section Install, in order, on this machine. They install packages, and the
# library below /usr/local. scripts/nightly runs this in a bare Debian 12.
set -euo pipefail
unset CDPATH
cd "$(dirname "$0")/../.."

commands=$(awk '
  /^## / { section = $2 }
  section == "Install" && /^```/ { inside = $0 == "```sh"; next }
  inside' README.md)
for expected in scripts/setup 'cmake --install' build/my_service/consumer; do
  grep -qF "$expected" <<< "$commands" || { echo "README.md: no command with '$expected'" && exit 1; }
done
bash -euxo pipefail -c "$commands"
