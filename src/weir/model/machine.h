#pragma once

// What the cost model knows about a machine.
//
// Moving data between an array and a packet costs, for each piece of n contiguous bytes that lie `stride` bytes apart
// in the array,
//
//   t(n, stride) = n * phi(n) + kappa * (lines - n / line) + theta * (pages - n / page),      phi(n) = a / n^b + c
//
// phi: the copy itself, seconds per byte; lines, pages: cache lines and pages that a piece brings in, beyond those that
// its bytes would fill.  The parameters are fitted for packing and unpacking and for several sizes of the working set.
// What the formula leaves over at the measured points (kernels differ by length, prefetchers like some strides) is kept
// as a table of corrections.

#include <optional>
#include <string>
#include <vector>

#include <weir/base/checked.h>
#include <weir/model/io.h>
#include <weir/runtime/runtime.h>

namespace weir::model {

/// Seconds per byte for copies of n bytes: a / n^b + c.
struct Phi {
  double a = 0;
  double b = 1;
  double c = 0;
  [[nodiscard]] double operator()(double n) const noexcept;
  friend bool operator==(const Phi&, const Phi&) = default;
};

/// Where measurement and formula differ: measured = formula * exp(log_factor).
struct Correction {
  double stride = 0;
  double log_factor = 0;
  friend bool operator==(const Correction&, const Correction&) = default;
};

/// The corrections for pieces of one length, by ascending stride.
struct CorrectionRow {
  Offset length = 0;
  std::vector<Correction> knots;         ///< Strides of an odd number of lines, or of less than a line.
  std::vector<Correction> aligned = {};  ///< Powers of two: such strides lead to few sets of the caches.
  friend bool operator==(const CorrectionRow&, const CorrectionRow&) = default;
};

/// The parameters for one size of the working set.
struct Regime {
  double working_set = 0;  ///< Bytes in cache lines touched, both sides together.
  Phi phi;
  double line_seconds = 0;          ///< kappa
  double page_seconds = 0;          ///< theta
  std::vector<CorrectionRow> rows;  ///< By ascending length.
  friend bool operator==(const Regime&, const Regime&) = default;
};

struct CopyModel {
  std::vector<Regime> regimes;  ///< By ascending working set; not empty.
  double turn_seconds = 0;      ///< To start an inner loop.
  friend bool operator==(const CopyModel&, const CopyModel&) = default;
};

struct Cache {
  Offset bytes = 0;
  Offset ways = 0;
  friend bool operator==(const Cache&, const Cache&) = default;
};

struct Network {
  double latency_seconds = 0;
  double bytes_per_second = 0;
  friend bool operator==(const Network&, const Network&) = default;
};

struct Machine {
  std::string description;
  Offset line_bytes = 64;
  Offset page_bytes = 4096;
  std::vector<Cache> caches;       ///< Data caches, the one next to the core first.
  CopyModel pack;                  ///< Strided -> packed.
  CopyModel unpack;                ///< Packed -> strided.
  CopyModel copy;                  ///< Strided -> strided, both alike.  Empty: put together from the other two.
  std::optional<Network> network;  ///< Messages between ranks.
  Io io;                           ///< Servers, disks, memory; built-in costs where nothing was calibrated.
  friend bool operator==(const Machine&, const Machine&) = default;
};

/// WEIR_MODEL, or $XDG_CONFIG_HOME/weir/model.toml, or ~/.config/weir/model.toml.
/// \error kInvalidArgument if none of the three variables is set.
Result<std::string> default_path(const runtime::Settings& settings = *runtime::system_runtime().settings);

/// The text form: TOML, versioned.
std::string print(const Machine& machine);
/// \error kCorrupt names the line and what is wrong with it; location() is the line.
Result<Machine> parse(const std::string& text);

/// \error kIoError; load() also what parse() says.
Status save(const Machine& machine, const std::string& path);
Result<Machine> load(const std::string& path);

/// "latency_us=1.5,bandwidth_gbs=10": 10^9 bytes per second.
Result<Network> parse_network(const std::string& text);
/// What an exchange between ranks costs over such a network.
Ranks ranks_over(const Network& network);
/// Runs a shell command that prints "latency_seconds bytes_per_second" as the last line.
Result<Network> probe_network(const std::string& command);

/// Caches, line and page of the machine that this runs on; no copy model.
Machine describe_machine();

}  // namespace weir::model
