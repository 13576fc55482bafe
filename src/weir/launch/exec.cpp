#include <weir/launch/exec.h>

#include <cerrno>

#include <unistd.h>

namespace weir::launch {

int exec_words(std::vector<std::string> words) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execvp(arguments.front(), arguments.data());
  return errno;
}

}  // namespace weir::launch
