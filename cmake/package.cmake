# `cpack` in a build directory creates the Debian package libturnstile-dev with the headers and, if the Redis
# backend is built, libturnstile-redis-dev with the library and its headers. If the service is built, turnstile-server
# is a package, too, and turnstile-cli if the program turnstile is built.

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_VENDOR "The Turnstile authors")
set(CPACK_PACKAGE_CONTACT "The Turnstile authors")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL core)
set(CPACK_DEBIAN_CORE_PACKAGE_NAME libturnstile-dev)
set(CPACK_DEBIAN_CORE_PACKAGE_ARCHITECTURE all)
# Only recommended: in newer Debian releases, the names of the Boost packages contain the version.
set(CPACK_DEBIAN_CORE_PACKAGE_RECOMMENDS "libboost-dev (>= ${TURNSTILE_BOOST_MINIMUM})")

if(TURNSTILE_BUILD_REDIS)
  list(APPEND CPACK_COMPONENTS_ALL redis)
  set(CPACK_DEBIAN_REDIS_PACKAGE_NAME libturnstile-redis-dev)
  set(CPACK_DEBIAN_REDIS_DESCRIPTION "Awaitable locks for Boost.Asio across processes, through Redis")
  set(CPACK_DEBIAN_REDIS_PACKAGE_DEPENDS
      "libturnstile-dev (= ${PROJECT_VERSION}), libssl-dev, libfmt-dev")
  set(CPACK_DEBIAN_REDIS_PACKAGE_RECOMMENDS "libboost-dev (>= ${TURNSTILE_REDIS_BOOST_MINIMUM})")
endif()

if(TURNSTILE_BUILD_SERVICE)
  list(APPEND CPACK_COMPONENTS_ALL server)
  set(CPACK_DEBIAN_SERVER_PACKAGE_NAME turnstile-server)
  set(CPACK_DEBIAN_SERVER_DESCRIPTION "Counting semaphores over HTTP")
  set(CPACK_DEBIAN_SERVER_PACKAGE_SECTION net)
  set(CPACK_DEBIAN_SERVER_PACKAGE_SHLIBDEPS ON)
  # They check receivers of call-backs by https.
  set(CPACK_DEBIAN_SERVER_PACKAGE_RECOMMENDS "ca-certificates")
endif()

if(TURNSTILE_BUILD_CLI)
  list(APPEND CPACK_COMPONENTS_ALL cli)
  set(CPACK_DEBIAN_CLI_PACKAGE_NAME turnstile-cli)
  set(CPACK_DEBIAN_CLI_DESCRIPTION "Runs programs under locks over Redis")
  set(CPACK_DEBIAN_CLI_PACKAGE_SECTION utils)
  set(CPACK_DEBIAN_CLI_PACKAGE_SHLIBDEPS ON)
endif()

# Debian's policy requires this file in each package.
foreach(component IN LISTS CPACK_COMPONENTS_ALL)
  string(TOUPPER ${component} upper)
  install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${CPACK_DEBIAN_${upper}_PACKAGE_NAME} RENAME copyright
          COMPONENT ${component})
endforeach()

# Each user can read the folders of the packages, whatever the umask of the builder is.
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/package_folders.cmake
     [[file(CHMOD_RECURSE "${CPACK_TEMPORARY_INSTALL_DIRECTORY}" DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE
     OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
]])
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_BINARY_DIR}/package_folders.cmake)

include(CPack)
