# MPI libraries and what is built once for each of them.
#
# Programs and libraries that speak MPI are tied to one implementation, so a component that uses MPI is built from the same
# sources once per implementation found, side by side: weir_redist_openmpi, weir_redist_mpich.  WEIR_MPIS lists those found; each
# has a target weir::<mpi> with its headers and libraries, and a launcher with the arguments that work in containers, as root and
# with more ranks than cores.

include(GNUInstallDirs)
find_package(PkgConfig)

set(WEIR_MPIS)

# weir_find_mpi(<name> MODULE <pkg-config module> LAUNCHER <program>... [ARGS <argument>...])
macro(weir_find_mpi name)
  cmake_parse_arguments(mpi "" "MODULE" "LAUNCHER;ARGS" ${ARGN})
  if(PKG_CONFIG_FOUND)
    pkg_check_modules(WEIR_${name} QUIET ${mpi_MODULE})
  endif()
  find_program(WEIR_${name}_LAUNCHER NAMES ${mpi_LAUNCHER} DOC "Starts programs built with ${name}.")
  mark_as_advanced(WEIR_${name}_LAUNCHER)
  if(WEIR_${name}_FOUND AND WEIR_${name}_LAUNCHER)
    list(APPEND WEIR_MPIS ${name})
    set(WEIR_${name}_LAUNCH "${WEIR_${name}_LAUNCHER}" ${mpi_ARGS})
    add_library(weir_${name} INTERFACE)
    add_library(weir::${name} ALIAS weir_${name})
    target_include_directories(weir_${name} SYSTEM INTERFACE ${WEIR_${name}_INCLUDE_DIRS})
    target_link_libraries(weir_${name} INTERFACE ${WEIR_${name}_LINK_LIBRARIES})
    # The C++ bindings that MPI dropped long ago would only add a library.
    target_compile_definitions(weir_${name} INTERFACE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
    install(TARGETS weir_${name} EXPORT weir-targets)
    message(STATUS "MPI: ${name} ${WEIR_${name}_VERSION}, ${WEIR_${name}_LAUNCHER}")
  endif()
endmacro()

# One-copy transfers between processes need a system call that containers often forbid; Open MPI does not always notice.
weir_find_mpi(
  openmpi
  MODULE ompi-c
  LAUNCHER mpirun.openmpi orterun
  ARGS --allow-run-as-root --oversubscribe --mca pml ob1 --mca btl self,vader --mca btl_vader_single_copy_mechanism none)
weir_find_mpi(mpich MODULE mpich LAUNCHER mpiexec.mpich mpiexec.hydra)
if(NOT WEIR_MPIS)
  message(STATUS "MPI: neither Open MPI (pkg-config ompi-c) nor MPICH (pkg-config mpich) found; building without redist")
endif()

# weir_add_mpi_library(<component> [DEPENDS target...]): weir_<component>_<mpi>, alias weir::<component>_<mpi>, for every MPI.  Of a target
# that is built per MPI itself, such as weir::mpi, it uses the one of the same MPI.
function(weir_add_mpi_library component)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "DEPENDS")
  weir_glob(sources *.cpp internal/*.cpp)
  list(FILTER sources EXCLUDE REGEX "_(test|fuzz|bench)\\.cpp$")
  foreach(mpi IN LISTS WEIR_MPIS)
    set(target weir_${component}_${mpi})
    add_library(${target} STATIC ${sources})
    add_library(weir::${component}_${mpi} ALIAS ${target})
    set_target_properties(${target} PROPERTIES EXPORT_NAME ${component}_${mpi})
    target_compile_features(${target} PUBLIC cxx_std_20)
    target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src> $<INSTALL_INTERFACE:include>)
    foreach(depend IN LISTS arg_DEPENDS)
      if(TARGET ${depend}_${mpi})
        string(APPEND depend _${mpi})
      endif()
      target_link_libraries(${target} PUBLIC ${depend})
    endforeach()
    target_link_libraries(${target} PUBLIC weir_${mpi})
    weir_set_warnings(${target})
    weir_set_optimization(${target} ${component})
    install(TARGETS ${target} EXPORT weir-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
    if(WEIR_BUILD_TESTS)
      weir_check_headers(${component}_${mpi})
      weir_check_link(${component}_${mpi})
    endif()
  endforeach()
  install(
    DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}"
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/weir
    FILES_MATCHING
    PATTERN "*.h"
    PATTERN "internal" EXCLUDE)
endfunction()

# weir_add_mpi_test(<component> RANKS n... [DEPENDS target...] [WRAPPER command...])
#
# Every *_test.cpp of the folder as one program per MPI, <component>_test_<mpi>, run with each number of ranks.  All cases of a run
# share one launch: starting ranks takes longer than most cases.  WRAPPER: a command that runs the launcher.
#
# Rank counts are spread over the MPIs: 3 ranks of the first and 2 of the second are always run, the rest has the label `full`.
function(weir_add_mpi_test component)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "RANKS;DEPENDS;WRAPPER")
  if(NOT WEIR_BUILD_TESTS)
    return()
  endif()
  weir_glob(sources *_test.cpp)
  if(NOT sources)
    message(FATAL_ERROR "weir_add_mpi_test(${component}): no *_test.cpp in ${CMAKE_CURRENT_SOURCE_DIR}")
  endif()
  foreach(mpi IN LISTS WEIR_MPIS)
    set(target ${component}_test_${mpi})
    add_executable(${target} ${sources} "${PROJECT_SOURCE_DIR}/tests/mpi/main.cpp")
    target_link_libraries(${target} PRIVATE weir::${component}_${mpi} ${arg_DEPENDS} GTest::gmock GTest::gtest)
    weir_set_warnings(${target})
    weir_set_test_options(${target} ${component})
    foreach(ranks IN LISTS arg_RANKS)
      if(WEIR_SANITIZE AND ranks GREATER 3) # they find nothing more with other numbers, and take long
        continue()
      endif()
      set(name ${component}_${mpi}.Ranks${ranks})
      add_test(NAME ${name} COMMAND ${arg_WRAPPER} ${WEIR_${mpi}_LAUNCH} -n ${ranks} $<TARGET_FILE:${target}>)
      if("${mpi} ${ranks}" STREQUAL "openmpi 3" OR "${mpi} ${ranks}" STREQUAL "mpich 2")
        weir_set_labels(${name} ${component})
      else()
        weir_set_labels(${name} ${component} full)
      endif()
      # COST: long tests start first.  MPI libraries keep memory to the end, which is not ours to report.
      set_tests_properties(${name} PROPERTIES TIMEOUT 300 PROCESSORS ${ranks} COST 100
                                              ENVIRONMENT "ASAN_OPTIONS=detect_leaks=0")
    endforeach()
  endforeach()
endfunction()

# weir_add_mpi_benchmark(<component> [DEPENDS target...])
#
# Every *_bench.cpp of the folder as one program per MPI, <component>_bench_<mpi>; to be started with that MPI's launcher.
function(weir_add_mpi_benchmark component)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "DEPENDS")
  weir_glob(sources *_bench.cpp)
  if(NOT WEIR_BUILD_BENCHMARKS OR NOT sources)
    return()
  endif()
  foreach(mpi IN LISTS WEIR_MPIS)
    set(target ${component}_bench_${mpi})
    add_executable(${target} ${sources})
    target_link_libraries(${target} PRIVATE weir::${component}_${mpi} ${arg_DEPENDS})
    target_compile_definitions(${target} PRIVATE WEIR_MPI_NAME="${mpi}")
    weir_set_warnings(${target})
  endforeach()
endfunction()
