#!/bin/bash
# Compares the code blocks of the documentation with the programs that the tests compile and run.
#
#   check.sh [FILE.md...]      default: all pages in the folder above
#
# Each C++ block of a page follows the line
#
#   <!-- snippets/guide.cpp [try_now] -->
#
# and equals the text between the two lines `// [try_now]` of that file, without its common indentation. So every
# block compiles. If all pages are checked, each region must appear in a page.
set -euo pipefail

snippets=$(cd "$(dirname "$0")" && pwd)
pages=("$@")
((${#pages[@]})) || pages=("${snippets%/*}"/*.md)

exec awk -v snippets="$snippets" -v all="$#" '
  function fail(line, text) {
    print page ":" line ": " text > "/dev/stderr"
    failures++
  }

  function complain(file, text) {
    print snippets "/" file ": " text > "/dev/stderr"
    failures++
  }

  # Reads the regions of a source file, once, and the common indentation of each.
  function read_regions(file,    line, name, indent, open, i, rest) {
    if (file in known)
      return
    known[file] = 1
    while ((getline line < (snippets "/" file)) > 0) {
      if (match(line, /^ *\/\/ \[[a-z0-9_]+\]$/)) {
        name = line
        gsub(/^ *\/\/ \[|\]$/, "", name)
        if (name == open) {
          open = ""
          continue
        }
        if (open != "")
          complain(file, "the mark [" open "] is not closed")
        if ((file, name) in count)
          complain(file, "the mark [" name "] is there twice")
        open = name
        count[file, name] = 0
        narrowest[file, name] = 1000
      } else if (open != "") {
        text[file, open, ++count[file, open]] = line
        match(line, /^ */)
        if (line != "" && RLENGTH < narrowest[file, open])
          narrowest[file, open] = RLENGTH
      }
    }
    close(snippets "/" file)
    if (open != "")
      complain(file, "the mark [" open "] is not closed")
  }

  FNR == 1 {
    page = FILENAME
    source = ""
    inside = 0
  }

  !inside && match($0, /^<!-- snippets\/[a-z0-9_]+\.cpp \[[a-z0-9_]+\] -->$/) {
    source = $0
    sub(/^<!-- snippets\//, "", source)
    sub(/ .*/, "", source)
    region = $0
    gsub(/^.*\[|\].*$/, "", region)
    read_regions(source)
    if (!((source, region) in count)) {
      fail(FNR, "there is no region [" region "] in " source)
      source = ""
    }
    shown[source, region] = 1
    next
  }

  !inside && /^```(cpp|c\+\+)/ {
    inside = 1
    number = 0
    if (source == "")
      fail(FNR, "a block of C++ without a region")
    else
      blocks++
    next
  }

  inside && /^```/ {
    inside = 0
    if (source != "" && number != count[source, region])
      fail(FNR, "[" region "] of " source " has " count[source, region] " lines, not " number)
    source = ""
    next
  }

  inside && source != "" {
    expected = text[source, region, ++number]
    expected = substr(expected, narrowest[source, region] + 1)
    if ($0 != expected && number <= count[source, region]) {
      fail(FNR, "[" region "] of " source " says: " expected)
      source = ""  # one complaint for each block
    }
  }

  END {
    if (all == 0) {
      listing = "cd \"" snippets "\" && ls *.cpp"
      while ((listing | getline file) > 0)
        read_regions(file)
      for (key in count) {
        split(key, part, SUBSEP)
        if (!((part[1], part[2]) in shown))
          complain(part[1], "no page shows [" part[2] "]")
      }
    }
    print blocks + 0 " blocks of code compared, " failures + 0 " differences"
    exit failures != 0
  }
' "${pages[@]}"
