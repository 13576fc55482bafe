# Language level, warnings, sanitizers and tools: what applies to every target of the project.

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES AND PROJECT_IS_TOP_LEVEL)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON) # the libraries end up in plug-ins and preloaded objects too
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")

if(WEIR_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(WEIR_CCACHE_PROGRAM ccache)
  if(WEIR_CCACHE_PROGRAM)
    # Paths count from the source folder, so that presets and clones share what they compile alike.
    set(CMAKE_CXX_COMPILER_LAUNCHER
        "${CMAKE_COMMAND}" -E env "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" CCACHE_NOHASHDIR=1
        CCACHE_SLOPPINESS=pch_defines,time_macros "${WEIR_CCACHE_PROGRAM}")
  endif()
endif()

if(WEIR_CLANG_TIDY)
  find_program(WEIR_CLANG_TIDY_PROGRAM clang-tidy REQUIRED)
  # Compilers other than Clang are passed options that clang-tidy does not know.
  set(CMAKE_CXX_CLANG_TIDY "${WEIR_CLANG_TIDY_PROGRAM}" --quiet --extra-arg=-Wno-unknown-warning-option)
endif()

if(WEIR_SANITIZE)
  add_compile_options(-fsanitize=${WEIR_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${WEIR_SANITIZE})
  if(WEIR_SANITIZE MATCHES "undefined" AND CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    add_compile_options(-fno-sanitize=function) # Clang 14 cannot assemble coroutines with it
  endif()
endif()

if(WEIR_BUILD_FUZZERS)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "WEIR_BUILD_FUZZERS needs Clang for libFuzzer, but the compiler is ${CMAKE_CXX_COMPILER_ID}: "
                        "configure with --preset fuzz")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link) # coverage feedback from the libraries, too
endif()

# Warnings are a property of our own sources only, so they are set per target rather than for the whole tree.
function(weir_set_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wcast-align
                                           -Wold-style-cast -Wconversion)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC 12 sees ghosts in every std::variant, all the more with sanitizers; Clang and the sanitizers look for the real ones.
    target_compile_options(${target} PRIVATE -Wno-maybe-uninitialized)
  endif()
  if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Unnamed namespaces of included sources look like those of headers.
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  endif()
  if(WEIR_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
endfunction()
