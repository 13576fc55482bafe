# `cmake --install`: the weir command, the libraries, the headers that are API, and a package file for find_package(weir).

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

get_property(components GLOBAL PROPERTY WEIR_COMPONENTS)
list(TRANSFORM components PREPEND weir_ OUTPUT_VARIABLE libraries)
install(TARGETS ${libraries} EXPORT weir-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
foreach(component IN LISTS components)
  install(
    DIRECTORY "${PROJECT_SOURCE_DIR}/src/weir/${component}"
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/weir
    FILES_MATCHING
    PATTERN "*.h"
    PATTERN "testing.h" EXCLUDE
    PATTERN "internal" EXCLUDE
    PATTERN "corpus" EXCLUDE)
endforeach()
if(TARGET weir)
  install(TARGETS weir RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/weir)
install(EXPORT weir-targets NAMESPACE weir:: DESTINATION ${package_dir})
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/weir-config.cmake.in" "${PROJECT_BINARY_DIR}/weir-config.cmake"
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file("${PROJECT_BINARY_DIR}/weir-config-version.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/weir-config.cmake" "${PROJECT_BINARY_DIR}/weir-config-version.cmake"
        DESTINATION ${package_dir})
