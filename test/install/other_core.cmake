# The installed Redis backend requires the Boost that it was built with, also if a build with another Boost and without
# the backend was installed over it. It also requires fmt with the same major version.

file(REMOVE_RECURSE ${BUILD})
file(COPY ${PREFIX}/ DESTINATION ${BUILD}/prefix)

set(old_boost ${BUILD}/old_boost)
file(WRITE ${old_boost}/BoostConfig.cmake "set(Boost_VERSION_STRING 1.90.0)
if(NOT TARGET Boost::headers)
  add_library(Boost::headers INTERFACE IMPORTED)
endif()
")
file(WRITE ${old_boost}/BoostConfigVersion.cmake "set(PACKAGE_VERSION 1.90.0)\nset(PACKAGE_VERSION_COMPATIBLE TRUE)\n")

execute_process(COMMAND ${CMAKE_COMMAND} -S ${SOURCE} -B ${BUILD}/core -DBoost_DIR=${old_boost}
                OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD}/core --prefix ${BUILD}/prefix
                OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)

set(consumer ${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR}/find_redis -Dturnstile_ROOT=${BUILD}/prefix)
execute_process(COMMAND ${consumer} -B ${BUILD}/same -DBoost_DIR=${Boost_DIR} OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${consumer} -B ${BUILD}/old -DBoost_DIR=${old_boost} OUTPUT_QUIET ERROR_VARIABLE error)
if(NOT error MATCHES "turnstile::redis was built with Boost [0-9.]+, not[ \n]+1\\.90\\.0")
  message(FATAL_ERROR "A consumer with Boost 1.90 is not refused: ${error}")
endif()

set(old_fmt ${BUILD}/old_fmt)
file(WRITE ${old_fmt}/fmt-config.cmake "add_library(fmt::fmt INTERFACE IMPORTED)\n")
file(WRITE ${old_fmt}/fmt-config-version.cmake "set(PACKAGE_VERSION 5.3.0)\nset(PACKAGE_VERSION_COMPATIBLE TRUE)\n")
execute_process(COMMAND ${consumer} -B ${BUILD}/fmt -DBoost_DIR=${Boost_DIR} -Dfmt_DIR=${old_fmt} OUTPUT_QUIET
                ERROR_VARIABLE error)
if(NOT error MATCHES "turnstile::redis was built with fmt [0-9]+\\.x, not[ \n]+5\\.3\\.0")
  message(FATAL_ERROR "A consumer with fmt 5 is not refused: ${error}")
endif()
