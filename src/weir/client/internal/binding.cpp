#include <weir/client/internal/binding.h>

#include <algorithm>
#include <cstring>

#include <weir/base/text.h>
#include <weir/layout/binary.h>

namespace weir::client::internal {

namespace {

// Layouts with more subfiles are bound subfile by subfile, when an access first touches one.
constexpr std::uint32_t kMostEager = 64;
// With more parts than this, it pays to look first whether a small access touches only one.
constexpr std::size_t kFewParts = 4;
constexpr Offset kSmallAccess = Offset{64} << 10;
// Memory is mapped and reserved from the first to the last byte touched.  Beyond this, what lies between costs more
// than messages.
constexpr Offset kMostSparse = 16;
constexpr Offset kSparseFrom = Offset{4} << 20;
constexpr std::optional<Offset> kByMessage;
// Shorter pieces a store on a disk reads and writes with what lies between them.
constexpr Offset kDiskPiece = 4096;
// Patterns that need more are listed piece by piece, so a view costs little even if it does not fit: no packing has so
// many bands.
constexpr layout::Budget kBudget{.runs = 2048, .steps = 32768};
// Memory in pieces and a subfile are composed to one plan when they are first used together with so many bytes, or when
// they are used again.
constexpr Offset kComposedAtOnce = Offset{1} << 20;

std::vector<std::uint8_t> falls_to_wire(const layout::FallsSet& set) {
  const std::vector<std::byte> bytes = layout::encode(set);
  const auto* data = reinterpret_cast<const std::uint8_t*>(bytes.data());
  return {data, data + bytes.size()};
}

wire::RegisterViewT registration(const Part& part) {
  wire::RegisterViewT table;
  table.view = part.view_id;
  table.subfile = to_wire(part.subfile);
  for (const transfer::RangePacking::Band& band : part.packing->bands()) {
    auto sent = std::make_unique<wire::BandT>();
    sent->view = falls_to_wire(band.a.falls());
    sent->view_disp = band.a.disp();
    sent->view_period = band.a.period();
    sent->subfile = falls_to_wire(band.b.falls());
    sent->subfile_disp = band.b.disp();
    sent->subfile_period = band.b.period();
    table.bands.push_back(std::move(sent));
  }
  return table;
}

// Zeros for the bytes of a range that a part has.
void clear(const transfer::RangePacking& packing, const Access& access) {
  for (const transfer::RangePacking::Band& band : packing.bands()) {
    layout::SegmentCursor cursor(band.a, band.a.count_below(access.from),
                                 band.a.count_below(access.from + access.bytes));
    while (const auto segment = cursor.next()) {
      std::memset(access.data + (segment->offset - access.from), 0, static_cast<std::size_t>(segment->length));
    }
  }
}

bool is_sparse(Range hull, Offset bytes) { return hull.to - hull.from > kSparseFrom + kMostSparse * bytes; }

// How many pieces [from, to) of a sequence has, by the first ones.
Offset estimate_pieces(const layout::Element& sequence, Offset from, Offset to) {
  constexpr int kLooks = 64;
  Offset seen = 0;
  int pieces = 0;
  for (layout::SegmentCursor cursor(sequence, from, to); pieces < kLooks; ++pieces) {
    const auto segment = cursor.next();
    if (!segment) break;
    seen += segment->length;
  }
  return pieces < kLooks ? pieces : ceil_div((to - from) * kLooks, seen);
}

bool is_exact(const layout::Element& view, const Part& part) {
  if (view.is_monotone() && part.sequence.is_monotone()) return true;
  return part.packing && part.packing->bands().size() == 1 && part.packing->bands().front().b.is_monotone();
}

}  // namespace

// ---------------------------------------------------------------- memory in pieces

std::optional<Composition::Route> Composition::route(const layout::Element& view, const layout::Element& sequence,
                                                     const Access& access) {
  if (!access.pieces->is_monotone()) return std::nullopt;
  const Offset periods = access.from / view.size();
  Key key{view.disp() + periods * view.period(), access.from % view.size(), access.bytes};
  if (key.first != 0 && key.first + key.bytes > view.size()) return std::nullopt;
  // The same again, whole periods of the subfile further on.
  Offset shift = 0;
  if (key.disp > sequence.disp()) {
    const Offset ahead = (key.disp - sequence.disp()) / sequence.period();
    key.disp -= ahead * sequence.period();
    shift = ahead * sequence.size();
  }
  const std::lock_guard lock(mutex_);
  Entry& entry = access.is_write ? write_ : read_;
  if (!(entry.key == key) || !entry.memory || &entry.memory->trees() != &access.pieces->trees()) {
    entry = {key, *access.pieces, std::nullopt, 0};
  }
  ++entry.uses;
  if (entry.uses == (access.bytes >= kComposedAtOnce ? 1 : 2)) {
    if (auto plan = compose(view, sequence, key, access); plan.is_ok()) entry.plan = std::move(plan).value();
  }
  if (!entry.plan) return std::nullopt;
  return Route{*entry.plan, shift};
}

Result<transfer::Plan> Composition::compose(const layout::Element& view, const layout::Element& sequence,
                                            const Key& key, const Access& access) {
  // A view whose byte 0 is the first of the access.
  WEIR_TRY(const layout::Element from_here,
           layout::Element::create(
               key.first == 0 ? view.falls() : layout::subsequence(view.falls(), key.first, key.first + key.bytes),
               {.disp = key.disp, .period = view.period()}));
  const layout::Range all{0, key.bytes};
  if (access.is_write) {
    WEIR_TRY(const layout::Mapping mapping,
             layout::intersect(from_here, sequence, {.file = {}, .a = all, .b = {}}, kBudget));
    WEIR_TRY(const layout::Mapping composed, layout::compose_a(mapping, *access.pieces, kBudget));
    return transfer::Plan::copy(composed);
  }
  WEIR_TRY(const layout::Mapping mapping,
           layout::intersect(sequence, from_here, {.file = {}, .a = {}, .b = all}, kBudget));
  WEIR_TRY(const layout::Mapping composed, layout::compose_b(mapping, *access.pieces, kBudget));
  return transfer::Plan::copy(composed);
}

Binding::Binding(std::shared_ptr<Session> session, std::shared_ptr<Incarnation> file, layout::Element view,
                 const ViewOptions& options)
    : session_(std::move(session)),
      file_(std::move(file)),
      view_(std::move(view)),
      options_(options),
      is_lazy_(file_->element_count() > kMostEager) {}

Binding::~Binding() {
  const auto forget = [&](const Part& part) {
    const std::uint64_t generation = part.registered.load();
    if (generation == 0 || generation != session_->generation(part.server)) return;
    wire::ForgetViewT table;
    table.view = part.view_id;
    // Nobody waits for the answer: without it, the view goes with the connection.
    session_->start(
        part.server, generation,
        {wire::encode_request(std::move(table), session_->timeout_ms()), {}, {}, {}, [](Result<net::Reply>) {}});
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
    WEIR_TRY(std::unique_ptr<Part> part, binding->bind(element));
    if (!part) continue;
    binding->by_element_[element] = part.get();
    binding->parts_.push_back(std::move(part));
  }
  return binding;
}

Result<std::unique_ptr<Part>> Binding::bind(std::uint32_t element) const {
  auto part = std::make_unique<Part>();
  WEIR_TRY(part->sequence, file_->layout().element(element));
  if (part->sequence.is_empty() || view_.is_empty()) return std::unique_ptr<Part>();
  const Result<layout::Mapping> mapping = layout::intersect(view_, part->sequence, kBudget);
  if (mapping.is_ok() && mapping->is_empty()) return std::unique_ptr<Part>();
  Status status = mapping.status();
  if (status.is_ok()) {
    Result<transfer::RangePacking> packing = transfer::RangePacking::create(*mapping);
    status = packing.status();
    if (status.is_ok()) part->packing = std::move(packing).value();
  }
  if (!status.is_ok() && status.code() != ErrorCode::kTooComplex) return status;
  part->element = element;
  part->server = file_->server_of(element);
  part->store = file_->store_of(element);
  part->subfile = file_->subfile(element);
  part->slot = &file_->slot(element);
  part->is_exact = is_exact(view_, *part);
  part->view_id = session_->next_number();
  // Of a view that is a list itself: reading it has cost more than this does, and the first access will find it.
  if (!part->packing && view_.falls().size() > kBudget.runs && session_->options().direct) {
    static_cast<void>(part->lists.of(view_, part->sequence, {0, view_.size()}));
  }
  return part;
}

// ---------------------------------------------------------------- which parts

Part* Binding::only_part(Range range) const {
  if (parts_.size() <= kFewParts || range.to - range.from > kSmallAccess) return nullptr;
  const layout::Segment segment = view_.segment_at(range.from, range.to - range.from);
  if (segment.length < range.to - range.from) return nullptr;
  const auto owner = file_->layout().owner(segment.offset);
  if (!owner.is_ok() || !*owner) return nullptr;
  Part* part = by_element_[static_cast<std::size_t>(**owner)];
  if (part == nullptr) return nullptr;
  const auto at = part->sequence.map(segment.offset);
  return at && part->sequence.segment_at(*at, segment.length).length == segment.length ? part : nullptr;
}

Result<Part*> Binding::part_of(std::uint32_t element) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = lazy_parts_.find(element); found != lazy_parts_.end()) return found->second.get();
  }
  WEIR_TRY(std::unique_ptr<Part> part, bind(element));
  const std::lock_guard lock(mutex_);
  return lazy_parts_.try_emplace(element, std::move(part)).first->second.get();
}

