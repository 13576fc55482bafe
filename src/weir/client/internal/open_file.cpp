#include <weir/client/internal/open_file.h>

#include <algorithm>
#include <map>

#include <weir/base/text.h>
#include <weir/client/internal/bound_view.h>
#include <weir/log/log.h>
#include <weir/wire/about.h>

namespace weir::client::internal {

namespace {

constexpr Offset kZeroBytes = Offset{1} << 20;
constexpr std::chrono::milliseconds kLongestPause{50};

// Writes zeros over all bytes of the file that `bytes` has.  \pre finite
Status clear(OpenFile& file, const layout::Element& bytes) {
  WEIR_TRY(const auto view, BoundView::of(file, bytes));
  const Offset all = bytes.size();
  const std::vector<std::byte> zeros(static_cast<std::size_t>(std::min(all, kZeroBytes)));
  for (Offset at = 0; at < all; at += kZeroBytes) {
    const auto length = static_cast<std::size_t>(std::min(all - at, kZeroBytes));
    WEIR_RETURN_IF_ERROR(view->write(at, std::span(zeros).first(length)));
  }
  return Status::ok();
}

// What is left of a subfile when the file is cut.
struct Rest {
  Offset length = 0;
  std::optional<layout::Element>
      beyond;  // bytes of the file at or after the cut that lie before others, and must be zero
};

Result<layout::Element> once(layout::FallsSet falls, Offset disp) {
  return layout::Element::create(std::move(falls), {.disp = disp, .period = kMaxBytes});
}

// An element out of order, in whose last period the file ends: bytes [size, end) of the file may lie before others that
// stay.
Result<Rest> rest_out_of_order(const layout::Element& element, Offset size, Offset end) {
  const Offset periods = (size - element.disp()) / element.period();
  const Offset start = element.disp() + periods * element.period();
  const Offset before = periods * element.size();
  WEIR_TRY(const layout::Element every, every_byte());
  WEIR_TRY(const layout::Mapping kept,
           layout::intersect(element, every, layout::Window{.file = {start, size}, .a = {}, .b = {}}));
  Rest rest{.length = std::max(before, layout::extent(kept.a_falls())), .beyond = {}};
  const Offset last = std::min(end, start + element.period());
  if (last <= size) return rest;
  WEIR_TRY(
      const layout::Mapping beyond,
      layout::intersect(element, every, layout::Window{.file = {size, last}, .a = {before, rest.length}, .b = {}}));
  if (beyond.is_empty()) return rest;
  WEIR_TRY(rest.beyond, once(beyond.file_falls(), beyond.disp()));
  return rest;
}

// A file of `end` bytes gets `size`.
Result<Rest> rest_of(const layout::Element& element, Offset size, Offset end) {
  if (element.is_monotone() || size <= element.disp()) return Rest{element.count_below(size), {}};
  Result<Rest> exact = rest_out_of_order(element, size, end);
  if (exact.is_ok() || exact.status().code() != ErrorCode::kTooComplex) return exact;
  // Up to the end of the period, then: more than necessary is kept, and more cleared.
  Rest rest{room_for(element, size), {}};
  const Offset last = std::min(end, element.disp() + rest.length / element.size() * element.period());
  if (last > size) {
    WEIR_TRY(rest.beyond, once({{size, last - 1, 0, 1, {}}}, 0));
  }
  return rest;
}

}  // namespace

Incarnation::Incarnation(const Session& session, const wire::AttributesT& attributes, layout::Partition layout,
                         std::shared_ptr<Unsynced> unsynced)
    : file_(attributes.file),
      data_(attributes.data),
      layout_(std::move(layout)),
      targets_(attributes.targets),
      stores_(attributes.stores),
      attributes_(attributes),
      capability_(session.server_count(), attributes.capability),
      unsynced_(std::move(unsynced)) {
  for (const std::uint32_t target : targets_) servers_.push_back(session.server_of(target));
  attributes_.capability.clear();
}

wire::AttributesT Incarnation::description() const {
  wire::AttributesT description = attributes_;
  description.capability = capability_.bytes();
  return description;
}

Result<std::shared_ptr<Incarnation>> Incarnation::create(const Session& session, const std::string& path,
                                                         const wire::AttributesT& attributes,
                                                         std::shared_ptr<Unsynced> unsynced) {
  if (attributes.is_directory) return Status(ErrorCode::kIsDirectory, concat("open ", path, ": it is a directory"));
  WEIR_TRY(layout::Partition layout, wire::to_partition(attributes.layout));
  if (static_cast<std::size_t>(layout.element_count()) != attributes.targets.size()) {
    return corrupt(
        concat("open ", path, ": ", attributes.targets.size(), " targets for ", layout.element_count(), " subfiles"));
  }
  return std::shared_ptr<Incarnation>(new Incarnation(session, attributes, std::move(layout), std::move(unsynced)));
}

SubfileSlot& Incarnation::slot(std::uint32_t element) {
  const std::lock_guard lock(mutex_);
  auto& slot = slots_[element];
  if (!slot) slot = std::make_unique<SubfileSlot>();
  return *slot;
}

Incarnation::Place Incarnation::place(Session& session) {
  if (const Place known = place_.load(std::memory_order_relaxed); known != Place::kUnknown) return known;
  const std::vector<TargetSelf> targets = session.targets();
  const std::string here = FileSystem::this_host();
  Place place = Place::kMemoryOfHost;
  for (const std::uint32_t target : targets_) {
    if (target >= targets.size() || targets[target].store == 0) return Place::kUnknown;
    const TargetSelf& self = targets[target];
    place = std::min(place, !self.is_memory ? Place::kKept : self.host != here ? Place::kMemory : Place::kMemoryOfHost);
  }
  place_ = place;
  return place;
}

void Incarnation::seal() {
  std::vector<SubfileSlot*> slots;  // they stay
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [element, slot] : slots_) slots.push_back(slot.get());
  }
  for (SubfileSlot* slot : slots) slot->seal();
}

