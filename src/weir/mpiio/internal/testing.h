#pragma once

// For the tests: files, types and what they must do, computed byte by byte.

#include <algorithm>
#include <cstddef>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include <mpi.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weir::mpiio::internal {

inline int world_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}
inline int world_size() {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

inline int class_of(int code) {
  int error_class = -1;
  MPI_Error_class(code, &error_class);
  return error_class;
}
inline std::string text_of(int code) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  return {text, static_cast<std::size_t>(length)};
}

MATCHER(Succeeds, "succeeds") {
  if (arg == MPI_SUCCESS) return true;
  *result_listener << "error: " << text_of(arg);
  return false;
}
MATCHER_P(FailsWith, error_class, "is an error of class " + std::to_string(error_class)) {
  *result_listener << "class " << class_of(arg) << ": " << text_of(arg);
  return class_of(arg) == error_class;
}

/// A hint of an open file; "(none)" if it has none of that name.
inline std::string hint_of(MPI_File file, const char* key) {
  MPI_Info info = MPI_INFO_NULL;
  EXPECT_THAT(MPI_File_get_info(file, &info), Succeeds());
  char value[MPI_MAX_INFO_VAL + 1] = "";
  int is_there = 0;
  MPI_Info_get(info, key, MPI_MAX_INFO_VAL, value, &is_there);
  MPI_Info_free(&info);
  return is_there != 0 ? value : "(none)";
}

/// A committed datatype, freed at the end.
class Type {
 public:
  explicit Type(MPI_Datatype type) : type_(type) { MPI_Type_commit(&type_); }
  Type(Type&& other) noexcept : type_(std::exchange(other.type_, MPI_DATATYPE_NULL)) {}
  Type(const Type&) = delete;
  Type& operator=(const Type&) = delete;
  Type& operator=(Type&&) = delete;
  ~Type() {
    if (type_ != MPI_DATATYPE_NULL) MPI_Type_free(&type_);
  }
  operator MPI_Datatype() const { return type_; }  // NOLINT: implicit on purpose

 private:
  MPI_Datatype type_;
};

inline Type vector_of(int count, int block, int stride, MPI_Datatype of) {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Type_vector(count, block, stride, of, &type);
  return Type(type);
}
inline Type resized(MPI_Datatype of, MPI_Aint low, MPI_Aint extent) {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Type_create_resized(of, low, extent, &type);
  return Type(type);
}
inline Type contiguous(int count, MPI_Datatype of) {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Type_contiguous(count, of, &type);
  return Type(type);
}
inline Type subarray(std::vector<int> sizes, std::vector<int> subsizes, std::vector<int> starts, MPI_Datatype of,
                     int order = MPI_ORDER_C) {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Type_create_subarray(static_cast<int>(sizes.size()), sizes.data(), subsizes.data(), starts.data(), order, of,
                           &type);
  return Type(type);
}

inline std::size_t size_of(MPI_Datatype type) {
  int size = 0;
  MPI_Type_size(type, &size);
  return static_cast<std::size_t>(size);
}
inline MPI_Aint extent_of(MPI_Datatype type) {
  MPI_Aint low = 0;
  MPI_Aint extent = 0;
  MPI_Type_get_extent(type, &low, &extent);
  return extent;
}

/// The offsets of the bytes of `count` items, in the order of the type map: MPI packs bytes that carry their own
/// offset.
/// \pre no offset is negative, and the reach is below 64 KiB
inline std::vector<std::size_t> offsets_of(MPI_Datatype type, int count) {
  constexpr std::size_t kReach = std::size_t{1} << 16;
  std::vector<unsigned char> low(kReach);
  std::vector<unsigned char> high(kReach);
  for (std::size_t i = 0; i < kReach; ++i) {
    low[i] = static_cast<unsigned char>(i & 0xff);
    high[i] = static_cast<unsigned char>(i >> 8);
  }
  const std::size_t bytes = size_of(type) * static_cast<std::size_t>(count);
  std::vector<unsigned char> packed_low(bytes);
  std::vector<unsigned char> packed_high(bytes);
  int at = 0;
  MPI_Pack(low.data(), count, type, packed_low.data(), static_cast<int>(bytes), &at, MPI_COMM_SELF);
  at = 0;
  MPI_Pack(high.data(), count, type, packed_high.data(), static_cast<int>(bytes), &at, MPI_COMM_SELF);
  std::vector<std::size_t> offsets(bytes);
  for (std::size_t i = 0; i < bytes; ++i) offsets[i] = packed_low[i] + std::size_t{packed_high[i]} * 256;
  return offsets;
}

using Bytes = std::vector<unsigned char>;

/// The k-th byte that a rank writes.
inline unsigned char byte_of(int rank, std::size_t k) {
  return static_cast<unsigned char>(1 + (k * 7 + static_cast<std::size_t>(rank) * 31) % 251);
}

/// The whole file, as anybody sees it.
inline Bytes contents(const std::string& name) {
  MPI_File file = MPI_FILE_NULL;
  EXPECT_THAT(MPI_File_open(MPI_COMM_SELF, name.c_str(), MPI_MODE_RDONLY, MPI_INFO_NULL, &file), Succeeds());
  MPI_Offset size = 0;
  EXPECT_THAT(MPI_File_get_size(file, &size), Succeeds());
  Bytes bytes(static_cast<std::size_t>(size));
  MPI_Status status;
  EXPECT_THAT(MPI_File_read_at(file, 0, bytes.data(), static_cast<int>(size), MPI_BYTE, &status), Succeeds());
  int count = -1;
  MPI_Get_count(&status, MPI_BYTE, &count);
  EXPECT_EQ(count, static_cast<int>(size));
  EXPECT_THAT(MPI_File_close(&file), Succeeds());
  return bytes;
}

/// A name that no other test uses.
inline std::string test_name(const std::string& suffix = "") {
  const auto* const info = ::testing::UnitTest::GetInstance()->current_test_info();
  std::string name = std::string("weir:/") + info->test_suite_name() + "." + info->name() + suffix;
  std::replace(name.begin() + 6, name.end(), '/', '-');
  return name;
}

/// An open file, closed at the end.
class OpenedFile {
 public:
  explicit OpenedFile(const std::string& name, int amode = MPI_MODE_CREATE | MPI_MODE_RDWR,
                      MPI_Comm comm = MPI_COMM_WORLD, MPI_Info info = MPI_INFO_NULL) {
    EXPECT_THAT(MPI_File_open(comm, name.c_str(), amode, info, &file_), Succeeds());
  }
  OpenedFile(const OpenedFile&) = delete;
  OpenedFile& operator=(const OpenedFile&) = delete;
  ~OpenedFile() { close(); }
  void close() {
    if (file_ != MPI_FILE_NULL) {
      EXPECT_THAT(MPI_File_close(&file_), Succeeds());
    }
  }
  operator MPI_File() const { return file_; }  // NOLINT: implicit on purpose

 private:
  MPI_File file_ = MPI_FILE_NULL;
};

}  // namespace weir::mpiio::internal
