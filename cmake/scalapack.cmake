# The drop-in for ScaLAPACK's redistribution routines, for Open MPI.  It finds the program's ScaLAPACK at run time; only tests and
# benchmarks are linked with one.

find_library(WEIR_SCALAPACK_LIBRARY NAMES scalapack-openmpi DOC "ScaLAPACK built with Open MPI.")
mark_as_advanced(WEIR_SCALAPACK_LIBRARY)
if(WEIR_SCALAPACK_LIBRARY)
  message(STATUS "ScaLAPACK: ${WEIR_SCALAPACK_LIBRARY}")
elseif(WEIR_BUILD_TESTS OR WEIR_BUILD_BENCHMARKS)
  message(STATUS "ScaLAPACK: none for Open MPI (libscalapack-openmpi) found; the drop-in for p?gemr2d is built but not tested")
endif()