OpenFile::OpenFile(std::shared_ptr<Session> session, std::string path, std::shared_ptr<Incarnation> incarnation)
    : session_(std::move(session)),
      path_(std::move(path)),
      rights_(incarnation->attributes().rights),
      incarnation_(std::move(incarnation)) {}

std::shared_ptr<Incarnation> OpenFile::incarnation() const {
  const std::lock_guard lock(mutex_);
  return incarnation_;
}

Result<std::shared_ptr<Incarnation>> OpenFile::refresh(const std::shared_ptr<Incarnation>& stale) {
  if (auto current = incarnation(); current != stale) return current;
  wire::LookupT lookup;
  lookup.path = path_;
  lookup.file = stale->file();  // it may have another name by now
  lookup.capability = stale->capability().bytes();
  const auto attributes = session_->call<wire::AttributesT>(0, std::move(lookup));
  if (attributes.status().code() == ErrorCode::kNotFound) {
    return Status(ErrorCode::kStale, concat(path_, " was removed; if there is a file of that name, open it again"));
  }
  WEIR_RETURN_IF_ERROR(attributes.status());
  return replace(stale, *attributes);
}

Status OpenFile::refresh(const wire::AttributesT& attributes) {
  const auto stale = incarnation();
  if (attributes.file != stale->file()) return {ErrorCode::kStale, concat(path_, " is another file by now")};
  return replace(stale, attributes).status();
}

Result<std::shared_ptr<Incarnation>> OpenFile::replace(const std::shared_ptr<Incarnation>& stale,
                                                       const wire::AttributesT& attributes) {
  if (attributes.data == stale->data()) {
    if (!attributes.capability.empty()) stale->capability().renew(attributes.capability);
    return stale;
  }
  WEIR_TRY(auto fresh, Incarnation::create(*session_, path_, attributes, stale->unsynced()));
  const std::lock_guard lock(mutex_);
  if (incarnation_ == stale) incarnation_ = std::move(fresh);
  return incarnation_;
}

