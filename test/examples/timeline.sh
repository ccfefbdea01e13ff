#!/bin/bash
# Tests scripts/timeline: from a new run of readers_writers it draws the picture of the README again, which is XML, has
# a bar for each turn, and shows each writer alone. $1 is the directory of the examples.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=support/check.sh
source "$(dirname "$0")/support/check.sh" "$1"

here=$(cd "$(dirname "$0")" && pwd)
root=${here%/test/examples}

# draw ARGUMENT... sets $picture to the picture of a run
draw() {
  run readers_writers --time-unit 0 --verbose "$@"
  expect_status 0
  picture=$("$root/scripts/timeline" <<< "$output") || complain "scripts/timeline failed for $command_line"
}

# expect_bars CLASS NUMBER
expect_bars() {
  local number
  number=$(grep -c "<rect class=\"$1\" .*<title>" <<< "$picture" || true)
  ((number == $2)) || complain "$command_line: $number bars '$1' instead of $2"
}

# Reads the picture as XML; a writer's bar overlaps no other bar of a reader or writer.
expect_writers_alone() {
  python3 -c '
import sys, xml.etree.ElementTree as tree
svg = "{http://www.w3.org/2000/svg}"
bars = [(bar.get("class"), float(bar.get("x")), float(bar.get("width"))) for bar in tree.parse(sys.stdin).iter(svg + "rect")
        if bar.find(svg + "title") is not None and bar.get("class") != "waits"]
for kind, begin, width in bars:
    beside = sum(x < begin + width and begin < x + other for _, x, other in bars)
    if kind == "writes" and beside != 1:
        sys.exit(f"a writer at {begin} is not alone")' <<< "$picture" || complain "$command_line: the picture is wrong"
}

draw --rounds 3
[[ $picture == "$(< "$root/docs/readers_writers.svg")" ]] ||
  complain 'docs/readers_writers.svg is not the picture of readers_writers --rounds 3'
expect_bars reads 15
expect_bars writes 6
expect_writers_alone

draw --rounds 4 --readers 3 --writers 3 --seed 7
expect_bars reads 12
expect_bars writes 12
expect_writers_alone

for input in '' 'reader 1 reads'; do
  if "$root/scripts/timeline" <<< "$input" > /dev/null 2>&1; then
    complain "scripts/timeline draws a picture of '$input'"
  fi
done

finish
