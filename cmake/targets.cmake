# The functions that the CMakeLists.txt files of the folders call.
#
# One convention holds in every folder of a component, so nothing has to be registered and nothing can be forgotten:
#
#   *.cpp, internal/*.cpp   the library                         weir_<component>, alias weir::<component>
#   *_test.cpp              one test program                    <component>_test
#   *_bench.cpp             one benchmark program               <component>_bench
#   <name>_fuzz.cpp         one fuzzer each, and its replay     <name>_fuzz, <name>_replay
#   corpus/<name>/          seeds of that fuzzer, one a file
#   *.h, internal/*.h       compiled alone by check_headers; installed, except internal/
#   testing/*.h             likewise, and not installed: for tests, those of other components too

# With sanitizers, optimising takes a third of the time of compiling and gains little, except where tests compare with brute force.
set(WEIR_OPTIMIZED_TESTS layout transfer redist scalapack)

# weir_set_optimization(<target> <component>): what computes or copies is optimised as the preset says.  Of the rest, release builds
# optimise commands with -O1 and other libraries with -O2, which takes a third off the build; with sanitizers, it is not optimised.
set(WEIR_HOT_LIBRARIES layout transfer exchange redist)
function(weir_set_optimization target component)
  if(component IN_LIST WEIR_HOT_LIBRARIES)
    return()
  endif()
  if(WEIR_SANITIZE)
    target_compile_options(${target} PRIVATE -O0)
  elseif(CMAKE_BUILD_TYPE STREQUAL "Release" AND component MATCHES "^(cli|launch|report)$")
    target_compile_options(${target} PRIVATE -O1)
  elseif(CMAKE_BUILD_TYPE STREQUAL "Release")
    target_compile_options(${target} PRIVATE -O2)
  endif()
endfunction()

if(WEIR_BUILD_TESTS)
  add_custom_target(check_headers)
endif()
if(WEIR_BUILD_FUZZERS)
  add_custom_target(fuzzers)
endif()

# weir_set_labels(<test> <component> [full]): `full` keeps a test for ./check.sh --full.  Test programs of components are run by default with assertions
# only; without, in full.
function(weir_set_labels test component)
  set(labels ${component})
  if("full" IN_LIST ARGN OR CMAKE_BUILD_TYPE STREQUAL "Release")
    list(APPEND labels full)
  endif()
  set_tests_properties(${test} PROPERTIES LABELS "${labels}")
endfunction()

