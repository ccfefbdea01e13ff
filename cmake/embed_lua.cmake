# cmake -DOUTPUT=FILE.cpp -DDIRECTORY=DIR -DSCRIPTS="A.lua;pool/B.lua..." -P embed_lua.cmake
#
# Writes the C++ file that defines turnstile::redis::detail::scripts(), see src/redis/transport/scripts.hpp. A script
# consists of a first line for the server and the text of its file. If there is a prologue.lua in the same directory,
# the text of common.lua and this prologue stand before the file's text, or in place of its line
# `-- common.lua and prologue.lua stand here`. Comments are left out, and functions of these two files that the script
# does not call: the server would create them in each call. The name of a script follows from its path: pool/B.lua is
# pool_B.
#
#   #!lua flags=allow-oom        from the file's line `-- flags: allow-oom`; without =... for `none`
#
# The server identifies a script by the SHA-1 of its text, which is computed here as well.

cmake_minimum_required(VERSION 3.24)

# Removes comments and empty lines from the text in a variable.
function(strip_comments variable)
  string(REGEX REPLACE "\n *--[^\n]*" "" text "\n${${variable}}")
  string(REGEX REPLACE "  --[^\n]*" "" text "${text}")
  string(REGEX REPLACE "\n\n+" "\n" text "${text}")
  string(REGEX REPLACE "^\n" "" text "${text}")
  set(${variable} "${text}" PARENT_SCOPE)
endfunction()

# Removes the functions that neither `body` nor a function below them calls from the text in a variable. It goes from the
# last to the first, since a function calls only those above it.
function(remove_unused_functions variable body)
  set(above "\n${${variable}}")
  set(below)
  while(TRUE)
    string(FIND "${above}" "\nlocal function " begin REVERSE)
    if(begin EQUAL -1)
      break()
    endif()
    math(EXPR begin "${begin} + 1")
    string(SUBSTRING "${above}" ${begin} -1 tail)
    string(SUBSTRING "${above}" 0 ${begin} above)
    string(FIND "${tail}" "\nend\n" end)
    math(EXPR end "${end} + 5")
    string(SUBSTRING "${tail}" ${end} -1 rest)
    string(REGEX MATCH "^local function ([a-z_]+)" name "${tail}")
    if(NOT "${rest}${below}${body}" MATCHES "[^a-zA-Z0-9_.]${CMAKE_MATCH_1}\\(")
      set(tail "${rest}")
    endif()
    string(PREPEND below "${tail}")
  endwhile()
  string(REGEX REPLACE "^\n" "" text "${above}${below}")
  set(${variable} "${text}" PARENT_SCOPE)
endfunction()

file(READ ${DIRECTORY}/common.lua common)
strip_comments(common)

set(entries)
foreach(path IN LISTS SCRIPTS)
  string(REGEX REPLACE "\\.lua$" "" name "${path}")
  string(REPLACE / _ name "${name}")
  cmake_path(GET path PARENT_PATH directory)
  file(READ ${DIRECTORY}/${path} text)
  if(NOT text MATCHES "(^|\n)-- flags: ([a-z-]+)\n")
    message(FATAL_ERROR "${path}: there has to be a line `-- flags: none` or `-- flags: allow-oom`")
  endif()
  if(CMAKE_MATCH_2 STREQUAL none)
    set(first "#!lua")
  elseif(CMAKE_MATCH_2 STREQUAL allow-oom)
    set(first "#!lua flags=allow-oom")
  else()
    message(FATAL_ERROR "${path}: unknown flags `${CMAKE_MATCH_2}`")
  endif()

  set(head)
  if(EXISTS ${DIRECTORY}/${directory}/prologue.lua)
    set(marker "-- common.lua and prologue.lua stand here\n")
    string(FIND "${text}" "${marker}" place)
    if(NOT place EQUAL -1)
      string(SUBSTRING "${text}" 0 ${place} head)
      string(SUBSTRING "${text}" ${place} -1 text)
      strip_comments(head)
    endif()
    strip_comments(text)
    file(READ ${DIRECTORY}/${directory}/prologue.lua prologue)
    strip_comments(prologue)
    set(shared "${common}${prologue}")
    remove_unused_functions(shared "${text}")
    string(PREPEND text "${head}${shared}")
  else()
    strip_comments(text)
  endif()
  set(whole "${first}\n${text}")
  if(whole MATCHES "\\)lua\"")
    message(FATAL_ERROR "${path}: contains what ends a raw string")
  endif()
  string(SHA1 sha1 "${whole}")
  string(APPEND entries "    {\"${name}\", R\"lua(${whole})lua\"sv, \"${sha1}\"},\n")
endforeach()

file(WRITE ${OUTPUT} "// Made by cmake/embed_lua.cmake from src/redis/lua.
#include \"redis/transport/scripts.hpp\"

namespace turnstile::redis::detail {

namespace {

// The suffix sv, because compilers limit the steps of a constant expression that searches for the end of a string.
using namespace std::string_view_literals;

constexpr script all_scripts[] = {
${entries}};

}  // namespace

std::span<const script> scripts()
{
    return all_scripts;
}

}  // namespace turnstile::redis::detail
")
