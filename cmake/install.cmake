# What `cmake --install` puts where: the program, the library, its headers, and what finds them.
include(CMakePackageConfigHelpers)
set(SEMEL_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/Semel)

install(TARGETS semel_bin RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS semel EXPORT SemelTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/semel DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.hpp")
install(EXPORT SemelTargets NAMESPACE Semel:: DESTINATION ${SEMEL_PACKAGE_DIR})
# A file of its own for each broker, and for the client: whoever does not ask for one need not have the library it stands on.
foreach(component kafka rabbitmq nats redis client)
  install(TARGETS semel-${component} EXPORT Semel-${component} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(EXPORT Semel-${component} NAMESPACE Semel:: DESTINATION ${SEMEL_PACKAGE_DIR})
endforeach()

configure_package_config_file(cmake/SemelConfig.cmake.in SemelConfig.cmake
  INSTALL_DESTINATION ${SEMEL_PACKAGE_DIR})
# Until 1.0 a minor version may break what the one before it promised.
write_basic_package_version_file(SemelConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/SemelConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/SemelConfigVersion.cmake
  DESTINATION ${SEMEL_PACKAGE_DIR})

file(RELATIVE_PATH SEMEL_PC_TO_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
configure_file(cmake/semel.pc.in semel.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/semel.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
foreach(broker_and_client kafka=rdkafka rabbitmq=librabbitmq nats=libnats redis=hiredis)
  string(REPLACE "=" ";" broker_and_client ${broker_and_client})
  list(GET broker_and_client 0 SEMEL_BROKER)
  list(GET broker_and_client 1 SEMEL_CLIENT)
  configure_file(cmake/semel-broker.pc.in semel-${SEMEL_BROKER}.pc @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/semel-${SEMEL_BROKER}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()

configure_file(cmake/semel-client.pc.in semel-client.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/semel-client.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# Below packaging/, as far as they exist: man pages and shell completion.
file(GLOB semel_man_pages CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/packaging/man/*.1)
if(semel_man_pages)
  install(FILES ${semel_man_pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()
install(FILES packaging/completion/semel.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
  RENAME semel OPTIONAL)
install(FILES packaging/completion/_semel DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions OPTIONAL)
install(FILES packaging/completion/semel.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d OPTIONAL)

# For editors that complete the configurations, and for clients that are generated.
install(FILES packaging/semel.schema.json packaging/relay.schema.json packaging/outbox.schema.json packaging/ledger-api.openapi.yaml
  DESTINATION ${CMAKE_INSTALL_DATADIR}/semel)
