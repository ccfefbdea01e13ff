#!/bin/bash
# Checks that a state that cannot be stored does not compile, and that the compiler names the remedy.
set -euo pipefail
compiler=$1 include=$2 boost=$3 source=$4

compile() {
  "$compiler" -std=c++20 -fsyntax-only -I"$include" -isystem "$boost" "$@" "$source" 2>&1
}

failures=0

# expect_refusal MACRO TEXT
expect_refusal() {
  local said
  if said=$(compile "-D$1"); then
    echo "$1: compiles" && failures=$((failures + 1))
  elif ! grep -qF "$2" <<< "$said"; then
    echo "$1: the compiler does not say '$2' but" && echo "$said" && failures=$((failures + 1))
  fi
}

# Otherwise they might fail for another reason.
compile || { echo 'what can be stored does not compile' && exit 1; }

expect_refusal WITH_POINTER 'A pointer means nothing to another process'
expect_refusal WITH_UNION 'take a struct of optionals'
expect_refusal WITH_ARRAY 'Take a std::array instead'
expect_refusal WITH_CONST 'take away the const'
expect_refusal WITH_LONG_DOUBLE 'take a double'
expect_refusal WITH_ENUMERATION 'Describe the enumeration with BOOST_DESCRIBE_ENUM'
expect_refusal WITH_TWO_OPTIONALS 'Take one optional, not one in another'
expect_refusal WITH_OPTIONAL_OF_OPTIONALS 'give it a member that is no optional'
for member in STRUCT VECTOR_OF_STRUCTS SET UNIQUE_PTR; do
  expect_refusal "WITH_$member" 'The type cannot be stored. Describe a struct'
done
expect_refusal WITH_SAME_NAME 'Two members have the same name'
expect_refusal WITH_UNDESCRIBED_BASE 'each of its base classes'
expect_refusal WITHOUT_DESCRIPTION 'The state of a monitor over Redis is a struct'
expect_refusal WITHOUT_DEFAULT 'The state needs a default constructor'

((failures == 0))
