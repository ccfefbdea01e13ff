# Build settings for tests, examples and benchmarks. They do not affect a user's build.

# ccache supports precompiled headers only if it may ignore time macros, which these do not use. Clones of this project
# share its results, because paths below the clone are relative for it.
find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}
      CCACHE_NOHASHDIR=1 ${CCACHE})
endif()

set(CMAKE_CXX_EXTENSIONS OFF)

# g++ compiles a test in three quarters of the time if it collects garbage only above 500 MB, and pipes its output to the
# assembler. It then needs 740 MB instead of 650 MB.
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  add_compile_options(-pipe --param=ggc-min-heapsize=500000)
endif()

# Warnings for this project's code; Boost's headers are system headers. clang++ includes -Wsign-conversion in
# -Wconversion, and g++ does not: here it is off for both.
add_library(turnstile_warnings INTERFACE)
target_compile_options(
  turnstile_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
                               $<$<BOOL:${TURNSTILE_WARNINGS_AS_ERRORS}>:-Werror>)

# False positives of g++ 12 in inlined code: mismatched allocation functions of Asio's coroutine frames, and reads of
# the value of an empty std::optional.
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  target_compile_options(turnstile_warnings INTERFACE -Wno-mismatched-new-delete
                                                      -Wno-maybe-uninitialized)
endif()

# Asio's functions, compiled once for all tests and examples. Benchmarks, and tests that set Asio's configuration
# macros, use Asio header-only instead, as most users do.
add_library(turnstile_asio STATIC EXCLUDE_FROM_ALL ${CMAKE_CURRENT_LIST_DIR}/asio.cpp)
target_link_libraries(turnstile_asio PUBLIC turnstile)
target_compile_definitions(turnstile_asio PUBLIC BOOST_ASIO_SEPARATE_COMPILATION)