# weir_glob(<variable> <pattern>...): files below the current folder, looked for again at every build.
function(weir_glob variable)
  list(TRANSFORM ARGN PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/")
  file(GLOB files CONFIGURE_DEPENDS ${ARGN})
  set(${variable} ${files} PARENT_SCOPE)
endfunction()

# weir_add_library(<component> [TEST_ONLY] [DEPENDS target...] [PRIVATE_DEPENDS target...])
#
# TEST_ONLY: for tests of other components; not installed.
# DEPENDS are visible in the component's headers, PRIVATE_DEPENDS only in its sources.
function(weir_add_library component)
  cmake_parse_arguments(PARSE_ARGV 1 arg "TEST_ONLY" "" "DEPENDS;PRIVATE_DEPENDS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "weir_add_library(${component}): unknown arguments ${arg_UNPARSED_ARGUMENTS}")
  endif()
  weir_glob(sources *.cpp internal/*.cpp)
  list(FILTER sources EXCLUDE REGEX "_(test|fuzz|bench)\\.cpp$")

  set(target weir_${component})
  add_library(${target} STATIC ${sources})
  add_library(weir::${component} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${component})
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src> $<INSTALL_INTERFACE:include>)
  target_link_libraries(${target} PUBLIC ${arg_DEPENDS} PRIVATE ${arg_PRIVATE_DEPENDS})
  weir_set_warnings(${target})
  weir_set_optimization(${target} ${component})
  if(NOT arg_TEST_ONLY)
    set_property(GLOBAL APPEND PROPERTY WEIR_COMPONENTS ${component})
  endif()

  if(WEIR_BUILD_TESTS)
    weir_check_headers(${component} ${arg_PRIVATE_DEPENDS})
    weir_check_link(${component})
  endif()
endfunction()

# Compiles each header of the component in a source of its own: a header includes all that it uses.  Further arguments:
# what headers in internal/ may use.  A header that its own source includes first needs no second look.
function(weir_check_headers component)
  weir_glob(headers *.h internal/*.h testing/*.h)
  set(sources)
  foreach(header IN LISTS headers)
    cmake_path(RELATIVE_PATH header BASE_DIRECTORY "${PROJECT_SOURCE_DIR}/src" OUTPUT_VARIABLE name)
    cmake_path(REPLACE_EXTENSION header LAST_ONLY .cpp OUTPUT_VARIABLE own_source)
    if(EXISTS "${own_source}")
      file(STRINGS "${own_source}" first_include REGEX "^#include" LIMIT_COUNT 1)
      file(STRINGS "${header}" once REGEX "^#pragma once$" LIMIT_COUNT 1)
      if(once AND first_include STREQUAL "#include <${name}>")
        continue()
      endif()
    endif()
    string(MAKE_C_IDENTIFIER "${name}" identifier)
    set(source "${CMAKE_CURRENT_BINARY_DIR}/headers/${identifier}.cpp")
    file(CONFIGURE OUTPUT "${source}" CONTENT "#include <${name}>\n#include <${name}>\n")
    list(APPEND sources "${source}")
  endforeach()
  if(sources)
    add_library(${component}_headers OBJECT EXCLUDE_FROM_ALL ${sources})
    set_target_properties(${component}_headers PROPERTIES UNITY_BUILD OFF)
    target_link_libraries(${component}_headers PRIVATE weir::${component} ${ARGN} GTest::gmock)
    weir_set_warnings(${component}_headers)
    target_compile_options(${component}_headers PRIVATE -O0 -g0)
    add_dependencies(check_headers ${component}_headers)
  endif()
endfunction()

# Links the whole component into an empty program: it uses nothing but what it lists as dependencies.
function(weir_check_link component)
  set(source "${CMAKE_CURRENT_BINARY_DIR}/link_alone.cpp")
  file(CONFIGURE OUTPUT "${source}" CONTENT "int main() { return 0; }\n")
  add_executable(${component}_link_alone "${source}")
  target_link_libraries(${component}_link_alone PRIVATE $<LINK_LIBRARY:WHOLE_ARCHIVE,weir_${component}>)
  add_test(NAME ${component}.LinkAlone COMMAND ${component}_link_alone)
  weir_set_labels(${component}.LinkAlone ${component})
endfunction()

# How sources of tests are compiled.  GoogleTest's headers are compiled ahead once for all test programs that are optimised alike: a
# precompiled header for each program took 6 s and 110 MB apiece with sanitizers.
function(weir_set_test_options target component)
  set(headers weir_test_headers)
  if(WEIR_SANITIZE AND NOT component IN_LIST WEIR_OPTIMIZED_TESTS)
    set(headers weir_test_headers_unoptimized)
    set(optimization -O0)
  endif()
  if(NOT TARGET ${headers})
    set(source "${CMAKE_BINARY_DIR}/${headers}.cpp") # of a program, as position-independent code of libraries is another kind
    file(CONFIGURE OUTPUT "${source}" CONTENT "int main() { return 0; }\n")
    add_executable(${headers} EXCLUDE_FROM_ALL "${source}")
    target_link_libraries(${headers} PRIVATE GTest::gmock GTest::gtest)
    target_precompile_headers(${headers} PRIVATE <gmock/gmock.h> <gtest/gtest.h>)
    weir_set_warnings(${headers})
    target_compile_options(${headers} PRIVATE ${optimization})
  endif()
  target_precompile_headers(${target} REUSE_FROM ${headers})
  target_compile_options(${target} PRIVATE ${optimization} $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>) # so that ccache sees through it
endfunction()

# weir_add_test(<component> [SHARDS n] [DEPENDS target...]): every *_test.cpp of the folder, as one program.
#
# ctest runs it as so many processes (2 by default), each with every n-th case: starting a process for each case takes longer than
# most cases.  More shards suit components whose cases wait rather than compute.
function(weir_add_test component)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "SHARDS" "DEPENDS")
  if(NOT WEIR_BUILD_TESTS)
    return()
  endif()
  weir_glob(sources *_test.cpp)
  if(NOT sources)
    message(FATAL_ERROR "weir_add_test(${component}): no *_test.cpp in ${CMAKE_CURRENT_SOURCE_DIR}")
  endif()
  set(target ${component}_test)
  add_executable(${target} ${sources})
  target_link_libraries(${target} PRIVATE weir::${component} ${arg_DEPENDS} rapidcheck GTest::gmock
                                          GTest::gtest_main)
  weir_set_warnings(${target})
  weir_set_test_options(${target} ${component})
  if(NOT arg_SHARDS)
    set(arg_SHARDS 2)
  endif()
  foreach(shard RANGE 1 ${arg_SHARDS})
    set(name ${component}.Shard${shard})
    math(EXPR index "${shard} - 1")
    add_test(NAME ${name} COMMAND ${target})
    weir_set_labels(${name} ${component})
    set_tests_properties(${name} PROPERTIES TIMEOUT 600 COST 50
                                            ENVIRONMENT "GTEST_TOTAL_SHARDS=${arg_SHARDS};GTEST_SHARD_INDEX=${index}")
  endforeach()
endfunction()

# weir_add_fuzzer(<component> [DAMAGES n] [DEPENDS target...] [SOURCES source...]): every <name>_fuzz.cpp of the folder.
#
# With WEIR_BUILD_FUZZERS: <name>_fuzz with libFuzzer.  With tests: <name>_replay, which any compiler builds and which
# runs the seeds in corpus/<name>/ and systematic damages of each as an ordinary test.  SOURCES: what fuzzers use of a large component;
# for them only that is compiled with libFuzzer, and DEPENDS has to name what it depends on.  DAMAGES: about so many of each seed (200), where
# each takes long.
function(weir_add_fuzzer component)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "DAMAGES" "DEPENDS;SOURCES")
  if(NOT arg_DAMAGES)
    set(arg_DAMAGES 200)
  endif()
  if(NOT WEIR_BUILD_FUZZERS AND NOT WEIR_BUILD_TESTS)
    return()
  endif()
  weir_glob(sources *_fuzz.cpp)
  set(fuzzed weir::${component})
  if(WEIR_BUILD_FUZZERS AND arg_SOURCES)
    set(fuzzed ${component}_fuzzed)
    add_library(${fuzzed} STATIC EXCLUDE_FROM_ALL ${arg_SOURCES})
    target_include_directories(${fuzzed} PUBLIC "${PROJECT_SOURCE_DIR}/src")
    target_link_libraries(${fuzzed} PUBLIC ${arg_DEPENDS})
    weir_set_warnings(${fuzzed})
  endif()
  foreach(source IN LISTS sources)
    cmake_path(GET source STEM fuzzer)
    string(REGEX REPLACE "_fuzz$" "" name "${fuzzer}")
    set(corpus "${CMAKE_CURRENT_SOURCE_DIR}/corpus/${name}")
    if(NOT IS_DIRECTORY "${corpus}")
      message(FATAL_ERROR "${source} has no seeds: put at least one into ${corpus}/")
    endif()
    if(WEIR_BUILD_FUZZERS)
      add_executable(${fuzzer} ${source})
      target_link_libraries(${fuzzer} PRIVATE ${fuzzed} ${arg_DEPENDS})
      target_link_options(${fuzzer} PRIVATE -fsanitize=fuzzer)
      weir_set_warnings(${fuzzer})
      add_dependencies(fuzzers ${fuzzer})
      # For scripts that run all fuzzers: one line each, the program and its seeds.
      set_property(GLOBAL APPEND_STRING PROPERTY WEIR_FUZZERS "${fuzzer} ${corpus}\n")
    endif()
    if(WEIR_BUILD_TESTS)
      add_executable(${name}_replay ${source} "${PROJECT_SOURCE_DIR}/cmake/fuzz_replay.cpp")
      set_target_properties(${name}_replay PROPERTIES UNITY_BUILD OFF)
      target_link_libraries(${name}_replay PRIVATE weir::${component} ${arg_DEPENDS})
      weir_set_warnings(${name}_replay)
      add_test(NAME ${component}.${name}_replay COMMAND ${name}_replay ${arg_DAMAGES} "${corpus}")
      weir_set_labels(${component}.${name}_replay ${component})
      set_tests_properties(${component}.${name}_replay PROPERTIES TIMEOUT 300)
    endif()
  endforeach()
endfunction()

# weir_add_benchmark(<component> [DEPENDS target...]): every *_bench.cpp of the folder, as one program.
function(weir_add_benchmark component)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "DEPENDS")
  weir_glob(sources *_bench.cpp)
  if(NOT WEIR_BUILD_BENCHMARKS OR NOT sources)
    return()
  endif()
  add_executable(${component}_bench ${sources})
  target_link_libraries(${component}_bench PRIVATE weir::${component} ${arg_DEPENDS} benchmark::benchmark
                                                   benchmark::benchmark_main)
  weir_set_warnings(${component}_bench)
endfunction()
