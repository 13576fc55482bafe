#include <weir/client/internal/binding.h>

#include <algorithm>
#include <cstring>

#include <weir/base/text.h>

namespace weir::client::internal {

namespace {

using share::BlockSet;
using transfer::Route;

// Layouts with more subfiles are bound subfile by subfile, when an access first touches one.
constexpr std::uint32_t kMostEager = 64;
// With more parts than this, it pays to look first whether a small access touches only one.
constexpr std::size_t kFewParts = 4;
constexpr Offset kSmallAccess = Offset{64} << 10;
constexpr std::optional<Offset> kByMessage;

wire::RegisterViewT registration(const BoundSubfile& part) {
  wire::RegisterViewT table;
  table.view = part.view_id;
  table.subfile = to_wire(part.subfile);
  for (const transfer::Route::Band& band : part.route.bands()) {
    table.bands.push_back(wire::to_band(band.a, band.b));
  }
  return table;
}

}  // namespace

Binding::Binding(std::shared_ptr<Session> session, std::shared_ptr<Incarnation> file, layout::Element view,
                 const ViewOptions& options)
    : session_(std::move(session)),
      file_(std::move(file)),
      view_(std::move(view)),
      options_(options),
      is_lazy_(file_->element_count() > kMostEager) {}

Binding::~Binding() {
  const auto forget = [&](const BoundSubfile& part) {
    const std::uint64_t generation = part.known.load();
    if (generation == 0 || generation != session_->generation(part.server)) return;
    wire::ForgetViewT table;
    table.view = part.view_id;
    net::Call call;
    call.head = wire::encode_request(std::move(table), session_->timeout_ms());
    // Nobody waits for the answer: without it, the view goes with the connection.
    call.done = [](const Result<net::Reply>&) {};
    session_->start({part.server, std::move(call), generation});
  };
  for (const auto& part : parts_) forget(*part);
  for (const auto& entry : lazy_parts_) {
    if (entry.second) forget(*entry.second);
  }
}

Result<std::shared_ptr<Binding>> Binding::create(std::shared_ptr<Session> session, std::shared_ptr<Incarnation> file,
                                                 const layout::Element& view, const ViewOptions& options) {
  std::shared_ptr<Binding> binding(new Binding(std::move(session), std::move(file), view, options));
  if (binding->is_lazy_) return binding;
  binding->by_element_.resize(binding->file_->element_count());
  for (std::uint32_t element = 0; element < binding->file_->element_count(); ++element) {
    WEIR_TRY(std::unique_ptr<BoundSubfile> part, binding->bind(element));
    if (!part) continue;
    binding->by_element_[element] = part.get();
    binding->parts_.push_back(std::move(part));
  }
  return binding;
}

Result<std::unique_ptr<BoundSubfile>> Binding::bind(std::uint32_t element) const {
  auto part = std::make_unique<BoundSubfile>();
  WEIR_TRY(part->sequence, file_->layout().element(element));
  WEIR_TRY(part->route, transfer::Route::between(view_, part->sequence));
  if (part->route.is_empty()) return std::unique_ptr<BoundSubfile>();
  part->element = element;
  part->server = file_->server_of(element);
  part->store = file_->store_of(element);
  part->subfile = file_->subfile(element);
  part->slot = &file_->slot(element);
  part->view_id = session_->next_number();
  // Of a view that is a list itself: reading it has cost more than this does, and the first access will find it.
  if (part->route.is_listed() && view_.falls().size() > transfer::Route::kBudget.runs && session_->options().direct) {
    static_cast<void>(part->route.step({0, view_.size()}));
  }
  return part;
}

// ---------------------------------------------------------------- which parts

BoundSubfile* Binding::only_part(Range range) const {
  if (parts_.size() <= kFewParts || range.to - range.from > kSmallAccess) return nullptr;
  const layout::Segment segment = view_.segment_at(range.from, range.to - range.from);
  if (segment.length < range.to - range.from) return nullptr;
  const auto owner = file_->layout().owner(segment.offset);
  if (!owner.is_ok() || !*owner) return nullptr;
  BoundSubfile* part = by_element_[static_cast<std::size_t>(**owner)];
  if (part == nullptr) return nullptr;
  const auto at = part->sequence.map(segment.offset);
  return at && part->sequence.segment_at(*at, segment.length).length == segment.length ? part : nullptr;
}

Result<BoundSubfile*> Binding::part_of(std::uint32_t element) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = lazy_parts_.find(element); found != lazy_parts_.end()) return found->second.get();
  }
  WEIR_TRY(std::unique_ptr<BoundSubfile> part, bind(element));
  const std::lock_guard lock(mutex_);
  return lazy_parts_.try_emplace(element, std::move(part)).first->second.get();
}

