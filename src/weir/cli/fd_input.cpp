#include <weir/cli/fd_input.h>

#include <unistd.h>

#include <cerrno>
#include <ios>
#include <system_error>

#include <weir/base/system_call.h>
#include <weir/cli/internal/interruption.h>

namespace weir::cli {

FdInput::int_type FdInput::underflow() {
  if (!internal::InterruptionGuard::wait_readable(fd_)) return traits_type::eof();  // the reader asks the guard why
  const ssize_t count = uninterrupted([this] { return ::read(fd_, buffer_.data(), buffer_.size()); });
  if (count < 0) {
    // The one way a stream buffer can report an error: the stream catches this and sets badbit.
    throw std::ios_base::failure("read", std::error_code(errno, std::generic_category()));
  }
  if (count == 0) return traits_type::eof();
  setg(buffer_.data(), buffer_.data(), buffer_.data() + count);
  return traits_type::to_int_type(*gptr());
}

}  // namespace weir::cli
