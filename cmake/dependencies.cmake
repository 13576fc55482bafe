# Third-party packages; all of them are packages of the distribution.

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(tomlplusplus REQUIRED CONFIG)
find_path(WEIR_XXHASH_INCLUDE_DIR xxhash.h REQUIRED)
mark_as_advanced(WEIR_XXHASH_INCLUDE_DIR)

if(WEIR_BUILD_CLI)
  find_package(CLI11 REQUIRED)
endif()
if(WEIR_BUILD_CLI OR WEIR_BUILD_TESTS)
  find_package(nlohmann_json REQUIRED)
endif()

if(WEIR_BUILD_TESTS)
  find_package(GTest REQUIRED)
  find_package(rapidcheck REQUIRED)
endif()

if(WEIR_BUILD_BENCHMARKS)
  find_package(benchmark REQUIRED)
endif()

set(WEIR_MPIS) # the MPI libraries to build for
if(WEIR_MPI)
  include(mpi)
endif()

set(WEIR_FS_FOUND FALSE)
if(WEIR_FILE_SYSTEM)
  include(filesystem)
endif()
