#include <weir/server/internal/pull_service.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include <weir/base/text.h>
#include <weir/layout/mapping.h>
#include <weir/transfer/route.h>

namespace weir::server::internal {

namespace {

using transfer::Range;

constexpr Offset kMostWindows = 4;  // under way for one call
constexpr Offset kLeastWindowBytes = Offset{32} << 10;
constexpr std::size_t kMostPulledPieces = 4096;  // in one message
// What needs more is listed piece by piece.
constexpr layout::Budget kPullBudget{.runs = 2048, .steps = 32768};
// With more old subfiles, only those are looked at that have bytes in the range.
constexpr std::uint32_t kMostLookedAt = 64;

/// An old subfile, and what the new one has in common with it.
struct PullSource {
  std::uint32_t server = 0;
  std::uint64_t store = 0;
  wire::Subfile subfile;
  layout::Element sequence;
  std::optional<transfer::Route> route;  // nothing: too complex
  std::uint64_t view = 0;                // registered at the server; 0: not needed
};

/// Bytes of the window from one message, and where they go.
struct PulledPiece {
  Offset at = 0;  // in the window
  Offset length = 0;
};
struct PullRead {
  const PullSource* source = nullptr;
  std::vector<wire::Range> ranges;  // of the subfile; empty: by its view
  std::vector<PulledPiece> pieces;  // of those, if there are several
  std::span<std::byte> sink;
  bool is_in_place = false;
};

/// Part of the new subfile on its way.  The second half of the buffer is for messages that are scattered.
struct PullWindow {
  Range range;
  std::shared_ptr<Buffer> buffer;
  std::vector<PullRead> reads;
  std::size_t left = 0;  // calls in flight

  [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(range.to - range.from); }
  [[nodiscard]] std::span<std::byte> bytes() const { return buffer->bytes().first(size()); }
  [[nodiscard]] std::span<std::byte> messages() const { return buffer->bytes().subspan(size()); }
};

bool is_zero(std::span<const std::byte> bytes) {
  return bytes.front() == std::byte{0} && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0;
}

template <typename Numbers>
auto at_or_zero(const Numbers& numbers, std::size_t index) {
  return index < numbers.size() ? numbers[index] : 0;
}

}  // namespace

class PullService::Pull : public std::enable_shared_from_this<PullService::Pull> {
 public:
  Pull(PullService& service, CallPtr call)
      : peers_(service.peers_),
        buffers_(service.buffers_),
        views_(service.views_),
        call_(std::move(call)),
        peer_(call_->request.peer()),
        request_(*call_->head.operation.AsPull()) {}

  Status prepare();
  void start();

 private:
  Status check() const;
  Status add_sources(const layout::Partition& from);
  Status add_source(const layout::Partition& from, std::uint32_t element);
  void next();
  void plan(PullWindow& window);
  void plan_pieces(PullWindow& window, const PullSource& source, std::size_t& used);
  void read(const std::shared_ptr<PullWindow>& window);
  static void scatter(const PullWindow& window, const PullRead& read);
  void write(const std::shared_ptr<PullWindow>& window);
  void end_window();
  void finish();
  void fail(Status status) {
    if (status_.is_ok()) status_ = std::move(status);
  }