Result<std::shared_ptr<Incarnation>> OpenFile::await_change(const std::shared_ptr<Incarnation>& stale,
                                                            Patience& patience) {
  WEIR_TRY(auto current, refresh(stale));
  if (current != stale) return current;
  const runtime::Runtime& runtime = session_->options().runtime;
  const runtime::TimePoint now = runtime.clock->now();
  if (patience.deadline <= now) {
    return Status(ErrorCode::kUnavailable, concat(path_, ": layout change still in progress (", patience.reason,
                                                  "); nothing was written; retry"));
  }
  runtime.executor->sleep_until(std::min(now + patience.pause, patience.deadline));
  patience.waited += patience.pause;
  if (patience.waited >= patience.next_look) {
    patience.next_look *= 2;
    WEIR_RETURN_IF_ERROR(end_abandoned_relayouts(*session_, *stale));
  }
  patience.pause = std::min(2 * patience.pause, kLongestPause);
  return current;
}

Status end_abandoned_relayouts(Session& session, Incarnation& file) {
  std::vector<Outgoing> looks = calls_to_subfiles(session, file, [&](std::uint32_t element) {
    wire::InspectT inspect;
    inspect.subfile = to_wire(file.subfile(element));
    return inspect;
  });
  session.run(looks, Repeat::kSafe);
  std::map<std::uint64_t, std::vector<std::uint32_t>> fenced;  // by token
  for (std::uint32_t element = 0; element < looks.size(); ++element) {
    const auto info = session.answer<wire::SubfileInfoT>(looks[element]);
    if (info.is_ok() && info->fence != 0 && info->fence_abandoned) fenced[info->fence].push_back(element);
  }
  for (const auto& [token, elements] : fenced) {
    wire::EndRelayoutT end;
    end.file = file.file();
    end.data = token;
    end.commit = false;
    const Status ended = session.call<wire::AttributesT>(0, std::move(end), Repeat::kNever).status();
    // kStale: it is not under way; it was ended before, one way or the other.
    if (!ended.is_ok() && ended.code() != ErrorCode::kStale) return ended;
    wire::LookupT lookup;
    lookup.file = file.file();
    lookup.capability = file.capability().bytes();
    WEIR_TRY(const wire::AttributesT now, session.call<wire::AttributesT>(0, std::move(lookup)));
    if (now.data != file.data())
      return Status::ok();  // it was done: the fences stay until the old subfiles are removed
    std::vector<Outgoing> lowers;
    for (const std::uint32_t element : elements) {
      wire::FenceT lower;
      lower.action = wire::FenceAction::Lower;
      lower.subfile = to_wire(file.subfile(element));
      lower.token = token;
      lowers.push_back({file.server_of(element),
                        wire::encode_request(std::move(lower), session.timeout_ms()),
                        {},
                        {},
                        {},
                        &file.capability()});
    }
    WEIR_RETURN_IF_ERROR(session.run_all(lowers));
    WEIR_LOG_WARN(
        "file {}: a relayout to data {} was interrupted before its last step; it was cancelled, the old layout serves",
        file.file(), token);
  }
  return Status::ok();
}

Offset room_for(const layout::Element& element, Offset size) {
  if (element.is_monotone()) return element.count_below(size);
  const Offset periods = ceil_div(std::max<Offset>(size - element.disp(), 0), element.period());
  Offset room = 0;
  return __builtin_mul_overflow(periods, element.size(), &room) ? kMaxBytes : std::min(room, kMaxBytes);
}

namespace {

// Of a file in mapped memory, without asking the servers; nothing if not all of it is mapped, or not any more.
std::optional<Offset> mapped_size(Session& session, Incarnation& file) {
  if (!session.options().direct || file.place(session) != Incarnation::Place::kMemoryOfHost) return std::nullopt;
  Offset size = 0;
  for (std::uint32_t element = 0; element < file.element_count(); ++element) {
    const Target target{file.server_of(element), file.store_of(element), file.subfile(element), &file.capability()};
    // Some of these uses make it worth mapping.
    const auto memory = file.slot(element).memory(session, target, 0, 0, 0).memory;
    if (!memory || memory->is_gone() || !memory->is_alive()) return std::nullopt;
    size = std::max(size, memory->control().file_end.load(std::memory_order_acquire));
  }
  return size <= kMaxBytes ? std::optional(size) : std::nullopt;
}

}  // namespace

