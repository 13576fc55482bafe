#pragma once

// What MPI_Info says about a file.
//
//   weir_layout       the layout of a new file in the layout language, or `view`: as the ranks' first views
//   striping_unit     bytes; striping_factor: over how many targets.  Of a new file, if there is no weir_layout
//                     If none of these is given: WEIR_LAYOUT of the environment, in the language of weir_layout
//   file_perm         the mode of a new file, octal
//   weir_collective   auto, alone or two-phase: how collective accesses go that need messages (see collective.h); also WEIR_COLLECTIVE of the
//                     environment.  What was done last, and why, is told as weir_collective_last
//   cb_nodes          how many ranks at most read or write for all in two phases; cb_buffer_size: how many bytes each of them holds at once
//
// All other keys that the standard reserves, and those of ROMIO and OMPIO, are accepted and have no effect.
// MPI_File_get_info shows what has.

#include <functional>
#include <map>
#include <optional>
#include <string>

#include <weir/client/file_system.h>
#include <weir/mpiio/internal/outcome.h>

namespace weir::mpiio::internal {

class Hints {
 public:
  Hints() = default;
  /// MPI_INFO_NULL: none.
  static Hints read(MPI_Info info);

  [[nodiscard]] std::optional<std::string> get(const std::string& key) const;
  void set(const std::string& key, std::string value) { values_[key] = std::move(value); }
  void remove(const std::string& key) { values_.erase(key); }
  /// Those of `others` replace ours.
  void merge(const Hints& others);
  void for_each(const std::function<void(const std::string& key, const std::string& value)>& use) const {
    for (const auto& [key, value] : values_) use(key, value);
  }
  /// A new info object with all of them that are not too long for MPI.
  Outcome write(MPI_Info* info) const;

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
/// \error MPI_ERR_INFO_VALUE names the hint and what is wrong with it
Outcome plan_new_file(const Hints& hints, const client::FileSystem& fs, std::optional<NewFile>& plan);

/// The hints that are in force for a file with this layout.
void describe_layout(const layout::Partition& layout, Hints& hints);

}  // namespace weir::mpiio::internal