Result<std::vector<BoundSubfile*>> Binding::parts_of(Range range) {
  // Walks the range piece by piece from owner to owner, as long as that is less work than asking all subfiles.
  std::vector<BoundSubfile*> parts;
  std::vector<bool> seen(file_->element_count());
  const auto add = [&](std::uint32_t element) -> Result<BoundSubfile*> {
    WEIR_TRY(BoundSubfile* const part, part_of(element));
    if (!seen[element] && part != nullptr) parts.push_back(part);
    seen[element] = true;
    return part;
  };
  Offset steps = 2 * Offset{file_->element_count()};
  for (Offset y = range.from; y < range.to && --steps > 0;) {
    const layout::Segment segment = view_.segment_at(y, range.to - y);
    WEIR_TRY(const std::optional<Offset> owner, file_->layout().owner(segment.offset));
    if (!owner) {  // before the layout
      y += std::min(segment.length, std::max<Offset>(file_->layout().disp() - segment.offset, 1));
      continue;
    }
    WEIR_TRY(BoundSubfile* const part, add(static_cast<std::uint32_t>(*owner)));
    if (part == nullptr) return corrupt(concat("view: subfile ", *owner, " does not hold byte ", segment.offset));
    y += part->sequence.segment_at(*part->sequence.map(segment.offset), segment.length).length;
  }
  if (steps > 0) return parts;
  for (std::uint32_t element = 0; element < file_->element_count(); ++element) {
    WEIR_TRY(BoundSubfile* const part, add(element));
    (void)part;
  }
  return parts;
}

Offset Binding::file_end(Range range) const {
  if (range.from >= range.to) return 0;
  if (view_.is_monotone()) return *view_.unmap(range.to - 1) + 1;
  const Offset period = (range.to - 1) / view_.size();
  const Offset start = period * view_.size();
  const layout::FallsSet last =
      layout::subsequence(view_.falls(), std::max<Offset>(range.from - start, 0), range.to - start);
  return view_.disp() + period * view_.period() + layout::extent(last);
}

bool Binding::reaches_before_layout(Range range) {
  const Offset disp = file_->layout().disp();
  if (disp == 0 || view_.disp() >= disp) return false;
  if (view_.is_monotone()) return range.from < view_.count_below(disp);
  const auto head = layout::Element::create({{0, disp - 1, 0, 1, {}}}, {.disp = 0, .period = kMaxBytes});
  if (!head.is_ok()) return true;
  return layout::PieceCursor(view_, *head, layout::Order::kA, {.file = {0, disp}, .a = range, .b = {}})
      .next()
      .has_value();
}

// ---------------------------------------------------------------- the direct path

Status Binding::reserve(BoundSubfile& part, Range hull, Counters& counters) {
  wire::ReserveT table;
  table.subfile = to_wire(part.subfile);
  // Whole chunks: only those can be written without asking.
  table.range = std::make_unique<wire::Range>(hull.from / share::kChunkBytes * share::kChunkBytes,
                                              ceil_div(hull.to, share::kChunkBytes) * share::kChunkBytes);
  table.mapped = true;
  Outgoing call{part.server, wire::encode_request(std::move(table), session_->timeout_ms(), part.store),
                {},          {},
                {},          &file_->capability()};
  Counters::add(counters.messages, 1);
  Counters::add(counters.index_bytes, static_cast<std::int64_t>(call.head.size()));
  return session_->run_all({&call, 1});
}

