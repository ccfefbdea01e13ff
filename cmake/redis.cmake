# The second backend, turnstile::redis. It is a compiled library, because Boost.Redis compiles slowly and needs
# OpenSSL. Its public headers include neither.

if(Boost_VERSION_STRING VERSION_LESS TURNSTILE_REDIS_BOOST_MINIMUM)
  message(FATAL_ERROR "TURNSTILE_BUILD_REDIS needs Boost ${TURNSTILE_REDIS_BOOST_MINIMUM}, and ${Boost_DIR} has \
${Boost_VERSION_STRING}: set Boost_ROOT to a newer one")
endif()
if(turnstile_redis_lacks)
  list(JOIN turnstile_redis_lacks ", " turnstile_redis_lacks)
  message(FATAL_ERROR "TURNSTILE_BUILD_REDIS needs ${turnstile_redis_lacks}, which ${Boost_DIR} lacks: install all of \
Boost, or the libraries redis, json and intrusive")
endif()
find_package(OpenSSL REQUIRED)
find_package(fmt REQUIRED)

set(CMAKE_CXX_EXTENSIONS OFF)
# Unnamed namespaces of several source files contain the same names.
set(CMAKE_UNITY_BUILD OFF)

# --- the scripts ----------------------------------------------------------------------------

set(lua_dir ${PROJECT_SOURCE_DIR}/src/redis/lua)
file(
  GLOB_RECURSE lua_files CONFIGURE_DEPENDS
  RELATIVE ${lua_dir}
  ${lua_dir}/*.lua)
set(lua_scripts ${lua_files})
list(FILTER lua_scripts EXCLUDE REGEX "(^|/)(common|prologue)\\.lua$")
list(TRANSFORM lua_files PREPEND ${lua_dir}/)

set(turnstile_embedded ${PROJECT_BINARY_DIR}/generated/redis/scripts.cpp)
add_custom_command(
  OUTPUT ${turnstile_embedded}
  COMMAND ${CMAKE_COMMAND} -DOUTPUT=${turnstile_embedded} -DDIRECTORY=${lua_dir}
          "-DSCRIPTS=${lua_scripts}" -P ${PROJECT_SOURCE_DIR}/cmake/embed_lua.cmake
  DEPENDS ${PROJECT_SOURCE_DIR}/cmake/embed_lua.cmake ${lua_files}
  COMMENT "Embedding the scripts of src/redis/lua"
  VERBATIM)

# --- the library ----------------------------------------------------------------------------

file(GLOB turnstile_redis_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/redis/*/*.cpp)
file(
  GLOB_RECURSE turnstile_redis_headers CONFIGURE_DEPENDS
  RELATIVE ${PROJECT_SOURCE_DIR}
  ${PROJECT_SOURCE_DIR}/include/turnstile/redis/*.hpp)

add_library(turnstile_redis ${turnstile_redis_sources} ${turnstile_embedded})
add_library(turnstile::redis ALIAS turnstile_redis)
set_target_properties(
  turnstile_redis
  PROPERTIES EXPORT_NAME redis VERSION ${PROJECT_VERSION}
             SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
             # A project may link it into a shared library.
             POSITION_INDEPENDENT_CODE ON)
if(BUILD_SHARED_LIBS)
  # A shared library exports its symbols, even if the project that contains it hides its own.
  set_target_properties(turnstile_redis PROPERTIES CXX_VISIBILITY_PRESET default VISIBILITY_INLINES_HIDDEN OFF)
endif()
if(NOT PROJECT_IS_TOP_LEVEL)
  # A parent project compiles it without the parent's warnings, and only if it links or installs it.
  target_compile_options(turnstile_redis PRIVATE -w)
  if(NOT TURNSTILE_INSTALL)
    set_target_properties(turnstile_redis PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
endif()
target_sources(turnstile_redis INTERFACE FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}/include
                                         FILES ${turnstile_redis_headers})
target_include_directories(turnstile_redis PRIVATE ${PROJECT_SOURCE_DIR}/src)

# This library uses Asio header-only, so every program that links it has to do the same; see
# src/redis/transport/boost_redis.cpp. Never link turnstile_asio to such a program.
target_link_libraries(turnstile_redis PUBLIC turnstile PRIVATE OpenSSL::SSL fmt::fmt)

if(TARGET turnstile_warnings)
  target_link_libraries(turnstile_redis PRIVATE $<BUILD_INTERFACE:turnstile_warnings>)
endif()

# These files consist of Boost's code only, which the precompiled headers and our warnings do not fit.
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/redis/state/boost_json.cpp
                            ${PROJECT_SOURCE_DIR}/src/redis/transport/boost_redis.cpp
                            PROPERTIES SKIP_PRECOMPILE_HEADERS ON COMPILE_OPTIONS -w)

# --- install --------------------------------------------------------------------------------

if(NOT TURNSTILE_INSTALL)
  return()
endif()

install(TARGETS turnstile_redis EXPORT turnstile_redis COMPONENT redis FILE_SET HEADERS COMPONENT redis)
install(EXPORT turnstile_redis NAMESPACE turnstile:: FILE turnstileRedisTargets.cmake
        DESTINATION ${turnstile_cmake_dir} COMPONENT redis)

# For turnstileConfig.cmake, which another build may have installed.
# The names of fmt's functions contain its major version, and programs link them with a static library.
set(fmt_major)
if(NOT BUILD_SHARED_LIBS)
  string(REGEX MATCH "^[0-9]+\\." fmt_major ${fmt_VERSION})
endif()
file(CONFIGURE OUTPUT turnstileRedisBoost.cmake CONTENT "set(turnstile_redis_boost @Boost_VERSION_STRING@)
set(turnstile_redis_fmt @fmt_major@)\n" @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/turnstileRedisBoost.cmake DESTINATION ${turnstile_cmake_dir} COMPONENT redis)
