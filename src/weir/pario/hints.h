#pragma once

// What a program says about a file, as text.
//
//   weir_layout       the layout of a new file in the layout language, or `view`: as the ranks' first views
//   striping_unit     bytes; striping_factor: over how many targets.  Of a new file, if there is no weir_layout
//                     If none of these is given: WEIR_LAYOUT of the environment, in the language of weir_layout
//   file_perm         the mode of a new file, octal
//   weir_collective   auto, alone or two-phase: how collective accesses go that need messages (see collective.h); also WEIR_COLLECTIVE of the
//                     environment.  What was done last, and why, is told as weir_collective_last
//   cb_nodes          how many ranks at most read or write for all in two phases; cb_buffer_size: how many bytes each of them holds at once
//
// All other keys, such as those of the MPI standard, ROMIO and OMPIO, are accepted and have no effect.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include <weir/base/result.h>
#include <weir/client/file_system.h>
#include <weir/pario/collective.h>
#include <weir/runtime/runtime.h>

namespace weir::pario {

class Hints {
 public:
  [[nodiscard]] std::optional<std::string> get(const std::string& key) const;
  void set(const std::string& key, std::string value) { values_[key] = std::move(value); }
  void remove(const std::string& key) { values_.erase(key); }
  /// Those of `others` replace ours.
  void merge(const Hints& others);
  void for_each(const std::function<void(const std::string& key, const std::string& value)>& use) const {
    for (const auto& [key, value] : values_) use(key, value);
  }

 private:
  std::map<std::string, std::string> values_;
};

/// Those of `given` that have an effect.  `is_told`: logs keys weir_* that are unknown, and values that are of no use,
/// each once.
Hints usable(const Hints& given, bool is_told);

/// How a new file is to be made.
struct NewFile {
  layout::Partition layout;
  client::CreateOptions options;
  bool is_as_viewed = false;  ///< `layout` only holds until the ranks set their views.
  std::string why;            ///< This layout, for people.
};
/// \param targets  of the file system
/// \error kBadHint names the hint and what is wrong with it
Result<NewFile> plan_new_file(const Hints& hints, std::uint32_t targets, const runtime::Settings& settings);

/// The hint, else WEIR_COLLECTIVE of the settings, else kAuto.
Method wanted_method(const Hints& hints, const runtime::Settings& settings);

/// The hints that are in force for a file with this layout.
void describe_layout(const layout::Partition& layout, Hints& hints);

}  // namespace weir::pario