bool Binding::enter_pages(MappedSubfile& memory, Range range) const {
  return !costs().is_worth_entering(range.to - range.from) || memory.enter_pages(range.from, range.to);
}

bool Binding::prepare_to_write(MappedSubfile& memory, Range range) const {
  return memory.make_pages(range.from, range.to) && enter_pages(memory, range);
}

bool Binding::write_mapped(BoundSubfile& part, const Route::Step& step, MappedSubfile& memory,
                           const ViewAccess& access) {
  const Range hull = step.extent_b;
  const bool is_packed = !step.list && !step.plan;
  if (is_packed && memory.prefers_calls() && hull.to - hull.from >= share::kChunkBytes) {
    const auto from = part.route.direct_a(access.range());
    const auto to = part.route.direct_b(access.range());
    if (from && to) return write_in_one_piece(part, memory, *from - *to, hull, access);
  }
  const bool is_spread = !step.list && step.bytes < hull.to - hull.from;
  const Offset begin = is_spread ? memory.begin_of(step.keys.from, step.keys.to) : step.keys.from;
  for (const Range keys : {Range{begin, step.keys.to}, Range{step.keys.from, begin}}) {
    if (keys.from == keys.to) continue;
    const Route::Step some = part.route.cut(step, keys);
    if (!prepare_to_write(memory, some.extent_b)) return false;
    part.route.copy_to_b(some, {access.data, access.from}, {memory.data(), 0});
  }
  return true;
}

// Byte x of the subfile is byte x + shift of the view.
bool Binding::write_in_one_piece(BoundSubfile& part, MappedSubfile& memory, Offset shift, Range hull,
                                 const ViewAccess& access) {
  for (Offset at = hull.from; at < hull.to;) {
    const Offset next = std::min((at / share::kChunkBytes + 1) * share::kChunkBytes, hull.to);
    const std::byte* bytes = access.data + (at + shift - access.from);
    if (!memory.write_new(at, {bytes, static_cast<std::size_t>(next - at)})) {
      if (!prepare_to_write(memory, {at, next})) return false;
      part.route.copy_to_b(part.route.step({at + shift, next + shift}), {access.data, access.from}, {memory.data(), 0});
    }
    at = next;
  }
  return true;
}

bool Binding::read_mapped(BoundSubfile& part, const Route::Step& step, MappedSubfile& memory,
                          const ViewAccess& access) {
  if (!enter_pages(memory, step.extent_b)) return false;
  part.route.copy_to_a(step, {memory.data(), 0}, {access.data, access.from});
  return true;
}

Result<std::optional<Offset>> Binding::move_directly(BoundSubfile& part, const ViewAccess& access, Offset file_end,
                                                     Counters& counters) {
  const bool is_possible = session_->options().direct && !part.slot->is_impossible();
  if (access.pieces != nullptr) {
    if (!part.route.is_listed() && part.route.bytes(access.range()) == 0) return std::optional<Offset>(0);
    if (!is_possible) return kByMessage;
    // Without a step, the access comes again window by window: that is known before memory is looked at.
    const auto direction = access.is_write ? Route::Direction::kToB : Route::Direction::kToA;
    const auto when =
        costs().is_worth_composing(access.bytes) ? Route::Compose::kAtOnce : Route::Compose::kWhenUsedAgain;
    const std::optional<Route::Step> step = part.route.step(access.range(), *access.pieces, direction, when);
    return step ? move_mapped(part, *step, access, file_end, counters) : kByMessage;
  }
  if (part.route.is_listed() && !is_possible) return kByMessage;
  Offset moved = 0;
  for (Range rest = access.range(); rest.from < rest.to;) {
    const Route::Step step = part.route.step(rest);
    rest.from = step.range.to;
    if (step.bytes == 0) continue;
    if (!is_possible) return kByMessage;
    if (!step.list) return move_mapped(part, step, access, file_end, counters);  // all of it
    const ViewAccess some{access.is_write, step.range.from, step.range.to - step.range.from,
                          access.data + (step.range.from - access.from)};
    WEIR_TRY(const std::optional<Offset> done, move_mapped(part, step, some, file_end, counters));
    if (!done) return kByMessage;
    moved += *done;
  }
  return std::optional(moved);
}

