# The program turnstile-server: semaphores over HTTP. A library with everything but main().

find_package(CLI11 REQUIRED)
find_package(OpenSSL REQUIRED)

set(CMAKE_CXX_EXTENSIONS OFF)

set(service_dir ${PROJECT_SOURCE_DIR}/src/service)

# --- the page -------------------------------------------------------------------------------

file(GLOB page_files CONFIGURE_DEPENDS ${service_dir}/page/*)
set(embedded_page ${PROJECT_BINARY_DIR}/generated/service/page.cpp)
add_custom_command(
  OUTPUT ${embedded_page}
  COMMAND ${CMAKE_COMMAND} -DOUTPUT=${embedded_page} "-DFILES=${page_files}"
          -P ${PROJECT_SOURCE_DIR}/cmake/embed_page.cmake
  DEPENDS ${PROJECT_SOURCE_DIR}/cmake/embed_page.cmake ${page_files}
  COMMENT "Embedding the files of src/service/page"
  VERBATIM)

# --- the library ----------------------------------------------------------------------------

if(NOT TARGET turnstile_redis)
  message(FATAL_ERROR "TURNSTILE_BUILD_SERVICE needs TURNSTILE_BUILD_REDIS")
endif()
file(GLOB sources CONFIGURE_DEPENDS ${service_dir}/*.cpp)
list(REMOVE_ITEM sources ${service_dir}/main.cpp)
# It contains the Redis backend, so that the server needs no shared library of this project, which would not be in its
# package.
add_library(turnstile_service STATIC ${sources} ${embedded_page} $<TARGET_OBJECTS:turnstile_redis>)
target_include_directories(turnstile_service PUBLIC ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(turnstile_service PUBLIC turnstile OpenSSL::SSL fmt::fmt)
# This check of the undefined behaviour sanitizer opens a pipe, so it fails in a server without file descriptors.
target_compile_options(turnstile_service PUBLIC $<$<CXX_COMPILER_ID:Clang>:-fno-sanitize=vptr>)

add_executable(turnstile-server ${service_dir}/main.cpp)
target_link_libraries(turnstile-server PRIVATE turnstile_service CLI11::CLI11)
target_compile_definitions(turnstile-server PRIVATE TURNSTILE_VERSION="${PROJECT_VERSION}")

if(TARGET turnstile_warnings)
  target_link_libraries(turnstile_service PRIVATE turnstile_warnings)
  target_link_libraries(turnstile-server PRIVATE turnstile_warnings)
endif()

if(TURNSTILE_INSTALL)
  install(TARGETS turnstile-server RUNTIME COMPONENT server)
  install(FILES man/turnstile-server.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT server)
  install(FILES dist/turnstile-server.service DESTINATION lib/systemd/system COMPONENT server)
  install(FILES dist/completion.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
          RENAME turnstile-server COMPONENT server)
  install(FILES dist/turnstile-server.conf
          DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/turnstile-server/examples COMPONENT server)
endif()
