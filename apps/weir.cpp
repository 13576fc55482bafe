// The `weir` command: a thin main() around weir::cli::run().

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>

#include <weir/cli/fd_input.h>
#include <weir/cli/run.h>

namespace {

weir::cli::Terminal find_terminal() {
  weir::cli::Terminal terminal;
  if (isatty(STDOUT_FILENO) == 0) return terminal;
  terminal.is_terminal = true;
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) terminal.columns = size.ws_col;
  return terminal;
}

}  // namespace

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  weir::cli::FdInput input(STDIN_FILENO);
  std::istream in(&input);
  return weir::cli::run(argc, argv, in, std::cout, std::cerr, find_terminal());
}