Result<std::vector<Part*>> Binding::parts_of(Range range) {
  // Walks the range piece by piece from owner to owner, as long as that is less work than asking all subfiles.
  std::vector<Part*> parts;
  std::vector<bool> seen(file_->element_count());
  const auto add = [&](std::uint32_t element) -> Result<Part*> {
    WEIR_TRY(Part* const part, part_of(element));
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
    WEIR_TRY(Part* const part, add(static_cast<std::uint32_t>(*owner)));
    if (part == nullptr) return corrupt(concat("view: subfile ", *owner, " does not hold byte ", segment.offset));
    y += part->sequence.segment_at(*part->sequence.map(segment.offset), segment.length).length;
  }
  if (steps > 0) return parts;
  for (std::uint32_t element = 0; element < file_->element_count(); ++element) {
    WEIR_TRY(Part* const part, add(element));
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

Status Binding::reserve(Part& part, Range hull, Counters& counters) {
  wire::ReserveT table;
  table.subfile = to_wire(part.subfile);
  // Whole chunks: only those can be written without asking.
  table.range = std::make_unique<wire::Range>(hull.from / storage::kChunkBytes * storage::kChunkBytes,
                                              ceil_div(hull.to, storage::kChunkBytes) * storage::kChunkBytes);
  table.mapped = true;
  Outgoing call{part.server, wire::encode_request(std::move(table), session_->timeout_ms(), part.store), {}, {}, {}};
  Counters::add(counters.messages, 1);
  Counters::add(counters.index_bytes, static_cast<std::int64_t>(call.head.size()));
  return session_->run_all({&call, 1});
}

bool Binding::write_mapped(Part& part, const PieceList* list, MappedSubfile& memory, Range hull, const Access& access) {
  if (list != nullptr) {
    if (!memory.prepare_to_write(hull.from, hull.to)) return false;
    list->write(access.data, memory.data());
    return true;
  }
  std::call_once(part.write_once, [&] {
    const auto mapping = layout::intersect(view_, part.sequence);
    if (!mapping.is_ok()) return;
    if (auto plan = transfer::Plan::copy(*mapping); plan.is_ok()) part.write_plan = std::move(plan).value();
  });
  if (!part.write_plan) return false;
  if (memory.prefers_calls() && hull.to - hull.from >= storage::kChunkBytes) {
    const auto from = part.packing->direct_a(access.range());
    const auto to = part.packing->direct_b(access.range());
    if (from && to) return write_in_one_piece(part, memory, *from - *to, hull, access);
  }
  const Offset begin = part.packing->bytes(access.range()) < hull.to - hull.from
                           ? memory.begin_of(access.from, access.from + access.bytes)
                           : access.from;
  for (const Range range : {Range{begin, access.from + access.bytes}, Range{access.from, begin}}) {
    if (range.from == range.to) continue;
    const Range extent = part.packing->extent_b(range);
    if (!memory.prepare_to_write(extent.from, extent.to)) return false;
    part.write_plan->run({access.data, access.from}, {memory.data(), 0}, range);
  }
  return true;
}

// Byte x of the subfile is byte x + shift of the view.
bool Binding::write_in_one_piece(Part& part, MappedSubfile& memory, Offset shift, Range hull, const Access& access) {
  for (Offset at = hull.from; at < hull.to;) {
    const Offset next = std::min((at / storage::kChunkBytes + 1) * storage::kChunkBytes, hull.to);
    const std::byte* bytes = access.data + (at + shift - access.from);
    if (!memory.write_new(at, {bytes, static_cast<std::size_t>(next - at)})) {
      if (!memory.prepare_to_write(at, next)) return false;
      part.write_plan->run({access.data, access.from}, {memory.data(), 0}, {at + shift, next + shift});
    }
    at = next;
  }
  return true;
}

bool Binding::read_mapped(Part& part, const PieceList* list, MappedSubfile& memory, Range hull, const Access& access,
                          Counters& counters) {
  if (!memory.prepare(hull.from, hull.to)) return false;
  if (list != nullptr) {
    list->read(access.data, memory.data());
    return true;
  }
  if (!part.is_exact) {
    // There is no order in which one pass serves both ends: by way of a message that nobody sends.
    constexpr Offset kStep = Offset{1} << 20;
    BufferPool::Buffer buffer = session_->buffers().take(kStep);
    for (Offset at = access.from; at < access.from + access.bytes; at += kStep) {
      const Range range{at, std::min(at + kStep, access.from + access.bytes)};
      part.packing->pack_b({memory.data(), 0}, range, buffer.data());
      part.packing->unpack_a(buffer.data(), range, {access.data, access.from});
    }
    Counters::add(counters.gathered_bytes, part.packing->bytes(access.range()));
    return true;
  }
  std::call_once(part.read_once, [&] {
    const auto mapping = layout::intersect(part.sequence, view_);
    if (!mapping.is_ok()) return;
    if (auto plan = transfer::Plan::copy(*mapping); plan.is_ok()) part.read_plan = std::move(plan).value();
  });
  if (!part.read_plan) return false;
  part.read_plan->run({memory.data(), 0}, {access.data, access.from}, hull);
  return true;
}

bool Binding::move_in_pieces(const Part& part, const Composition::Route& route, MappedSubfile& memory, Range hull,
                             const Access& access) {
  const Range source = access.is_write ? Range{0, *access.pieces->unmap(access.bytes - 1) + 1}
                                       : Range{hull.from - route.shift, hull.to - route.shift};
  if (!access.is_write) {
    if (!memory.prepare(hull.from, hull.to)) return false;
    route.plan.run({memory.data() + route.shift, 0}, {access.data, 0}, source);
    return true;
  }
  if (!memory.prepare_to_write(hull.from, hull.to)) return false;
  const Offset begin =
      part.packing->bytes(access.range()) < hull.to - hull.from ? memory.begin_of(source.from, source.to) : source.from;
  for (const Range range : {Range{begin, source.to}, Range{source.from, begin}}) {
    route.plan.run({access.data, 0}, {memory.data() + route.shift, 0}, range);
  }
  return true;
}

Result<std::optional<Offset>> Binding::move_directly(Part& part, const Access& access, Offset file_end,
                                                     Counters& counters) {
  const bool is_possible = session_->options().direct && !part.slot->is_impossible();
  if (part.packing) {
    const Offset bytes = part.packing->bytes(access.range());
    if (bytes == 0) return std::optional(bytes);
    if (!is_possible) return kByMessage;
    if (access.pieces == nullptr) return move_mapped(part, {}, bytes, access, file_end, counters);
    // Without a route, the access comes again window by window: that is known before memory is looked at.
    const std::optional<Composition::Route> route = part.composition.route(view_, part.sequence, access);
    return route ? move_mapped(part, {.composed = &*route}, bytes, access, file_end, counters) : kByMessage;
  }
  if (!is_possible || access.pieces != nullptr) return kByMessage;
  Offset moved = 0;
  for (Range rest = access.range(); rest.from < rest.to;) {
    const auto list = part.lists.of(view_, part.sequence, rest);
    const Range covered = list->range();
    if (list->bytes() > 0) {
      const Access some{access.is_write, covered.from, covered.to - covered.from,
                        access.data + (covered.from - access.from)};
      WEIR_TRY(const std::optional<Offset> done,
               move_mapped(part, {.list = list.get()}, list->bytes(), some, file_end, counters));
      if (!done) return kByMessage;
      moved += *done;
    }
    rest.from = covered.to;
  }
  return std::optional(moved);
}

SubfileSlot::Wanted Binding::wanted_of(const Part& part, Range hull, Offset bytes, const Access& access) const {
  Offset expected = access.is_write && !is_sparse(hull, bytes) ? hull.to : 0;
  if (expected > 0 && access.ahead > 0 && part.packing) {
    const Range all{access.from, access.from + access.bytes + access.ahead};
    expected = part.packing->extent_b(all).to;
    bytes = part.packing->bytes(all);
  }
  // A client that has a subfile of several for itself is likely one of those for which the file is laid out.
  const bool is_shared = file_->element_count() == 1 || bytes < access.bytes + access.ahead;
  if (expected > 0 && is_shared && bytes < kMaxBytes / options_.writers) {
    expected = std::max(expected, bytes * options_.writers);
  }
  return {part.slot, {part.server, part.store, part.subfile}, expected};
}

Status Binding::fetch_memory(const Access& access, Counters& counters) {
  if (!session_->options().direct || !SubfileSlot::is_worth_fetching(access.bytes)) return Status::ok();
  if (has_fetched_.load(std::memory_order_relaxed) || has_fetched_.exchange(true)) return Status::ok();
  std::vector<SubfileSlot::Wanted> wanted;
  WEIR_RETURN_IF_ERROR(for_parts(access.range(), [&](const Part& part) -> Status {
    if (!part.packing || part.slot->is_impossible() || part.slot->mapped()) return Status::ok();
    const Offset bytes = part.packing->bytes(access.range());
    if (!SubfileSlot::is_worth_fetching(bytes)) return Status::ok();
    wanted.push_back(wanted_of(part, part.packing->extent_b(access.range()), bytes, access));
    return Status::ok();
  }));
  if (wanted.size() < 2) return Status::ok();
  const SubfileSlot::Fetched fetched = SubfileSlot::fetch(*session_, wanted);
  Counters::add(counters.messages, fetched.messages);
  Counters::add(counters.index_bytes, fetched.index_bytes);
  return Status::ok();
}

std::shared_ptr<MappedSubfile> Binding::memory_of(Part& part, Range hull, Offset bytes, const Access& access,
                                                  Counters& counters) {
  const SubfileSlot::Wanted wanted = wanted_of(part, hull, bytes, access);
  const SubfileSlot::Fetched fetched = part.slot->memory(*session_, wanted.target, hull.to, bytes, wanted.expected);
  Counters::add(counters.messages, fetched.messages);
  Counters::add(counters.index_bytes, fetched.index_bytes);
  return fetched.memory;
}

Result<std::optional<Offset>> Binding::move_mapped(Part& part, Means means, Offset bytes, const Access& access,
                                                   Offset file_end, Counters& counters) {
  const PieceList* const list = means.list;
  const Range hull = list != nullptr ? list->extent() : part.packing->extent_b(access.range());
  std::shared_ptr<MappedSubfile> memory = memory_of(part, hull, bytes, access, counters);
  if (!memory) return kByMessage;
  const auto stale = [&] {
    return Status(ErrorCode::kStale, concat("subfile ", part.subfile.file, ".", part.subfile.element,
                                            " is gone, or being given a new layout"));
  };
  if (memory->is_gone()) return stale();
  if (access.is_write && memory->is_fenced()) return kByMessage;  // the server knows for how long
  bool is_done = false;
  if (access.is_write) {
    if (!memory->is_full(hull.from, hull.to)) {
      if (is_sparse(hull, bytes)) return kByMessage;
      if (!part.slot->is_worth_reserving(bytes)) return kByMessage;
      WEIR_RETURN_IF_ERROR(reserve(part, hull, counters));
      memory = memory_of(part, hull, bytes, access, counters);
      if (!memory || !memory->is_full(hull.from, hull.to)) return kByMessage;
    }
    is_done = means.composed != nullptr ? move_in_pieces(part, *means.composed, *memory, hull, access)
                                        : write_mapped(part, list, *memory, hull, access);
    if (is_done) {
      storage::raise(memory->control().length, hull.to);
      storage::raise(memory->control().file_end, file_end);
      storage::take_turn(memory->control());
    }
  } else {
    const MappedSubfile::Touched touched = memory->touched(hull.from, hull.to);
    if (touched == MappedSubfile::Touched::kSome) return kByMessage;
    is_done = true;
    if (means.composed != nullptr) {
      is_done = touched == MappedSubfile::Touched::kAll && move_in_pieces(part, *means.composed, *memory, hull, access);
    } else if (touched == MappedSubfile::Touched::kNone) {
      list != nullptr ? list->clear(access.data) : clear(*part.packing, access);
    } else {
      is_done = read_mapped(part, list, *memory, hull, access, counters);
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

Status Binding::announce(std::span<Part* const> parts, Counters& counters) {
  for (Part* part : parts) {
    WEIR_TRY(const std::uint64_t generation, session_->reach(part->server));
    if (part->registered.load() == generation) continue;
    net::Call call;
    call.head = wire::encode_request(registration(*part), session_->timeout_ms(), part->store);
    call.done = [](const Result<net::Reply>&) {};
    Counters::add(counters.messages, 1);
    Counters::add(counters.index_bytes, static_cast<std::int64_t>(call.head.size()));
    session_->start(part->server, generation, std::move(call));
    part->registered = generation;  // not earlier: what others send must come after
  }
  return Status::ok();
}

Status Binding::make_known(std::span<Part* const> parts, Counters& counters) {
  std::vector<Outgoing> calls;
  std::vector<Part*> told;
  std::vector<std::uint64_t> generations;
  for (Part* part : parts) {
    WEIR_TRY(const std::uint64_t generation, session_->reach(part->server));
    if (part->registered.load() == generation) continue;
    calls.push_back(
        {part->server, wire::encode_request(registration(*part), session_->timeout_ms(), part->store), {}, {}, {}});
    told.push_back(part);
    generations.push_back(generation);
    Counters::add(counters.messages, 1);
    Counters::add(counters.index_bytes, static_cast<std::int64_t>(calls.back().head.size()));
  }
  if (calls.empty()) return Status::ok();
  WEIR_RETURN_IF_ERROR(session_->run_all(calls));
  for (std::size_t i = 0; i < told.size(); ++i) told[i]->registered = generations[i];
  return Status::ok();
}

Result<bool> Binding::goes_by_message(const Access& access, Counters& counters) {
  if (!session_->options().direct) return true;
  bool is_known = false;
  bool is_by_message = false;
  WEIR_RETURN_IF_ERROR(for_parts(access.range(), [&](Part& part) -> Status {
    if (is_known) return Status::ok();
    Range hull{0, 0};
    Offset bytes = 0;
    if (part.packing) {
      bytes = part.packing->bytes(access.range());
      hull = part.packing->extent_b(access.range());
    } else if (!part.slot->is_impossible()) {
      const auto list = part.lists.of(view_, part.sequence, access.range());
      bytes = list->bytes();
      hull = list->extent();
    }
    is_by_message = part.slot->is_impossible();
    is_known = is_by_message || bytes > 0;
    if (is_by_message || bytes == 0) return Status::ok();
    is_by_message = memory_of(part, hull, bytes, access, counters) == nullptr && part.slot->is_impossible();
    return Status::ok();
  }));
  return is_by_message;
}

Result<AccessShape> Binding::shape(Range range) {
  AccessShape shape;
  WEIR_RETURN_IF_ERROR(for_parts(range, [&](Part& part) -> Status {
    Offset bytes = 0;
    Offset pieces = 0;
    Offset hull = kMaxBytes;
    if (part.packing) {
      bytes = part.packing->bytes(range);
      for (const transfer::RangePacking::Band& band : part.packing->bands()) {
        pieces += estimate_pieces(band.b, band.a.count_below(range.from), band.a.count_below(range.to));
      }
      const Range extent = part.packing->extent_b(range);
      hull = extent.to - extent.from;
    } else {
      bytes = ceil_div(range.to - range.from, Offset{file_->element_count()});
      pieces = ceil_div(estimate_pieces(view_, range.from, range.to), Offset{file_->element_count()});
    }
    if (bytes == 0) return Status::ok();
    shape.messages += ceil_div(bytes, static_cast<Offset>(BufferPool::kBytes));
    shape.pieces += pieces;
    shape.touched_bytes += bytes >= pieces * kDiskPiece ? bytes : std::min(hull, bytes + pieces * kDiskPiece);
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
    if (!part->packing) {
      out += "too complex to keep; piece by piece, range by range\n";
      continue;
    }
    const auto& bands = part->packing->bands();
    append(out, concat(bands.size(), bands.size() == 1 ? " band" : " bands"));
    const Range period{0, view_.size()};
    const bool a_direct = part->packing->direct_a(period).has_value();
    const bool b_direct = part->packing->direct_b(period).has_value();
    out += a_direct ? ", contiguous in the view" : ", gathered from the view";
    out += b_direct ? ", contiguous in the subfile" : ", scattered in the subfile";
    if (!session_->options().direct) {
      out += "; by message: the direct path is off";
    } else if (part->slot->is_impossible()) {
      out += "; by message: the store has no memory to share, or is on another host";
    } else if (part->slot->mapped()) {
      out += part->is_exact ? "; direct: the memory of the subfile is mapped"
                            : "; direct: mapped, read by way of a buffer since the orders differ";
    } else {
      out += "; by message until it is worth mapping";
    }
    out += '\n';
  }
  return out;
}

}  // namespace weir::client::internal