SubfileSlot::Wanted Binding::wanted_of(const BoundSubfile& part, Range hull, Offset bytes,
                                       const ViewAccess& access) const {
  Offset expected = access.is_write && !costs().is_sparse(hull.to - hull.from, bytes) ? hull.to : 0;
  if (expected > 0 && access.ahead > 0 && !part.route.is_listed()) {
    const Range all{access.from, access.from + access.bytes + access.ahead};
    expected = part.route.extent_b(all).to;
    bytes = part.route.bytes(all);
  }
  // A client that has a subfile of several for itself is likely one of those for which the file is laid out.
  const bool is_shared = file_->element_count() == 1 || bytes < access.bytes + access.ahead;
  if (expected > 0 && is_shared && bytes < kMaxBytes / options_.writers) {
    expected = std::max(expected, bytes * options_.writers);
  }
  return {part.slot, {part.server, part.store, part.subfile, &file_->capability()}, expected};
}

Status Binding::fetch_memory(const ViewAccess& access, Counters& counters) {
  if (!session_->options().direct || !costs().is_worth_mapping(access.bytes)) return Status::ok();
  if (has_fetched_.load(std::memory_order_relaxed) || has_fetched_.exchange(true)) return Status::ok();
  std::vector<SubfileSlot::Wanted> wanted;
  WEIR_RETURN_IF_ERROR(for_parts(access.range(), [&](const BoundSubfile& part) -> Status {
    if (part.route.is_listed() || part.slot->is_impossible() || part.slot->mapped()) return Status::ok();
    const Offset bytes = part.route.bytes(access.range());
    if (!costs().is_worth_mapping(bytes)) return Status::ok();
    wanted.push_back(wanted_of(part, part.route.extent_b(access.range()), bytes, access));
    return Status::ok();
  }));
  if (wanted.size() < 2) return Status::ok();
  const SubfileSlot::Fetched fetched = SubfileSlot::fetch(*session_, wanted);
  Counters::add(counters.messages, fetched.messages);
  Counters::add(counters.index_bytes, fetched.index_bytes);
  return Status::ok();
}

std::shared_ptr<MappedSubfile> Binding::memory_of(BoundSubfile& part, Range hull, Offset bytes,
                                                  const ViewAccess& access, Counters& counters) {
  const SubfileSlot::Wanted wanted = wanted_of(part, hull, bytes, access);
  const SubfileSlot::Fetched fetched = part.slot->memory(*session_, wanted.target, hull.to, bytes, wanted.expected);
  Counters::add(counters.messages, fetched.messages);
  Counters::add(counters.index_bytes, fetched.index_bytes);
  return fetched.memory;
}

// Blocks of the subfile that have bytes of the step.
BlockSet Binding::blocks_of(const BoundSubfile& part, const Route::Step& step) {
  const Range hull = step.extent_b;
  if (step.bytes == hull.to - hull.from) return BlockSet::of(hull.from, hull.to);
  BlockSet blocks(hull.from, hull.to);
  for (layout::PieceCursor cursor = part.route.pieces(step.range); const auto piece = cursor.next();) {
    blocks.add(piece->b, piece->b + piece->length);
  }
  return blocks;
}

