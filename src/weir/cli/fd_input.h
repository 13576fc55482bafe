#pragma once

#include <streambuf>
#include <vector>

namespace weir::cli {

/// Reads a file descriptor, as much as one read(2) gives at a time: what has not arrived yet is not waited for, so a
/// program at the other end of a pipe can send one line and wait for its answer.  std::cin does the same with a buffer
/// that is too small for the rate batch works at.
class FdInput : public std::streambuf {
 public:
  explicit FdInput(int fd) : fd_(fd), buffer_(kBytes) {}

 protected:
  int_type underflow() override;

 private:
  static constexpr std::size_t kBytes = std::size_t{1} << 18;
  int fd_;
  std::vector<char> buffer_;
};

}  // namespace weir::cli
