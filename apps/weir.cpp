// The `weir` command: a thin main() around weir::cli::run().

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>

#include <weir/cli/fd_input.h>
#include <weir/cli/run.h>

namespace {

int columns_of(int descriptor) {
  winsize size{};
  return ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

weir::cli::Terminal find_terminal() {
  weir::cli::Terminal terminal;
  terminal.is_terminal = isatty(STDOUT_FILENO) != 0;
  terminal.is_error_terminal = isatty(STDERR_FILENO) != 0;
  terminal.columns = columns_of(terminal.is_terminal ? STDOUT_FILENO : STDERR_FILENO);
  return terminal;
}

}  // namespace

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  weir::cli::FdInput input(STDIN_FILENO);
  std::istream in(&input);
  return weir::cli::run(argc, argv, in, std::cout, std::cerr, find_terminal());
}
