#include <weir/cli/fd_input.h>

#include <unistd.h>

#include <cerrno>
#include <ios>
#include <system_error>

namespace weir::cli {

FdInput::int_type FdInput::underflow() {
  ssize_t count = 0;
  do {
    count = ::read(fd_, buffer_.data(), buffer_.size());
  } while (count < 0 && errno == EINTR);
  if (count < 0) {
    // The one way a stream buffer can report an error: the stream catches this and sets badbit.
    throw std::ios_base::failure("read", std::error_code(errno, std::generic_category()));
  }
  if (count == 0) return traits_type::eof();
  setg(buffer_.data(), buffer_.data(), buffer_.data() + count);
  return traits_type::to_int_type(*gptr());
}

}  // namespace weir::cli
