#include <weir/base/read_all.h>

#include <array>

namespace weir {

std::string read_all(std::istream& in, std::size_t most) {
  std::string text;
  std::array<char, 4096> part;
  do {
    in.read(part.data(), part.size());
    text.append(part.data(), static_cast<std::size_t>(in.gcount()));
  } while (in && text.size() <= most);
  return text;
}

}  // namespace weir
