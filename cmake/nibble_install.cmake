# What is installed: library, plugins, headers, command, package files, and what a plugin author needs.
# Apart from the targets' own files so that an install reads as one list.
include(CMakePackageConfigHelpers)

add_library(nibble_headers INTERFACE)
target_include_directories(nibble_headers INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
set_target_properties(nibble_headers PROPERTIES EXPORT_NAME headers)

install(TARGETS nibble nibble_headers EXPORT nibble-targets)
install(TARGETS nibble_command)
install(TARGETS nibble_cpu LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/nibble)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/nibble DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT nibble-targets NAMESPACE nibble:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/nibble)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/nibble-config.cmake.in ${PROJECT_BINARY_DIR}/nibble-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/nibble)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/nibble-config-version.cmake COMPATIBILITY SameMajorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/nibble-config.cmake
  ${PROJECT_BINARY_DIR}/nibble-config-version.cmake
  ${PROJECT_SOURCE_DIR}/cmake/nibble_add_plugin.cmake
  ${PROJECT_SOURCE_DIR}/cmake/nibble_plugin.map
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/nibble)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/NOTICE DESTINATION ${CMAKE_INSTALL_DOCDIR})
