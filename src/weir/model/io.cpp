#include <weir/model/io.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include <fmt/format.h>

namespace weir::model {
namespace {

// Reserved without being used, this much costs nothing: chunks are taken whole.
constexpr Offset kFreeBytes = Offset{4} << 20;
// How many times longer than a request the bytes of a message shall take, at least.
constexpr double kLongMessage = 128;
constexpr double kLongPart = 32;
constexpr Offset kLeastMessage = Offset{64} << 10;
constexpr Offset kMostMessage = Offset{1} << 30;

double as_double(Offset value) noexcept { return static_cast<double>(value); }

// The smallest power of two whose bytes take `times` as long as a request.
Offset length_for(const Requests& costs, double times) noexcept {
  const double bytes = times * costs.request_seconds / costs.byte_seconds;
  if (!(bytes < as_double(kMostMessage))) return kMostMessage;
  const auto least = static_cast<std::uint64_t>(std::max(std::ceil(bytes), as_double(kLeastMessage)));
  return static_cast<Offset>(std::bit_ceil(least));
}

}  // namespace

double Io::by_message(Offset bytes, Offset pieces, Place place) const noexcept {
  return requests(place).request_seconds + as_double(bytes) * requests(place).byte_seconds +
         as_double(pieces) * memory.piece_seconds;
}

double Io::mapped(Offset bytes, Offset pieces) const noexcept {
  return as_double(bytes) * memory.warm_byte_seconds + as_double(pieces) * memory.piece_seconds;
}

double Io::disk_access(bool is_write, Offset bytes, Offset touched, Offset positions) const noexcept {
  const double write = touched > bytes ? disk.change_byte_seconds : disk.write_byte_seconds;
  return as_double(touched) * (is_write ? write : disk.read_byte_seconds) +
         as_double(positions) * disk.position_seconds;
}

double Io::alone(const AccessWork& work) const noexcept {
  const Requests& costs = requests(work.place);
  const double sent = as_double(work.bytes) * costs.byte_seconds + as_double(work.messages) * costs.request_seconds +
                      as_double(work.pieces) * memory.piece_seconds;
  if (!work.is_on_disk) return sent;
  return sent + disk_access(work.is_write, work.bytes, work.touched_bytes, work.messages);
}

double Io::two_phase(const TwoPhaseWork& work) const noexcept {
  // Windows may be a few bytes long: the product need not be an Offset.
  const double messages = as_double(work.targets) * as_double(work.owners) * as_double(work.rounds);
  const double with_servers = alone({.is_write = work.is_write,
                                     .is_on_disk = work.is_on_disk,
                                     .place = work.place,
                                     .bytes = work.span_bytes,
                                     .messages = static_cast<Offset>(std::min(messages, as_double(kMaxBytes))),
                                     .pieces = 0,
                                     .touched_bytes = work.span_bytes});
  const double others = 1 - 1 / as_double(work.ranks);
  return with_servers + as_double(work.ranks) * (ranks.meet_seconds + as_double(work.rounds) * ranks.round_seconds) +
         as_double(work.bytes) * others * ranks.exchange_byte_seconds + as_double(work.pieces) * memory.piece_seconds;
}

bool Io::is_worth_mapping(Offset bytes) const noexcept {
  return by_message(bytes) >= memory.map_seconds + mapped(bytes);
}

int Io::uses_before_mapping() const noexcept {
  constexpr int kMostUses = 1000;
  if (!(memory.map_seconds < kMostUses * server.request_seconds)) return kMostUses;
  return static_cast<int>(std::ceil(memory.map_seconds / server.request_seconds));
}

bool Io::is_sparse(Offset hull, Offset bytes) const noexcept {
  return as_double(hull - kFreeBytes) * memory.idle_byte_seconds > as_double(bytes) * server.byte_seconds;
}

bool Io::is_worth_entering(Offset bytes) const noexcept {
  return as_double(bytes) * memory.fault_byte_seconds >= memory.enter_seconds;
}

bool Io::is_worth_composing(Offset bytes) const noexcept {
  return as_double(bytes) * memory.gather_byte_seconds >= memory.compose_seconds;
}

bool Io::is_worth_merging(Offset bytes) const noexcept {
  return as_double(bytes) * memory.gather_byte_seconds < server.request_seconds;
}

Offset Io::touched_on_disk(Offset bytes, Offset pieces, Offset hull) const noexcept {
  const double blocks = as_double(pieces) * as_double(disk.block_bytes);  // need not be an Offset
  if (as_double(bytes) >= blocks) return bytes;
  return as_double(hull - bytes) <= blocks ? hull : bytes + static_cast<Offset>(blocks);
}

Offset Io::message_window(Offset most) const noexcept { return std::min(length_for(server, kLongMessage), most); }

Offset Io::least_part() const noexcept { return length_for(server, kLongPart); }

std::string Io::why_by_message() const {
  // is_worth_mapping() is true of all longer accesses, or of none.
  const double saved = server.byte_seconds - memory.warm_byte_seconds;
  const double bytes = (memory.map_seconds - server.request_seconds) / saved;
  const std::string at_once =
      saved > 0 ? fmt::format("{:.0f} bytes at once, or ", std::max(std::ceil(bytes), 0.0)) : std::string();
  return fmt::format("a mapping costs {}, a message {}: by message until {}{} accesses", time_text(memory.map_seconds),
                     time_text(server.request_seconds), at_once, uses_before_mapping() + 1);
}

std::string time_text(double seconds) {
  const double size = std::abs(seconds);
  if (size >= 1 || size == 0) return fmt::format("{:.3g} s", seconds);
  if (size >= 1e-3) return fmt::format("{:.3g} ms", seconds * 1e3);
  if (size >= 1e-6) return fmt::format("{:.3g} us", seconds * 1e6);
  return fmt::format("{:.3g} ns", seconds * 1e9);
}

}  // namespace weir::model
