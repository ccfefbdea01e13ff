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

# Boosts without the backend's libraries, and a user who demands the backend.
function(refuse version expected)
  set(boost ${BUILD}/boost_${version})
  file(WRITE ${boost}/BoostConfig.cmake "set(Boost_VERSION_STRING ${version})\nset(Boost_INCLUDE_DIRS \"${boost}\")
add_library(Boost::headers INTERFACE IMPORTED)
")
  file(WRITE ${boost}/BoostConfigVersion.cmake
       "set(PACKAGE_VERSION ${version})\nset(PACKAGE_VERSION_COMPATIBLE TRUE)\n")
  file(WRITE ${boost}/boost/json/src.hpp "")
  set(Boost_DIR ${boost})
  configure(${BUILD}/default_${version} OFF)
  execute_process(COMMAND ${CMAKE_COMMAND} -S ${SOURCE} -B ${BUILD}/demanded_${version} -DBoost_DIR=${boost}
                          -DTURNSTILE_BUILD_REDIS=ON
                  OUTPUT_QUIET ERROR_VARIABLE error)
  if(NOT error MATCHES "TURNSTILE_BUILD_REDIS needs[ \n]+${expected}")
    message(FATAL_ERROR "The Redis backend is configured with this Boost ${version}: ${error}")
  endif()
endfunction()

refuse(1.90.0 "Boost")
refuse(1.92.0 "boost/redis/src\\.hpp,[ \n]+boost/intrusive/list\\.hpp")
