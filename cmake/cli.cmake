# The program turnstile: locks over Redis for scripts and operators.

find_package(CLI11 REQUIRED)
find_package(fmt REQUIRED)
find_package(OpenSSL REQUIRED)

set(CMAKE_CXX_EXTENSIONS OFF)

if(NOT TARGET turnstile_redis)
  message(FATAL_ERROR "TURNSTILE_BUILD_CLI needs TURNSTILE_BUILD_REDIS")
endif()
file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/cli/*.cpp)
# The program contains the Redis backend, as turnstile-server does. The target turnstile is the library.
add_executable(turnstile_cli ${sources} $<TARGET_OBJECTS:turnstile_redis>)
set_target_properties(turnstile_cli PROPERTIES OUTPUT_NAME turnstile RUNTIME_OUTPUT_DIRECTORY
                                                                     ${PROJECT_BINARY_DIR}/cli)
target_include_directories(turnstile_cli PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_compile_definitions(turnstile_cli PRIVATE TURNSTILE_VERSION="${PROJECT_VERSION}")
target_link_libraries(turnstile_cli PRIVATE turnstile CLI11::CLI11 OpenSSL::SSL fmt::fmt)
if(TARGET turnstile_warnings)
  target_link_libraries(turnstile_cli PRIVATE turnstile_warnings)
endif()

if(TURNSTILE_INSTALL)
  install(TARGETS turnstile_cli RUNTIME COMPONENT cli)
  install(FILES man/turnstile.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT cli)
  install(FILES dist/completion.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
          RENAME turnstile COMPONENT cli)
endif()
