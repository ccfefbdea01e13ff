# cmake -DOUTPUT=FILE.cpp -DFILES="A.html;B.css..." -P embed_page.cmake
#
# Writes the C++ file that defines turnstile::service::page_files(), see src/service/page.hpp. The path of a file is its
# name; index.html is `/`.

cmake_minimum_required(VERSION 3.24)

set(type_html "text/html; charset=utf-8")
set(type_css "text/css; charset=utf-8")
set(type_js "text/javascript; charset=utf-8")
set(type_json "application/json; charset=utf-8")
set(type_svg "image/svg+xml")

set(entries)
foreach(file IN LISTS FILES)
  cmake_path(GET file FILENAME name)
  cmake_path(GET file EXTENSION LAST_ONLY extension)
  string(SUBSTRING "${extension}" 1 -1 extension)
  if(NOT DEFINED type_${extension})
    message(FATAL_ERROR "${file}: no content type for this extension")
  endif()
  file(READ ${file} text)
  if(text MATCHES "\\)page\"")
    message(FATAL_ERROR "${file}: contains what ends a raw string")
  endif()
  if(name STREQUAL index.html)
    set(name)
  endif()
  string(APPEND entries "    {\"/${name}\", \"${type_${extension}}\",\n     R\"page(${text})page\"sv},\n")
endforeach()

file(WRITE ${OUTPUT} "// Made by cmake/embed_page.cmake from src/service/page.
#include \"service/page.hpp\"

namespace turnstile::service {

namespace {

using namespace std::string_view_literals;

constexpr page_file all_files[] = {
${entries}};

}  // namespace

std::span<const page_file> page_files()
{
    return all_files;
}

}  // namespace turnstile::service
")
