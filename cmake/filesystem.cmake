# What the file system stands on: UCX, OpenSSL, RocksDB, liburing, FlatBuffers, libsodium, xxHash.
#
# WEIR_FS_FOUND says whether all of it is there.  Without it neither the file system nor the weir command is built.

find_package(PkgConfig)
find_package(FlatBuffers QUIET CONFIG)
find_package(RocksDB QUIET CONFIG)
find_program(WEIR_FLATC flatc DOC "The compiler of FlatBuffers schemas.")
mark_as_advanced(WEIR_FLATC)
set(missing)
foreach(module ucx openssl liburing libsodium libxxhash)
  if(PKG_CONFIG_FOUND)
    pkg_check_modules(WEIR_${module} QUIET IMPORTED_TARGET GLOBAL ${module})
  endif()
  if(NOT WEIR_${module}_FOUND)
    list(APPEND missing ${module})
  endif()
endforeach()
foreach(package FlatBuffers RocksDB)
  if(NOT ${package}_FOUND)
    list(APPEND missing ${package})
  endif()
endforeach()
if(NOT WEIR_FLATC)
  list(APPEND missing flatc)
endif()

if(missing)
  list(JOIN missing ", " missing)
  message(STATUS "File system, weir command: not built, missing: ${missing}")
  set(WEIR_FS_FOUND FALSE)
else()
  set(WEIR_FS_FOUND TRUE)
endif()

# weir_add_schema(<target> <name>.fbs): <name>_generated.h for sources that include <weir/<component>/<name>_generated.h>.
function(weir_add_schema target schema)
  cmake_path(GET schema STEM name)
  cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY "${PROJECT_SOURCE_DIR}/src" OUTPUT_VARIABLE folder)
  set(directory "${PROJECT_BINARY_DIR}/generated/${folder}")
  set(header "${directory}/${name}_generated.h")
  add_custom_command(
    OUTPUT "${header}"
    COMMAND ${WEIR_FLATC} --cpp --cpp-std c++11 --scoped-enums --gen-object-api --reflect-types -o "${directory}"
            "${CMAKE_CURRENT_SOURCE_DIR}/${schema}"
    DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${schema}"
    VERBATIM)
  # A target of its own, so that users of the library wait for the header.
  add_custom_target(${target}_schema DEPENDS "${header}")
  add_dependencies(${target} ${target}_schema)
  target_sources(${target} PRIVATE "${header}")
  target_include_directories(${target} SYSTEM PUBLIC $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/generated>)
  install(FILES "${header}" DESTINATION include/${folder})
endfunction()
