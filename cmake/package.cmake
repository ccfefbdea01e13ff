# `cpack` in a build directory makes libturnstile-dev, a .deb with the headers.

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_VENDOR "The Turnstile authors")
set(CPACK_PACKAGE_CONTACT "The Turnstile authors")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_DEBIAN_PACKAGE_NAME libturnstile-dev)
set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
# A recommendation only: Debian's newer releases have Boost in packages whose names carry the version.
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "libboost-dev (>= ${TURNSTILE_BOOST_MINIMUM})")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)

include(CPack)