Result<Offset> size_of(Session& session, Incarnation& file) {
  if (const std::optional<Offset> size = mapped_size(session, file)) return *size;
  std::vector<Outgoing> calls = calls_to_subfiles(session, file, [&](std::uint32_t element) {
    wire::InspectT inspect;
    inspect.subfile = to_wire(file.subfile(element));
    return inspect;
  });
  session.run(calls, Repeat::kSafe);
  Offset size = 0;
  for (const Outgoing& call : calls) {
    WEIR_TRY(const wire::SubfileInfoT info, session.answer<wire::SubfileInfoT>(call));
    size = std::max(size, info.file_end);
  }
  return size;
}

Result<Offset> OpenFile::size() {
  Offset size = 0;
  WEIR_RETURN_IF_ERROR(run([&](Incarnation& file) -> Status {
    WEIR_TRY(size, size_of(*session_, file));
    return Status::ok();
  }));
  return size;
}

Status OpenFile::run_changes(Incarnation& file, std::span<Outgoing> calls) {
  session_->run(calls, Repeat::kSafe);
  Status status;
  for (const Outgoing& call : calls) {
    const Result<wire::ReplyHeadT> head = session_->decode(call.server, *call.result);
    if (head.is_ok()) file.unsynced()->note(call.server, head->boot);
    if (status.is_ok()) status = head.status();
  }
  return status;
}

Status OpenFile::cut(Incarnation& file, Offset size) {
  std::vector<Offset> lengths;
  std::optional<Offset> end;  // asked for only if need be
  for (std::uint32_t i = 0; i < file.element_count(); ++i) {
    WEIR_TRY(const layout::Element element, file.layout().element(i));
    if (!end && !element.is_monotone()) {
      WEIR_TRY(end, size_of(*session_, file));
    }
    WEIR_TRY(const Rest rest, rest_of(element, size, end.value_or(0)));
    if (rest.beyond) WEIR_RETURN_IF_ERROR(clear(*this, *rest.beyond));
    lengths.push_back(rest.length);
  }
  std::vector<Outgoing> calls = calls_to_subfiles(*session_, file, [&](std::uint32_t element) {
    wire::TruncateT truncate;
    truncate.subfile = to_wire(file.subfile(element));
    truncate.length = lengths[element];
    truncate.file_end = size;
    return truncate;
  });
  return run_changes(file, calls);
}

Status OpenFile::truncate(Offset size) {
  if (size < 0 || size > kMaxBytes) return out_of_range(concat("truncate ", path_, ": to ", size, " bytes"));
  return run([&](Incarnation& file) { return cut(file, size); });
}

Status OpenFile::preallocate(Offset size) {
  if (size < 0 || size > kMaxBytes) return out_of_range(concat("preallocate ", path_, ": ", size, " bytes"));
  return run([&](Incarnation& file) -> Status {
    std::vector<Offset> lengths;
    for (std::uint32_t i = 0; i < file.element_count(); ++i) {
      WEIR_TRY(const layout::Element element, file.layout().element(i));
      lengths.push_back(room_for(element, size));
    }
    std::vector<Outgoing> calls = calls_to_subfiles(*session_, file, [&](std::uint32_t element) {
      wire::ReserveT reserve;
      reserve.subfile = to_wire(file.subfile(element));
      reserve.range = std::make_unique<wire::Range>(0, lengths[element]);
      return reserve;
    });
    WEIR_RETURN_IF_ERROR(run_changes(file, calls));
    if (size == 0) return Status::ok();
    // The file is as long as the longest that any subfile knows of: one is enough.
    wire::WritePiecesT end;
    end.subfile = to_wire(file.subfile(0));
    end.file_end = size;
    Outgoing call{
        file.server_of(0), wire::encode_request(std::move(end), session_->timeout_ms(), file.store_of(0)), {}, {}, {},
        &file.capability()};
    return run_changes(file, {&call, 1});
  });
}

// ---------------------------------------------------------------- safety

Status OpenFile::lost(const std::vector<std::uint32_t>& servers) const {
  if (servers.empty()) return Status::ok();
  std::string names;
  for (const std::uint32_t server : servers) names += concat(names.empty() ? "" : ", ", session_->name_of(server));
  return {ErrorCode::kIoError, concat(names, servers.size() == 1 ? " was" : " were", " started again: bytes of ", path_,
                                      " that were written and not synced before may be lost; write them again")};
}

