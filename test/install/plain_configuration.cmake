# `cmake -B build` without options works with any installed packages, and configures an optimized build.

file(REMOVE_RECURSE ${BUILD})

function(configure build expected_redis)
  execute_process(COMMAND ${CMAKE_COMMAND} -S ${SOURCE} -B ${build} -DBoost_DIR=${Boost_DIR} --no-warn-unused-cli ${ARGN}
                  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
  load_cache(${build} READ_WITH_PREFIX cached_ CMAKE_BUILD_TYPE TURNSTILE_BUILD_REDIS)
  if(NOT cached_CMAKE_BUILD_TYPE STREQUAL Release)
    message(FATAL_ERROR "The type of the build is '${cached_CMAKE_BUILD_TYPE}'")
  endif()
  if(cached_TURNSTILE_BUILD_REDIS AND NOT expected_redis)
    message(FATAL_ERROR "The Redis backend is built without what it needs")
  elseif(expected_redis AND NOT cached_TURNSTILE_BUILD_REDIS)
    message(FATAL_ERROR "The Redis backend is left out")
  endif()
endfunction()

configure(${BUILD}/here ${REDIS})
foreach(package IN ITEMS fmt OpenSSL CLI11)
  list(APPEND nothing -DCMAKE_DISABLE_FIND_PACKAGE_${package}=ON)
endforeach()
configure(${BUILD}/bare OFF ${nothing})

# The same build directory, after the packages were installed.
list(TRANSFORM nothing REPLACE "ON$" "OFF")
configure(${BUILD}/bare ${REDIS} ${nothing})

# An older Boost, and a user who demands the backend.
file(WRITE ${BUILD}/old_boost/BoostConfig.cmake "set(Boost_VERSION_STRING 1.90.0)\n")
file(WRITE ${BUILD}/old_boost/BoostConfigVersion.cmake
     "set(PACKAGE_VERSION 1.90.0)\nset(PACKAGE_VERSION_COMPATIBLE TRUE)\n")
execute_process(COMMAND ${CMAKE_COMMAND} -S ${SOURCE} -B ${BUILD}/old -DBoost_DIR=${BUILD}/old_boost
                        -DTURNSTILE_BUILD_REDIS=ON
                OUTPUT_QUIET ERROR_VARIABLE error)
if(NOT error MATCHES "TURNSTILE_BUILD_REDIS needs Boost")
  message(FATAL_ERROR "The Redis backend is configured with Boost 1.90: ${error}")
endif()