Result<std::optional<Offset>> Binding::move_mapped(BoundSubfile& part, const Route::Step& step,
                                                   const ViewAccess& access, Offset file_end, Counters& counters) {
  const Range hull = step.extent_b;
  const Offset bytes = step.bytes;
  std::shared_ptr<MappedSubfile> memory = memory_of(part, hull, bytes, access, counters);
  if (!memory) return kByMessage;
  const auto stale = [&] {
    return Status(ErrorCode::kStale, concat("subfile ", part.subfile.file, ".", part.subfile.element,
                                            " is gone, or being given a new layout"));
  };
  if (memory->is_gone()) return stale();
  if (access.is_write && memory->is_fenced()) return kByMessage;  // the server knows for how long
  std::optional<BlockSet> blocks;
  bool is_done = false;
  if (access.is_write) {
    if (!memory->is_full(hull.from, hull.to)) {
      if (costs().is_sparse(hull.to - hull.from, bytes)) return kByMessage;
      if (!part.slot->is_worth_reserving(costs(), bytes)) return kByMessage;
      const Status reserved = reserve(part, hull, counters);
      // Whole chunks may exceed a quota that the bytes alone keep.
      if (reserved.code() == ErrorCode::kQuota) return kByMessage;
      WEIR_RETURN_IF_ERROR(reserved);
      memory = memory_of(part, hull, bytes, access, counters);
      if (!memory || !memory->is_full(hull.from, hull.to)) return kByMessage;
    }
    // A write that would hide damage goes by message, too: the server finds the same, counts it and tells of it.
    if (memory->is_verified() && memory->sums().begin_write(blocks.emplace(blocks_of(part, step)))) return kByMessage;
    is_done = write_mapped(part, step, *memory, access);
    if (is_done) memory->publish(hull.to, file_end);
    if (blocks) {
      memory->sums().end_write(*blocks);
      part.slot->note_unsealed(hull.from, hull.to);
    }
  } else {
    const MappedSubfile::Touched touched = memory->touched(hull.from, hull.to);
    if (touched == MappedSubfile::Touched::kSome) return kByMessage;
    if (touched == MappedSubfile::Touched::kAll) {
      // Also by message if there is damage.
      is_done = read_mapped(part, step, *memory, access) &&
                !(memory->is_verified() && memory->sums().find_damage(blocks_of(part, step)));
    } else if (access.pieces == nullptr) {
      part.route.clear_a(step, {access.data, access.from});
      is_done = true;
    }
  }
  if (!is_done) return kByMessage;
  Counters::add(counters.moved_bytes, bytes);
  Counters::add(counters.direct_bytes, bytes);
  // Nobody has what was moved.  By message it gets to the server if that was started again, or the caller is told that
  // it is gone.
  if (!memory->is_alive()) {
    Counters::add(counters.extra_bytes, bytes);
    return kByMessage;
  }
  // What was moved may have been of a file that is no more, or come too late for the new layout: again, with that.
  if (memory->is_gone() || (access.is_write && memory->is_fenced())) {
    Counters::add(counters.extra_bytes, bytes);
    return stale();
  }
  if (access.is_write) file_->unsynced()->note(part.server, memory->boot());
  return std::optional(bytes);
}

// ---------------------------------------------------------------- views at the targets

std::function<std::optional<net::Call>(std::uint64_t generation)> Binding::announcement(BoundSubfile& part,
                                                                                        Counters& counters) {
  return [this, &part, &counters](std::uint64_t generation) -> std::optional<net::Call> {
    if (part.known.exchange(generation) == generation) return std::nullopt;
    net::Call call;
    call.head = wire::encode_request(registration(part), session_->timeout_ms(), part.store);
    call.done = [&session = *session_, server = part.server,
                 told = part.registration](const Result<net::Reply>& reply) {
      const Status status = session.decode(server, reply).status();
      session.locked([&] { *told = status; });
    };
    Counters::add(counters.messages, 1);
    Counters::add(counters.index_bytes, static_cast<std::int64_t>(call.head.size()));
    return call;
  };
}

