# `cmake --install`: the weir command, the libraries, the headers that are API, and files for find_package(weir) and pkg-config.
# `cpack` (in the build folder): Debian packages of the same.  Last of all, when every target is there.

include(CMakePackageConfigHelpers)

# ---- libraries and headers ---------------------------------------------------------------------------------------------

get_property(components GLOBAL PROPERTY WEIR_COMPONENTS)
list(TRANSFORM components PREPEND weir_ OUTPUT_VARIABLE libraries)
install(TARGETS ${libraries} EXPORT weir-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
foreach(component IN LISTS components)
  install(
    DIRECTORY "${PROJECT_SOURCE_DIR}/src/weir/${component}"
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/weir
    FILES_MATCHING
    PATTERN "*.h"
    PATTERN "testing" EXCLUDE
    PATTERN "internal" EXCLUDE
    PATTERN "corpus" EXCLUDE)
endforeach()

# ---- find_package(weir) ------------------------------------------------------------------------------------------------

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/weir)
install(EXPORT weir-targets NAMESPACE weir:: DESTINATION ${package_dir})
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/weir-config.cmake.in" "${PROJECT_BINARY_DIR}/weir-config.cmake"
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file("${PROJECT_BINARY_DIR}/weir-config-version.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/weir-config.cmake" "${PROJECT_BINARY_DIR}/weir-config-version.cmake"
        DESTINATION ${package_dir})

# ---- pkg-config --------------------------------------------------------------------------------------------------------

if(WEIR_FS_FOUND)
  # Components are in the order of the layers; linkers want users before what they use.
  set(archives)
  foreach(component IN LISTS components)
    if(NOT component MATCHES "^(capi|trace|launch|report|cli)$")
      list(PREPEND archives -lweir_${component})
    endif()
  endforeach()
  list(JOIN archives " " WEIR_CLIENT_ARCHIVES)
  # The files may be moved with the rest: where they are says where that is.
  cmake_path(SET pkgconfig_dir "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
  cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}/${pkgconfig_dir}" OUTPUT_VARIABLE
             WEIR_PREFIX_FROM_PKGCONFIG)
  foreach(name weir weir-client)
    configure_file("${PROJECT_SOURCE_DIR}/packaging/${name}.pc.in" "${PROJECT_BINARY_DIR}/${name}.pc" @ONLY)
    install(FILES "${PROJECT_BINARY_DIR}/${name}.pc" DESTINATION ${pkgconfig_dir})
  endforeach()
endif()

# ---- the command, and what it says of itself: a manual page, and completion for bash -----------------------------------

if(TARGET weir)
  install(TARGETS weir RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime)
  set(manual "${PROJECT_BINARY_DIR}/weir.1")
  set(completion "${PROJECT_BINARY_DIR}/weir.bash")
  foreach(argument manual completion)
    add_custom_command(
      OUTPUT "${${argument}}"
      COMMAND ${CMAKE_COMMAND} -D WEIR=$<TARGET_FILE:weir> -D ARGUMENT=${argument} -D OUTPUT=${${argument}} -P
              "${PROJECT_SOURCE_DIR}/packaging/manual.cmake"
      DEPENDS weir "${PROJECT_SOURCE_DIR}/packaging/manual.cmake"
      VERBATIM)
  endforeach()
  add_custom_target(manual ALL DEPENDS "${manual}" "${completion}")
  install(FILES "${manual}" DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT runtime)
  install(FILES "${completion}" DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME weir COMPONENT runtime)
endif()

# ---- Debian packages -----------------------------------------------------------------------------------------------------

# weir_package(<component> <package> <section> <summary> [<field> <value>]...): fields as CPACK_DEBIAN_<component>_PACKAGE_<field>.
function(weir_package component package section summary)
  string(TOUPPER ${component} upper)
  set(fields NAME ${package} SECTION ${section} ${ARGN})
  while(fields)
    list(POP_FRONT fields field value)
    set(CPACK_DEBIAN_${upper}_PACKAGE_${field} "${value}" PARENT_SCOPE)
  endwhile()
  set(CPACK_COMPONENT_${upper}_DESCRIPTION "${summary}" PARENT_SCOPE)
  install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${package} RENAME copyright
          COMPONENT ${component})
endfunction()

set(exactly "(= ${PROJECT_VERSION})")
get_cmake_property(CPACK_COMPONENTS_ALL COMPONENTS)
if("runtime" IN_LIST CPACK_COMPONENTS_ALL)
  list(TRANSFORM WEIR_MPIS PREPEND "weir-" OUTPUT_VARIABLE mpi_packages)
  list(JOIN mpi_packages " | " mpi_packages)
  if(mpi_packages)
    set(mpi_packages RECOMMENDS "${mpi_packages}")
  endif()
  weir_package(runtime weir utils "The weir command with its servers, and libweir.so for programs in C." DEPENDS "libssl3" SUGGESTS "bash-completion, libmunge2, libucx0"
               ${mpi_packages})
  set(runtime_package "weir ${exactly}, ")
endif()
weir_package(
  development
  libweir-dev
  libdevel
  "Headers, static libraries, and files for CMake and pkg-config."
  DEPENDS
  "${runtime_package}libfmt-dev, libspdlog-dev, libcli11-dev, nlohmann-json3-dev, librocksdb-dev, liburing-dev, \
libflatbuffers-dev, libsodium-dev, libxxhash-dev, libtomlplusplus-dev"
  SUGGESTS
  "libopenmpi-dev, libmpich-dev, pkgconf")
foreach(mpi IN LISTS WEIR_MPIS)
  if(mpi IN_LIST CPACK_COMPONENTS_ALL)
    weir_package(${mpi} weir-${mpi} libs "Shared libraries for programs that use MPI, built for ${mpi}." RECOMMENDS "libssl3" SUGGESTS "libmunge2, libucx0")
  endif()
endforeach()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_VENDOR "Weir")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Parallel file system and I/O runtime for array data")
set(CPACK_PACKAGE_DESCRIPTION
    "Files know their layout and every process its view of them; Weir computes how the two fit once, and moves every byte once, \
straight to its place.")
set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
set(CPACK_PACKAGING_INSTALL_PREFIX "/usr")
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "Weir maintainers <maintainers@weir.example>")
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
include(CPack)
