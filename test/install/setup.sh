#!/bin/bash
# Checks that scripts/setup fails if a download fails or stops, and that its next call repairs that. Programs that fail
# stand in for apt-get, dpkg-deb and npm, so that nothing is downloaded or installed.
set -euo pipefail
source=$1

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

mkdir -p "$dir/bin" "$dir/tree/test/service"
cp -r "$source/scripts" "$dir/tree"
cp -r "$source/test/service/page" "$dir/tree/test/service"

# stand_in PROGRAM: creates that program from the lines of the standard input.
stand_in() {
  { echo '#!/bin/bash' && cat; } > "$dir/bin/$1"
  chmod +x "$dir/bin/$1"
}

# This compiler finds no Boost.
stand_in g++ <<< ''
stand_in sudo <<< 'exec "$@"'
stand_in apt-cache <<< 'echo "libboost1.92-dev - headers"'
stand_in apt-get << 'end'
case $* in
  *indextargets*) echo http://debian.example ;;
  *download*) [[ ${APT_FAILS-} ]] && exit 100 || touch libboost1.92-dev_1_all.deb ;;
esac
end
stand_in dpkg-deb << 'end'
mkdir -p "$3/usr/include/boost"
[[ ! ${DPKG_FAILS-} ]]
end
# Kills setup and all of its children in the middle of an installation.
stand_in npm << 'end'
mkdir -p node_modules
[[ ! ${NPM_STOPS-} ]] || kill -KILL 0
touch node_modules/complete
end

# setup PURPOSE [VARIABLE=VALUE...]   runs scripts/setup in a process group of its own
setup() {
  setsid --wait env PATH="$dir/bin:$PATH" "${@:2}" "$dir/tree/scripts/setup" "$1" > "$dir/output" 2>&1
}

complain() {
  echo "$1" && cat "$dir/output" && exit 1
}

unset Boost_ROOT
boost=$dir/tree/build/_deps/boost
for failure in APT_FAILS=1 DPKG_FAILS=1; do
  ! setup build "$failure" || complain "$failure: setup succeeds"
  [[ ! -L $boost && ! -e $boost-1.92 ]] || complain "$failure: a part of Boost stays"
done
setup build || complain 'setup fails after a failure'
[[ -d $boost/usr/include/boost ]] || complain 'there is no Boost'

modules=$dir/tree/build/_deps/playwright/node_modules
! setup test NPM_STOPS=1 || complain 'NPM_STOPS: setup succeeds'
setup test || complain 'setup fails after an interruption'
[[ -e $modules/complete ]] || complain 'an interrupted installation is not repeated'
