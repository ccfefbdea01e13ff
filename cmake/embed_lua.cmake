# cmake -DOUTPUT=FILE.cpp -DDIRECTORY=DIR -DSCRIPTS="A.lua;pool/B.lua..." -P embed_lua.cmake
#
# Writes the C++ file that defines turnstile::redis::detail::scripts(), see src/redis/transport/scripts.hpp. A
# script consists of a first line for the server, the text of prologue.lua in the same directory, if there is one, and
# the text of its file. If the file has the line `-- the prologue stands here`, the prologue replaces that line
# instead. The name of a script follows from its path: pool/B.lua is pool_B.
#
#   #!lua flags=allow-oom        from the file's line `-- flags: allow-oom`; without =... for `none`
#
# The server identifies a script by the SHA-1 of its text, which is computed here as well.

set(entries)
foreach(path IN LISTS SCRIPTS)
  string(REGEX REPLACE "\\.lua$" "" name "${path}")
  string(REPLACE / _ name "${name}")
  cmake_path(GET path PARENT_PATH directory)
  file(READ ${DIRECTORY}/${path} text)
  set(prologue)
  if(EXISTS ${DIRECTORY}/${directory}/prologue.lua)
    file(READ ${DIRECTORY}/${directory}/prologue.lua prologue)
  endif()

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

  set(marker "-- the prologue stands here\n")
  string(FIND "${text}" "${marker}" place)
  if(place EQUAL -1)
    string(PREPEND text "${prologue}")
  else()
    string(REPLACE "${marker}" "${prologue}" text "${text}")
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
