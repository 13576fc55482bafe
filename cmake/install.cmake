# Rules for what `cmake --install` copies, for the folders that have something to install.  cmake/package.cmake has the rest.
#
# Everything belongs to a component, and each component is one Debian package:
#
#   runtime          weir           the programs, libweir.so
#   development      libweir-dev    headers, static libraries, files for CMake and pkg-config; what says nothing else
#   openmpi, mpich   weir-<mpi>     shared libraries tied to one MPI
#
# A component that nothing belongs to gives no package.

include(GNUInstallDirs)

set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME development)

# weir_install_shared(<target> COMPONENT <component> [EXPORT]): a shared library; with EXPORT also for users of find_package(weir).
function(weir_install_shared target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "EXPORT" "COMPONENT" "")
  set(export)
  if(arg_EXPORT)
    set(export EXPORT weir-targets)
  endif()
  # The link that linkers follow is for development; a library without a version has none.
  install(TARGETS ${target} ${export} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${arg_COMPONENT}
                                              NAMELINK_COMPONENT development)
endfunction()
