// Any text as hints, and as the settings that count where hints say nothing: what they ask for is refused by an error
// about a hint, or can be done; and ranks that access a file together divide all of it among them.
//
// Input: lines KEY=VALUE, of hints or (SETTING names of variables) of the environment; behind an empty line, shares of
// ranks.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <weir/base/testing/fuzz_input.h>
#include <weir/log/log.h>
#include <weir/pario/collective.h>
#include <weir/pario/errors.h>
#include <weir/pario/hints.h>

namespace {

using namespace weir;
using namespace weir::pario;
using testing::FuzzInput;
using testing::require;

struct TextSettings final : runtime::Settings {
  [[nodiscard]] std::string get(const char* name) const override {
    const auto found = values.find(name);
    return found == values.end() ? std::string() : found->second;
  }
  std::map<std::string, std::string, std::less<>> values;
};

Offset number_in(const Hints& hints, const char* key) {
  const auto text = hints.get(key);
  return text ? std::stoll(*text) : 0;  // usable() has looked at it
}

void divide_among(FuzzInput& in, const Hints& hints, Method wanted) {
  CollectiveFacts facts;
  facts.is_write = in.flag();
  facts.are_disjoint = in.flag();
  for (std::size_t ranks = 1 + in.below(5); ranks > 0; --ranks) {
    Share share;
    share.file.from = in.number() & (kMaxBytes - 1);
    share.bytes = std::min(in.number() & (kMaxBytes - 1), kMaxBytes - share.file.from);
    share.file.to = share.file.from + share.bytes;
    share.messages = share.pieces = 1;
    facts.shares.push_back(share);
  }
  Offset bytes = 0;
  for (const Share& share : facts.shares) bytes = std::min(kMaxBytes, bytes + share.bytes / 8);
  if (bytes == 0) return;
  DomainOptions options;
  options.most_owners = static_cast<int>(number_in(hints, "cb_nodes"));
  options.window = number_in(hints, "cb_buffer_size");
  options.alignment = 1 + (in.number() & (kMaxBytes - 1));
  facts.domains = divide(facts.shares, options);
  const CollectiveChoice choice = choose(facts, wanted);
  if (choice.method != Method::kTwoPhase) return;
  const Domains& domains = facts.domains;
  require(domains.owners >= 1 && domains.rounds() >= 1, "somebody does something");
  // Windows of an owner follow each other, and those of the next begin where they end.
  Offset end = domains.file.from;
  for (int owner = 0; owner < domains.owners; ++owner) {
    require(domains.window_of(owner, 0).from == end, "no gap between owners");
    if (domains.rounds() > 1) {
      require(domains.window_of(owner, 1).from == domains.window_of(owner, 0).to, "no gap between windows");
    }
    end = domains.window_of(owner, domains.rounds() - 1).to;
  }
  require(end == domains.file.to, "all of the file");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  log::set_level(log::Level::kOff);
  std::string_view text(reinterpret_cast<const char*>(data), size);
  Hints given;
  TextSettings settings;
  while (!text.empty() && !text.starts_with('\n')) {
    const std::string_view line = text.substr(0, text.find('\n'));
    const std::string key(line.substr(0, line.find('=')));
    const std::string value(line.size() > key.size() ? line.substr(key.size() + 1) : "");
    key.starts_with("WEIR_") ? static_cast<void>(settings.values[key] = value) : given.set(key, value);
    text.remove_prefix(std::min(text.size(), line.size() + 1));
  }
  const Hints hints = usable(given, false);
  const Method method = wanted_method(hints, settings);
  const auto planned = plan_new_file(hints, 4, settings);
  if (planned.is_ok()) {
    Hints told;
    describe_layout(planned->layout, told);
    const auto again = plan_new_file(told, 4, settings);
    require(again.is_ok() && again->layout.description() == planned->layout.description(),
            "what is told can be asked for");
  } else {
    require(planned.status().detail() == kBadHint, "an error about a hint");
  }
  FuzzInput in(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
  in.byte();
  divide_among(in, hints, method);
  return 0;
}