Status Binding::refusal(const BoundSubfile& part, const Status& unknown) const {
  Status status;
  session_->locked([&] { status = *part.registration; });
  return status.is_ok() ? unknown : status;
}

Result<bool> Binding::goes_by_message(const ViewAccess& access, Counters& counters) {
  if (!session_->options().direct) return true;
  bool is_known = false;
  bool is_by_message = false;
  WEIR_RETURN_IF_ERROR(for_parts(access.range(), [&](BoundSubfile& part) -> Status {
    if (is_known) return Status::ok();
    const bool is_looked_at = !part.route.is_listed() || !part.slot->is_impossible();
    const Route::Step step = is_looked_at ? part.route.step(access.range()) : Route::Step{};
    is_by_message = part.slot->is_impossible();
    is_known = is_by_message || step.bytes > 0;
    if (is_by_message || step.bytes == 0) return Status::ok();
    is_by_message =
        memory_of(part, step.extent_b, step.bytes, access, counters) == nullptr && part.slot->is_impossible();
    return Status::ok();
  }));
  return is_by_message;
}

Result<AccessShape> Binding::shape(Range range) {
  AccessShape shape;
  WEIR_RETURN_IF_ERROR(for_parts(range, [&](BoundSubfile& part) -> Status {
    Offset bytes = 0;
    Offset pieces = part.route.estimate_pieces(range);
    Offset hull = kMaxBytes;
    if (part.route.is_listed()) {
      bytes = ceil_div(range.to - range.from, Offset{file_->element_count()});
      pieces = ceil_div(pieces, Offset{file_->element_count()});
    } else {
      const Route::Step step = part.route.step(range);
      bytes = step.bytes;
      hull = step.extent_b.to - step.extent_b.from;
    }
    if (bytes == 0) return Status::ok();
    shape.messages += ceil_div(bytes, static_cast<Offset>(BufferPool::kBytes));
    shape.pieces += pieces;
    shape.touched_bytes += costs().touched_on_disk(bytes, pieces, hull);
    return Status::ok();
  }));
  return shape;
}

bool Binding::is_mapped() {
  if (is_lazy_) return false;
  return std::all_of(parts_.begin(), parts_.end(), [](const auto& part) { return part->slot->mapped() != nullptr; });
}

std::string Binding::explain() {
  std::string out =
      concat("view of ", view_.size(), " bytes every ", view_.period(), " on ", file_->element_count(), " subfiles");
  if (is_lazy_) return out + ", bound to each when first touched\n";
  out += '\n';
  for (const auto& part : parts_) {
    append(out, concat("  subfile ", part->element, " on ", session_->name_of(part->server), ": "));
    if (part->route.is_listed()) {
      append(out,
             concat("too complex to keep; piece by piece, range by range: ", part->route.why_listed().message(), '\n'));
      continue;
    }
    const auto& bands = part->route.bands();
    append(out, concat(bands.size(), bands.size() == 1 ? " band" : " bands"));
    const Range period{0, view_.size()};
    const bool a_direct = part->route.direct_a(period).has_value();
    const bool b_direct = part->route.direct_b(period).has_value();
    out += a_direct ? ", contiguous in the view" : ", gathered from the view";
    out += b_direct ? ", contiguous in the subfile" : ", scattered in the subfile";
    if (!session_->options().direct) {
      out += "; by message: the direct path is off";
    } else if (part->slot->is_impossible()) {
      out += "; by message: the store has no memory to share, or is on another host";
    } else if (part->slot->mapped()) {
      out += "; direct: the memory of the subfile is mapped";
    } else {
      append(out, concat("; by message until it is worth mapping: ", costs().why_by_message()));
    }
    out += '\n';
  }
  return out;
}

}  // namespace weir::client::internal
