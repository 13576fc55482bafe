# Every option of the build, a sentence each.

option(WEIR_BUILD_TESTS "Build unit tests, property tests and fuzzer replays (needs GoogleTest and RapidCheck)."
       ${PROJECT_IS_TOP_LEVEL})
option(WEIR_BUILD_BENCHMARKS "Build the micro benchmarks (needs Google Benchmark)." OFF)
option(WEIR_BUILD_FUZZERS "Build the fuzzers with libFuzzer; needs Clang and instruments everything." OFF)
option(WEIR_BUILD_CLI "Build the weir command (needs CLI11, nlohmann-json and fmt)." ON)
option(WEIR_MPI "Build what uses MPI, once for each of Open MPI and MPICH that is found." ON)
option(WEIR_SCALAPACK "Build the drop-in for ScaLAPACK's redistribution routines (needs Open MPI)." ON)
option(WEIR_FILE_SYSTEM "Build the file system: stores, servers, clients (needs UCX, OpenSSL, RocksDB, liburing, FlatBuffers, libsodium, xxHash)."
       ON)
option(WEIR_WERROR "Treat compiler warnings as errors; for continuous integration, not for users of other compilers." OFF)
option(WEIR_CCACHE "Compile through ccache if it is installed." ON)
option(WEIR_CLANG_TIDY "Run clang-tidy on every source while compiling." OFF)
set(WEIR_SANITIZE "" CACHE STRING "Sanitizers to build with, as -fsanitize takes them, e.g. address,undefined.")
