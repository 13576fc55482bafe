#pragma once

// Predictions: what a copy and what a redistribution cost, from the structure of the layouts.

#include <weir/layout/mapping.h>
#include <weir/layout/partition.h>
#include <weir/model/machine.h>

namespace weir::model {

/// Equal pieces, equally spaced.
struct CopyFamily {
  double pieces = 0;
  double turns = 1;          ///< Innermost loops started.
  Offset length = 0;         ///< Contiguous bytes per copy.
  double source_stride = 0;  ///< Bytes from piece to piece; the length where that side is packed.
  double target_stride = 0;
  friend bool operator==(const CopyFamily&, const CopyFamily&) = default;
};

enum class Path {
  kPack,    ///< Element a -> message.
  kUnpack,  ///< Message -> element b.
  kCopy,    ///< Element a -> element b.
};

/// What the cost of a copy depends on, read off the loops of a mapping; never by walking its pieces.
struct CopyFeatures {
  Path path = Path::kPack;
  double bytes = 0;
  double pieces = 0;
  Offset min_length = 0;
  double mean_length = 0;
  double working_set = 0;  ///< Bytes in cache lines touched, both sides together.
  std::vector<CopyFamily> families;
};

/// \pre The mapping is finite.
CopyFeatures features_of(const layout::Mapping& a_to_b, Path path, const Machine& machine);

struct CopyPrediction {
  double seconds = 0;
  double formula_seconds = 0;  ///< Without the table of corrections.
  // The terms of formula_seconds.
  double copy_seconds = 0;  ///< phi
  double line_seconds = 0;
  double page_seconds = 0;
  double turn_seconds = 0;

  CopyPrediction& operator+=(const CopyPrediction& other);
};

/// What a copy is part of: a redistribution visits an array message by message.
struct CopyConditions {
  double working_set = 0;  ///< Bytes in cache lines that all messages touch; 0: this copy alone, again and again.
  /// Bytes of the array for each byte that is moved, all messages together: 1 if they move all of it.
  double density = 1;
};

CopyPrediction predict_copy(const Machine& machine, const CopyFeatures& features,
                            const CopyConditions& conditions = {});

enum class Phases { kAuto, kOne, kTwo };
enum class Local { kAuto, kDirect, kPacked };

struct Options {
  Offset ranks = 0;  ///< 0: as many as the larger layout has elements.  Element i belongs to rank i mod ranks.
  Offset bytes = 0;  ///< Of the file; 0: one common period of both layouts.
  Phases phases = Phases::kAuto;
  Local local = Local::kAuto;
};

/// One rank in one phase.
struct RankPrediction {
  Offset rank = 0;
  double pack_seconds = 0;
  double unpack_seconds = 0;
  double local_seconds = 0;
  std::optional<double> message_seconds;  ///< Nothing without Machine::network.
  Offset sends = 0;
  Offset receives = 0;
  Offset sends_in_place = 0;  ///< From the array itself, without packing.
  Offset receives_in_place = 0;
  Offset bytes_sent = 0;
  Offset bytes_received = 0;
  Offset bytes_local = 0;
  double pieces_packed = 0;
  double pieces_unpacked = 0;
  double direct_seconds = 0;  ///< The local part copied from array to array, and
  double packed_seconds = 0;  ///< through a buffer: local_seconds is one of them.

  /// Without messages if they are not known.
  [[nodiscard]] double seconds() const noexcept;
};

struct PhasePrediction {
  std::string from;
  std::string to;
  bool local_direct = true;
  std::vector<RankPrediction> ranks;
  std::size_t critical = 0;  ///< Index of the rank that takes longest.
  double seconds = 0;        ///< Its time.
};

struct Prediction {
  std::vector<PhasePrediction> phases;       ///< What is chosen.
  std::vector<PhasePrediction> alternative;  ///< What is not; empty if there is no other way.
  double seconds = 0;
  double alternative_seconds = 0;
  bool knows_messages = false;
  std::string why;  ///< Why so many phases, in a sentence.
};

/// The time of a redistribution before it runs: every rank packs, exchanges messages, copies its local part and
/// unpacks.
/// \error kInvalidArgument if the layouts start at different displacements, or two phases are asked for and there is no
/// layout between; kTooComplex over 2^16 pairs of elements, or what intersect() says.
Result<Prediction> predict_redistribution(const Machine& machine, const layout::Partition& from,
                                          const layout::Partition& to, const Options& options = {});

/// What one rank spends if the redistribution takes one phase, without looking at pairs of other ranks: for ranks that
/// predict together, each its own part.  \pre options.ranks > rank; options.phases is not used.
/// \error as predict_redistribution()
Result<RankPrediction> predict_rank(const Machine& machine, const layout::Partition& from, const layout::Partition& to,
                                    Offset rank, const Options& options);

/// The layout between two block-cyclic ones whose blocks are the least common multiple; nothing if there is none or it
/// is one of the two.
std::optional<layout::Partition> layout_between(const layout::Partition& from, const layout::Partition& to);

/// The layout with another element size in bytes.  \error kInvalidArgument unless it is hpf or tiles
Result<layout::Partition> with_elem(const layout::Partition& partition, Offset elem);

}  // namespace weir::model