  Peers& peers_;
  std::shared_ptr<Buffers> buffers_;
  std::uint64_t& views_;
  CallPtr call_;
  const net::PeerId peer_;
  const wire::PullT& request_;
  layout::Element sequence_;
  std::vector<PullSource> sources_;
  Offset window_bytes_ = kWindowBytes;
  Offset most_windows_ = kMostWindows;
  Offset next_ = 0;     // where the next window begins
  Offset windows_ = 0;  // under way
  bool is_planning_ = false;
  Status status_;
};

// ---------------------------------------------------------------- what comes from where

Status PullService::Pull::check() const {
  const wire::Range& range = *request_.range;
  if (range.from() < 0 || range.from() > range.to() || range.to() > kMaxBytes) {
    return invalid_argument(concat("pull: [", range.from(), ", ", range.to(), ") is not a range in [0, 2^62)"));
  }
  if (request_.file_end < 0 || request_.file_end > kMaxBytes) {
    return out_of_range(concat("pull: end of file ", request_.file_end, " is not in [0, 2^62]"));
  }
  if (request_.element >= request_.to->targets.size()) {
    return invalid_argument(concat("pull: subfile ", request_.element, " of ", request_.to->targets.size()));
  }
  if (const std::uint32_t target = request_.to->targets[request_.element]; peers_.server_of(target) != peers_.self()) {
    return {ErrorCode::kStale, concat("pull: target ", target, " is not on server ", peers_.self())};
  }
  return Status::ok();
}

Status PullService::Pull::prepare() {
  WEIR_RETURN_IF_ERROR(check());
  WEIR_TRY(const layout::Partition to, wire::to_partition(request_.to->layout));
  WEIR_TRY(const layout::Partition from, wire::to_partition(request_.from->layout));
  WEIR_RETURN_IF_ERROR(from.validate());  // disjoint: no more bytes come for a window than it has
  if (std::cmp_not_equal(from.element_count(), request_.from->targets.size()) ||
      std::cmp_not_equal(to.element_count(), request_.to->targets.size())) {
    return invalid_argument("pull: one target for each subfile is needed");
  }
  WEIR_TRY(sequence_, to.element(request_.element));
  next_ = request_.range->from();
  if (request_.buffer_bytes > 0) {
    window_bytes_ = std::clamp(request_.buffer_bytes / 2, kLeastWindowBytes, kWindowBytes);
    most_windows_ = std::clamp<Offset>(request_.buffer_bytes / (2 * window_bytes_), 1, kMostWindows);
  }
  return next_ < request_.range->to() ? add_sources(from) : Status::ok();
}

Status PullService::Pull::add_sources(const layout::Partition& from) {
  const auto count = static_cast<std::uint32_t>(from.element_count());
  if (sequence_.is_empty()) return invalid_argument("pull: the subfile has no bytes");
  if (count > kMostLookedAt) {
    // From owner to owner, as long as that is less work than to look at all.
    std::vector<bool> seen(count);
    Offset steps = 2 * Offset{count};
    for (Offset at = request_.range->from(); at < request_.range->to() && --steps > 0;) {
      const layout::Segment segment = sequence_.segment_at(at, request_.range->to() - at);
      WEIR_TRY(const std::optional<Offset> owner, from.owner(segment.offset));
      if (!owner) {  // before the layout
        at += std::min(segment.length, std::max<Offset>(from.disp() - segment.offset, 1));
        continue;
      }
      WEIR_TRY(const layout::Element sequence, from.element(static_cast<std::uint32_t>(*owner)));
      if (!seen[static_cast<std::size_t>(*owner)]) {
        WEIR_RETURN_IF_ERROR(add_source(from, static_cast<std::uint32_t>(*owner)));
      }
      seen[static_cast<std::size_t>(*owner)] = true;
      at += sequence.segment_at(*sequence.map(segment.offset), segment.length).length;
    }
    if (steps > 0) return Status::ok();
    sources_.clear();
  }
  for (std::uint32_t element = 0; element < count; ++element) WEIR_RETURN_IF_ERROR(add_source(from, element));
  return Status::ok();
}

Status PullService::Pull::add_source(const layout::Partition& from, std::uint32_t element) {
  PullSource source;
  WEIR_TRY(source.sequence, from.element(element));
  if (source.sequence.is_empty()) return Status::ok();
  const Result<layout::Mapping> mapping = layout::intersect(sequence_, source.sequence, kPullBudget);
  if (mapping.is_ok() && mapping->is_empty()) return Status::ok();
  Status status = mapping.status();
  if (status.is_ok()) {
    Result<transfer::Route> made = transfer::Route::create(*mapping);
    status = made.status();
    if (status.is_ok()) source.route = std::move(made).value();
  }
  if (!status.is_ok() && status.code() != ErrorCode::kTooComplex) return status;
  source.server = peers_.server_of(request_.from->targets[element]);
  source.store = at_or_zero(request_.from->stores, element);
  source.subfile = wire::Subfile(request_.from->data, element);
  const Range all{request_.range->from(), request_.range->to()};
  if (source.route && source.route->bytes(all) == 0) return Status::ok();
  if (source.route && !source.route->direct_b(all)) source.view = ++views_;
  sources_.push_back(std::move(source));
  return Status::ok();
}

// ---------------------------------------------------------------- moving

void PullService::Pull::start() {
  const auto self = shared_from_this();
  auto left = std::make_shared<std::size_t>(1);
  const auto registered = [self, left](const Result<wire::ReplyHeadT>& answer) {
    if (!answer.is_ok()) self->fail(answer.status());
    if (--*left == 0) self->next();
  };
  for (const PullSource& source : sources_) {
    if (source.view == 0) continue;
    wire::RegisterViewT table;
    table.view = source.view;
    table.subfile = std::make_unique<wire::Subfile>(source.subfile);
    for (const auto& band : source.route->bands()) table.bands.push_back(wire::to_band(band.a, band.b));
    ++*left;
    peers_.call(source.server, std::move(table), source.store, registered);
  }
  if (--*left == 0) next();
}

void PullService::Pull::next() {
  if (is_planning_) return;  // further up the stack: it goes on
  is_planning_ = true;
  if (!call_->is_wanted()) fail({ErrorCode::kUnavailable, "pull: the caller gave up"});
  while (status_.is_ok() && windows_ < most_windows_ && next_ < request_.range->to()) {
    auto window = std::make_shared<PullWindow>();
    window->range = {next_, std::min(next_ / window_bytes_ * window_bytes_ + window_bytes_, request_.range->to())};
    next_ = window->range.to;
    ++windows_;
    buffers_->ask(peer_, 2 * window->size(), [self = shared_from_this(), window](std::shared_ptr<Buffer> buffer) {
      window->buffer = std::move(buffer);
      self->plan(*window);
      self->read(window);
    });
  }
  is_planning_ = false;
  if (windows_ == 0) finish();
}

void PullService::Pull::plan(PullWindow& window) {
  std::size_t used = 0;
  std::size_t covered = 0;
  for (const PullSource& source : sources_) {
    const std::size_t before = covered;
    if (!source.route) {
      const std::size_t from = used;
      plan_pieces(window, source, used);
      covered = before + (used - from);
      continue;
    }
    const auto bytes = static_cast<std::size_t>(source.route->bytes(window.range));
    if (bytes == 0) continue;
    covered += bytes;
    PullRead read;
    read.source = &source;
    if (const std::optional<Offset> at = source.route->direct_b(window.range)) {
      read.ranges.emplace_back(*at, *at + static_cast<Offset>(bytes));
    }
    if (const std::optional<Offset> at = source.route->direct_a(window.range)) {
      read.sink = window.bytes().subspan(static_cast<std::size_t>(*at - window.range.from), bytes);
      read.is_in_place = true;
    } else {
      read.sink = window.messages().subspan(used, bytes);
      used += bytes;
    }
    window.reads.push_back(std::move(read));
  }
  // Bytes before the first of the old layout.
  if (covered < window.size()) std::memset(window.bytes().data(), 0, window.size());
}

void PullService::Pull::plan_pieces(PullWindow& window, const PullSource& source, std::size_t& used) {
  layout::PieceCursor cursor(sequence_, source.sequence, layout::Order::kA,
                             {.file = {}, .a = {window.range.from, window.range.to}, .b = {}});
  PullRead read;
  std::size_t first = used;
  const auto flush = [&] {
    if (read.ranges.empty()) return;
    read.source = &source;
    read.sink = window.messages().subspan(first, used - first);
    window.reads.push_back(std::exchange(read, {}));
    first = used;
  };
  while (const auto piece = cursor.next()) {
    read.ranges.emplace_back(piece->b, piece->b + piece->length);
    read.pieces.push_back({piece->a - window.range.from, piece->length});
    used += static_cast<std::size_t>(piece->length);
    if (read.ranges.size() == kMostPulledPieces) flush();
  }
  flush();
}

void PullService::Pull::read(const std::shared_ptr<PullWindow>& window) {
  if (window->reads.empty() || !status_.is_ok()) return end_window();
  window->left = window->reads.size();
  for (const PullRead& one : window->reads) {
    const auto done = [self = shared_from_this(), window, &one](const Result<wire::ReplyHeadT>& answer) {
      Status status = answer.status();
      // Views go with the connection.
      if (status.code() == ErrorCode::kNotFound) status = {ErrorCode::kUnavailable, status.message()};
      if (status.is_ok()) scatter(*window, one);
      self->fail(std::move(status));
      if (--window->left == 0) self->write(window);
    };
    const Peers::Bodies bodies{.out = {}, .in = one.sink};
    if (one.ranges.empty()) {
      wire::ReadViewT table;
      table.view = one.source->view;
      table.range = std::make_unique<wire::Range>(window->range.from, window->range.to);
      peers_.call(one.source->server, std::move(table), one.source->store, bodies, done);
    } else {
      wire::ReadPiecesT table;
      table.subfile = std::make_unique<wire::Subfile>(one.source->subfile);
      table.pieces = one.ranges;
      peers_.call(one.source->server, std::move(table), one.source->store, bodies, done);
    }
  }
}

void PullService::Pull::scatter(const PullWindow& window, const PullRead& read) {
  if (read.is_in_place) return;
  if (read.source->route) {
    return read.source->route->unpack_a(read.sink.data(), window.range, {window.bytes().data(), window.range.from});
  }
  const std::byte* from = read.sink.data();
  for (const PulledPiece& piece : read.pieces) {
    std::memcpy(window.bytes().data() + piece.at, from, static_cast<std::size_t>(piece.length));
    from += piece.length;
  }
}

void PullService::Pull::write(const std::shared_ptr<PullWindow>& window) {
  if (!status_.is_ok()) return end_window();
  const Offset size = static_cast<Offset>(window->size());
  const auto is_hole = [&](Offset at) {
    return is_zero(window->bytes().subspan(static_cast<std::size_t>(at),
                                           static_cast<std::size_t>(std::min(kZeroBlock, size - at))));
  };
  std::vector<Range> runs;
  for (Offset at = 0; at < size; at += kZeroBlock) {
    if (is_hole(at)) continue;
    const Offset end = std::min(at + kZeroBlock, size);
    if (!runs.empty() && runs.back().to == at) {
      runs.back().to = end;
    } else {
      runs.push_back({at, end});
    }
  }
  if (runs.empty()) return end_window();
  window->left = runs.size();
  for (const Range& run : runs) {
    wire::WritePiecesT table;
    table.subfile = std::make_unique<wire::Subfile>(request_.to->data, request_.element);
    table.pieces.emplace_back(window->range.from + run.from, window->range.from + run.to);
    table.file_end = request_.file_end;
    const Peers::Bodies bodies{
        .out = window->bytes().subspan(static_cast<std::size_t>(run.from), static_cast<std::size_t>(run.to - run.from)),
        .in = {}};
    peers_.call(peers_.self(), std::move(table), at_or_zero(request_.to->stores, request_.element), bodies,
                [self = shared_from_this(), window](const Result<wire::ReplyHeadT>& answer) {
                  if (!answer.is_ok()) self->fail(answer.status());
                  if (--window->left == 0) self->end_window();
                });
  }
}

void PullService::Pull::end_window() {
  --windows_;
  next();
}

void PullService::Pull::finish() {
  if (!call_) return;
  for (const PullSource& source : sources_) {
    if (source.view == 0) continue;
    wire::ForgetViewT table;
    table.view = source.view;
    peers_.call(source.server, std::move(table), 0, [](const Result<wire::ReplyHeadT>&) {});
  }
  std::exchange(call_, {})->answer(status_);
}

// ---------------------------------------------------------------- the service

PullService::PullService(Peers& peers, const AccessControl& access)
    : peers_(peers),
      access_(access),
      buffers_(std::make_shared<Buffers>(kMostBytes, 4 * static_cast<std::size_t>(kWindowBytes))) {}

bool PullService::handle(const CallPtr& call) {
  if (call->head.operation.type != wire::Operation::Pull) return false;
  // The old subfiles are read in this server's name: only those that the caller's relayout is about.
  const wire::PullT& request = *call->head.operation.AsPull();
  Status status = access_.check_pull(*call, request.to->data, request.from->data);
  const auto pull = std::make_shared<Pull>(*this, call);
  if (status.is_ok()) status = pull->prepare();
  status.is_ok() ? pull->start() : call->fail(status);
  return true;
}

}  // namespace weir::server::internal