// Whether the servers are still what they were when they got bytes.
Status OpenFile::check_boots(const std::vector<std::uint64_t>& noted) {
  std::vector<Outgoing> calls;
  for (std::uint32_t server = 0; server < noted.size(); ++server) {
    if (noted[server] == 0) continue;
    calls.push_back({server, wire::encode_request(wire::MembershipT{}, session_->timeout_ms()), {}, {}, {}});
  }
  session_->run(calls, Repeat::kSafe);
  std::vector<std::uint32_t> others;
  for (const Outgoing& call : calls) {
    WEIR_TRY(const wire::ReplyHeadT head, session_->decode(call.server, *call.result));
    if (head.boot != noted[call.server]) others.push_back(call.server);
  }
  return lost(others);
}

// Memory keeps nothing beyond a crash, so all that matters is whether the servers live that ever got bytes.  Where
// their memory is mapped, that shows without asking them.
bool OpenFile::are_alive(Incarnation& file, const std::vector<std::uint64_t>& noted) {
  if (file.place(*session_) < Incarnation::Place::kMemory) return false;
  if (session_->has_verified_memory()) return false;  // servers seal what went by message
  std::vector<std::uint64_t> expected = noted;
  for (std::uint32_t server = 0; server < noted.size(); ++server) {
    if (noted[server] == 0) expected[server] = file.unsynced()->last_noted(server);
  }
  for (std::uint32_t element = 0; element < file.element_count(); ++element) {
    const std::uint32_t server = file.server_of(element);
    if (server >= expected.size() || expected[server] == 0) continue;
    const std::shared_ptr<MappedSubfile> memory = file.slot(element).mapped();
    if (!memory) continue;
    if (memory->is_gone()) return false;
    if (memory->boot() == expected[server] && memory->is_alive()) expected[server] = 0;  // it is
  }
  return std::all_of(expected.begin(), expected.end(), [](std::uint64_t boot) { return boot == 0; });
}

bool OpenFile::is_in_memory_here() {
  return session_->options().direct && incarnation()->place(*session_) == Incarnation::Place::kMemoryOfHost;
}

Status OpenFile::check_kept() {
  const std::shared_ptr<Unsynced> unsynced = incarnation()->unsynced();
  if (!session_->has_verified_memory() || !unsynced->has_any()) return check_boots(unsynced->take());
  const Status status = sync();
  return status.code() == ErrorCode::kStale ? Status::ok() : status;  // stale: removed, with all its bytes
}

Status OpenFile::sync() {
  return run([&](Incarnation& file) -> Status {
    const std::vector<std::uint64_t> noted = file.unsynced()->take();
    file.seal();
    if (are_alive(file, noted)) return Status::ok();
    std::vector<std::uint32_t> others;             // servers that were started again
    std::vector<std::uint64_t> elsewhere = noted;  // on servers that had bytes of it before a relayout only
    std::vector<Outgoing> calls = calls_to_subfiles(*session_, file, [&](std::uint32_t element) {
      wire::SyncT sync;
      sync.subfile = to_wire(file.subfile(element));
      if (session_->keeps_about() && !file.is_described()) {
        sync.about = wire::about_of(path_, file.attributes(), element);
      }
      return sync;
    });
    if (!is_name_durable_) {
      calls.push_back({0, wire::encode_request(wire::SyncNamesT{}, session_->timeout_ms()), {}, {}, {}});
    }
    session_->run(calls, Repeat::kSafe);
    Status lost_status;
    for (const Outgoing& call : calls) {
      const Result<wire::ReplyHeadT> head = session_->decode(call.server, *call.result);
      if (!head.is_ok()) {
        file.unsynced()->put_back(noted);
        return head.status();
      }
      if (call.server >= noted.size() || noted[call.server] == 0) continue;
      if (head->boot != noted[call.server] && elsewhere[call.server] != 0) {
        others.push_back(call.server);
        lost_status = lost(others);
      }
      elsewhere[call.server] = 0;
    }
    is_name_durable_ = true;
    file.note_described();
    WEIR_RETURN_IF_ERROR(std::move(lost_status));
    return check_boots(elsewhere);
  });
}

}  // namespace weir::client::internal
