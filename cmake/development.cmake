# What tests, examples and benchmarks are built with. Nothing of this reaches a user's build.

# ccache finds what includes precompiled headers only if it may ignore macros that these do not use.
find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
                                  CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
endif()

set(CMAKE_CXX_EXTENSIONS OFF)

# Warnings for code of our own. Boost's headers are system headers and stay silent. clang++ counts
# -Wsign-conversion among -Wconversion and g++ does not: here it is neither's.
add_library(turnstile_warnings INTERFACE)
target_compile_options(
  turnstile_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
                               $<$<BOOL:${TURNSTILE_WARNINGS_AS_ERRORS}>:-Werror>)

# What g++ 12 reports without cause when it inlines: the allocation functions of Asio's coroutine frames
# as mismatched, and what a std::optional holds as read while it is empty.
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  target_compile_options(turnstile_warnings INTERFACE -Wno-mismatched-new-delete
                                                      -Wno-maybe-uninitialized)
endif()

# Asio's own functions, compiled once for all the tests and examples. Whoever sets one of Asio's
# configuration macros, and every benchmark, uses Asio header-only instead, as most users do.
add_library(turnstile_asio STATIC EXCLUDE_FROM_ALL ${CMAKE_CURRENT_LIST_DIR}/asio.cpp)
target_link_libraries(turnstile_asio PUBLIC turnstile)
target_compile_definitions(turnstile_asio PUBLIC BOOST_ASIO_SEPARATE_COMPILATION)
