#pragma once

// The ways to a process's part of a matrix that the View I/O paper compares, over the same servers and the same client.
//
//   view         one call; the targets know the pattern
//   list         one call with all (offset, length, memory) pieces of the linear file, sent along with the bytes
//   sieving      whole ranges of the linear file, 4 MiB at a time; writes read them first, under a lock
//   two-phase    each process takes a contiguous part of the file; the processes exchange bytes through shared memory
//
// Each is given what helps it: lists are flattened ahead of time, the exchange of two-phase is one copy without
// messages, and copies run by plan everywhere.

#include <optional>

#include <weir/transfer/plan.h>

#include "fs_team.h"

namespace weir::bench {

struct Costs {
  double calls = 0;
  double messages = 0;
  double index_bytes = 0;
  double extra_bytes = 0;  ///< Moved beyond those asked for: between processes and targets, or among processes.
};

/// Seconds to declare a view: to intersect, and to do what the first access to each subfile does once (tell the target,
/// or compile a plan).
double seconds_to_set_view(const client::File& file, const layout::Element& element);

/// One process's part of a matrix in a file, which is in file order.
class Part {
 public:
  /// Collective.  The file is made again.
  Part(const Team& team, const client::FileSystem& by_message, const client::FileSystem& direct,
       const layout::Partition& layout, const layout::Partition& views);

  static const std::vector<std::string>& methods();  ///< The first is view I/O by message, the last view I/O direct.

  /// Moves the part between memory and the file.  Collective.
  void write(std::size_t method);
  void read(std::size_t method);

  /// Ends the program unless the method writes and reads the right bytes.  Collective.
  void check(std::size_t method);

  /// Of all processes together, for one write of the part by a view made again.  Collective.
  Costs costs_of_write(std::size_t method);
  /// One measurement of seconds_to_set_view() for this part.
  double seconds_to_set_view() { return bench::seconds_to_set_view(*file_, element_); }

  [[nodiscard]] Offset bytes() const { return element_.size(); }
  [[nodiscard]] Offset file_bytes() const { return element_.period(); }

 private:
  void write_list();
  void read_list();
  void write_sieving();
  void read_sieving();
  void write_two_phase();
  void read_two_phase();
  template <typename Visit>
  void for_windows(Visit visit);
  [[nodiscard]] layout::Range domain() const;
  [[nodiscard]] client::View& view_of(std::size_t method);
  void fill(unsigned seed);

  const Team& team_;
  client::FileSystem system_;
  std::string path_;
  layout::Element element_;
  std::optional<client::File> file_;
  std::optional<client::View> view_;
  std::optional<client::View> linear_;
  std::optional<client::View> direct_;
  transfer::Plan gather_;
  transfer::Plan scatter_;
  Buffer memory_;
  Buffer window_;
  std::vector<client::WritePart> pieces_;
  std::vector<client::ReadPart> places_;
};

}  // namespace weir::bench
