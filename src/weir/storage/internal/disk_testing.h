#pragma once

// For tests of the disk store and its benchmark: temporary directories, files as bytes, reads and writes of one piece.

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include <weir/base/checked.h>
#include <weir/base/result.h>
#include <weir/base/testing/temporary_directory.h>
#include <weir/storage/blocking.h>
#include <weir/storage/store.h>

namespace weir::storage::internal {

using Bytes = std::vector<std::byte>;
using testing::TemporaryDirectory;

inline Bytes load_file(const std::string& path) {
  Bytes bytes(std::filesystem::file_size(path));
  std::ifstream file(path, std::ios::binary);
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  return bytes;
}

/// With holes where there is nothing but zeros.
inline void save_file(const std::string& path, const Bytes& bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  constexpr std::size_t kUnit = 4096;
  for (std::size_t at = 0; at < bytes.size(); at += kUnit) {
    const std::size_t size = std::min(kUnit, bytes.size() - at);
    const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    if (std::all_of(begin, begin + static_cast<std::ptrdiff_t>(size),
                    [](std::byte byte) { return byte == std::byte{0}; })) {
      continue;
    }
    file.seekp(static_cast<std::streamoff>(at));
    file.write(reinterpret_cast<const char*>(&*begin), static_cast<std::streamsize>(size));
  }
  file.close();
  std::filesystem::resize_file(path, bytes.size());
}

inline Bytes random_bytes(std::mt19937_64& random, Offset size) {
  Bytes bytes(static_cast<std::size_t>(size));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

/// In [0, limit).
inline Offset below(std::mt19937_64& random, Offset limit) {
  return static_cast<Offset>(random() % static_cast<std::uint64_t>(limit));
}

inline Status write(Store& store, SubfileId id, Offset offset, std::span<const std::byte> bytes) {
  const std::array pieces{WritePiece{offset, bytes}};
  return Blocking(store).write(id, pieces, 0);
}

inline Result<Bytes> read(Store& store, SubfileId id, Offset offset, Offset size) {
  Bytes bytes(static_cast<std::size_t>(size), std::byte{0xAA});
  const std::array pieces{ReadPiece{offset, bytes}};
  if (Status status = Blocking(store).read(id, pieces); !status.is_ok()) return status;
  return bytes;
}

}  // namespace weir::storage::internal
