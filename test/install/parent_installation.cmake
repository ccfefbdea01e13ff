# A project that contains and installs the library keeps its own documents. Its warnings and its unity build do not apply
# to the library.

file(REMOVE_RECURSE ${BUILD})
file(WRITE ${BUILD}/source/LICENSE "of the parent\n")
file(CREATE_LINK ${SOURCE} "${BUILD}/source/the library" SYMBOLIC)
file(WRITE ${BUILD}/source/CMakeLists.txt "cmake_minimum_required(VERSION 3.24)
project(parent LANGUAGES CXX)
include(GNUInstallDirs)
install(FILES LICENSE DESTINATION \${CMAKE_INSTALL_DOCDIR})
set(TURNSTILE_INSTALL ON)
set(TURNSTILE_BUILD_REDIS ${REDIS})
set(CMAKE_UNITY_BUILD ON)
add_subdirectory(\"the library\" turnstile)
if(TURNSTILE_BUILD_REDIS)
  get_target_property(options turnstile_redis COMPILE_OPTIONS)
  if(NOT -w IN_LIST options)
    message(FATAL_ERROR \"The library is compiled with the warnings of its parent\")
  endif()
  # Several of its source files define functions with the same names.
  get_target_property(merged turnstile_redis UNITY_BUILD)
  if(merged)
    message(FATAL_ERROR \"The source files of the library are merged\")
  endif()
endif()
")
execute_process(COMMAND ${CMAKE_COMMAND} -S ${BUILD}/source -B ${BUILD}/build -DBoost_DIR=${Boost_DIR}
                OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
# The Redis backend is not built.
foreach(component IN ITEMS Unspecified core)
  execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD}/build --prefix ${BUILD}/prefix --component ${component}
                  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
endforeach()

file(READ ${BUILD}/prefix/share/doc/parent/LICENSE license)
if(NOT license STREQUAL "of the parent\n")
  message(FATAL_ERROR "The library replaces the LICENSE of the parent")
endif()
if(NOT EXISTS ${BUILD}/prefix/share/doc/turnstile/LICENSE)
  message(FATAL_ERROR "The LICENSE of the library is not installed")
endif()
