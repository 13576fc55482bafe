// All functions that read or write, by shape.
//
//   blocking           (fh, [offset,] data, count, type, status)      split, begin   (fh, [offset,] data, count, type)
//   non-blocking       (fh, [offset,] data, count, type, request)     split, end     (fh, data, status)

#include <type_traits>

#include <weir/mpiio/internal/entry.h>

using namespace weir::mpiio::internal;  // NOLINT: this file defines functions of the global namespace only

namespace {

// What the data argument is, and so which way the bytes go.
using Read = void*;
using Write = const void*;

template <typename Data>
constexpr bool kIsWrite = std::is_same_v<Data, Write>;

Buffer buffer_of(const void* data, MPI_Count count, MPI_Datatype type) {
  return {const_cast<void*>(data), count, type};
}

constexpr bool kAlone = false;
constexpr bool kTogether = true;

}  // namespace

#define WEIR_BLOCKING_AT(name, Data, Count, together)                                                                  \
  WEIR_FILE_FUNCTION(MPI_File_##name,                                                                                  \
                     (MPI_File fh, MPI_Offset offset, Data data, Count count, MPI_Datatype type, MPI_Status * status), \
                     (fh, offset, data, count, type, status),                                                          \
                     return file.access({kIsWrite<Data>, Pointer::kExplicit, together, offset, call},                  \
                                        buffer_of(data, count, type), status);)

#define WEIR_BLOCKING(name, Data, Count, pointer, together)                                           \
  WEIR_FILE_FUNCTION(                                                                                 \
      MPI_File_##name, (MPI_File fh, Data data, Count count, MPI_Datatype type, MPI_Status * status), \
      (fh, data, count, type, status),                                                                \
      return file.access({kIsWrite<Data>, pointer, together, 0, call}, buffer_of(data, count, type), status);)

#define WEIR_NONBLOCKING_AT(name, Data, Count, together)                                                            \
  WEIR_FILE_FUNCTION(                                                                                               \
      MPI_File_##name,                                                                                              \
      (MPI_File fh, MPI_Offset offset, Data data, Count count, MPI_Datatype type, MPI_Request * request),           \
      (fh, offset, data, count, type, request),                                                                     \
      return file.start({kIsWrite<Data>, Pointer::kExplicit, together, offset, call}, buffer_of(data, count, type), \
                        request);)

#define WEIR_NONBLOCKING(name, Data, Count, pointer, together)                                          \
  WEIR_FILE_FUNCTION(                                                                                   \
      MPI_File_##name, (MPI_File fh, Data data, Count count, MPI_Datatype type, MPI_Request * request), \
      (fh, data, count, type, request),                                                                 \
      return file.start({kIsWrite<Data>, pointer, together, 0, call}, buffer_of(data, count, type), request);)

#define WEIR_BEGIN_AT(name, Data, Count)                                                            \
  WEIR_FILE_FUNCTION(                                                                               \
      MPI_File_##name, (MPI_File fh, MPI_Offset offset, Data data, Count count, MPI_Datatype type), \
      (fh, offset, data, count, type),                                                              \
      return file.begin({kIsWrite<Data>, Pointer::kExplicit, true, offset, call}, buffer_of(data, count, type));)

#define WEIR_BEGIN(name, Data, Count, pointer)                                                  \
  WEIR_FILE_FUNCTION(MPI_File_##name, (MPI_File fh, Data data, Count count, MPI_Datatype type), \
                     (fh, data, count, type),                                                   \
                     return file.begin({kIsWrite<Data>, pointer, true, 0, call}, buffer_of(data, count, type));)

#define WEIR_END(name, Data, pointer)                                                                    \
  WEIR_FILE_FUNCTION(MPI_File_##name, (MPI_File fh, Data data, MPI_Status * status), (fh, data, status), \
                     return file.end({kIsWrite<Data>, pointer, true, 0, call}, data, status);)

// All that have a count: once with counts that are int, once with those of MPI 4.
#define WEIR_ACCESSES(c, Count)                                                  \
  WEIR_BLOCKING_AT(read_at##c, Read, Count, kAlone)                              \
  WEIR_BLOCKING_AT(read_at_all##c, Read, Count, kTogether)                       \
  WEIR_BLOCKING_AT(write_at##c, Write, Count, kAlone)                            \
  WEIR_BLOCKING_AT(write_at_all##c, Write, Count, kTogether)                     \
  WEIR_BLOCKING(read##c, Read, Count, Pointer::kIndividual, kAlone)              \
  WEIR_BLOCKING(read_all##c, Read, Count, Pointer::kIndividual, kTogether)       \
  WEIR_BLOCKING(write##c, Write, Count, Pointer::kIndividual, kAlone)            \
  WEIR_BLOCKING(write_all##c, Write, Count, Pointer::kIndividual, kTogether)     \
  WEIR_BLOCKING(read_shared##c, Read, Count, Pointer::kShared, kAlone)           \
  WEIR_BLOCKING(write_shared##c, Write, Count, Pointer::kShared, kAlone)         \
  WEIR_BLOCKING(read_ordered##c, Read, Count, Pointer::kOrdered, kTogether)      \
  WEIR_BLOCKING(write_ordered##c, Write, Count, Pointer::kOrdered, kTogether)    \
  WEIR_NONBLOCKING_AT(iread_at##c, Read, Count, kAlone)                          \
  WEIR_NONBLOCKING_AT(iread_at_all##c, Read, Count, kTogether)                   \
  WEIR_NONBLOCKING_AT(iwrite_at##c, Write, Count, kAlone)                        \
  WEIR_NONBLOCKING_AT(iwrite_at_all##c, Write, Count, kTogether)                 \
  WEIR_NONBLOCKING(iread##c, Read, Count, Pointer::kIndividual, kAlone)          \
  WEIR_NONBLOCKING(iread_all##c, Read, Count, Pointer::kIndividual, kTogether)   \
  WEIR_NONBLOCKING(iwrite##c, Write, Count, Pointer::kIndividual, kAlone)        \
  WEIR_NONBLOCKING(iwrite_all##c, Write, Count, Pointer::kIndividual, kTogether) \
  WEIR_NONBLOCKING(iread_shared##c, Read, Count, Pointer::kShared, kAlone)       \
  WEIR_NONBLOCKING(iwrite_shared##c, Write, Count, Pointer::kShared, kAlone)     \
  WEIR_BEGIN_AT(read_at_all_begin##c, Read, Count)                               \
  WEIR_BEGIN_AT(write_at_all_begin##c, Write, Count)                             \
  WEIR_BEGIN(read_all_begin##c, Read, Count, Pointer::kIndividual)               \
  WEIR_BEGIN(write_all_begin##c, Write, Count, Pointer::kIndividual)             \
  WEIR_BEGIN(read_ordered_begin##c, Read, Count, Pointer::kOrdered)              \
  WEIR_BEGIN(write_ordered_begin##c, Write, Count, Pointer::kOrdered)

WEIR_ACCESSES(, int)
#if MPI_VERSION >= 4
WEIR_ACCESSES(_c, MPI_Count)
#endif

WEIR_END(read_at_all_end, Read, Pointer::kExplicit)
WEIR_END(write_at_all_end, Write, Pointer::kExplicit)
WEIR_END(read_all_end, Read, Pointer::kIndividual)
WEIR_END(write_all_end, Write, Pointer::kIndividual)
WEIR_END(read_ordered_end, Read, Pointer::kOrdered)
WEIR_END(write_ordered_end, Write, Pointer::kOrdered)
