#include <weir/client/internal/open_file.h>

#include <algorithm>

#include <weir/base/text.h>
#include <weir/client/internal/bound_view.h>

namespace weir::client::internal {

namespace {

constexpr Offset kZeroBytes = Offset{1} << 20;

// Writes zeros over bytes [from, to) of the file.
Status clear(OpenFile& file, Offset from, Offset to) {
  if (from >= to) return Status::ok();
  WEIR_TRY(const auto view, BoundView::linear(file));
  const std::vector<std::byte> zeros(static_cast<std::size_t>(std::min(to - from, kZeroBytes)));
  for (Offset at = from; at < to; at += kZeroBytes) {
    const auto length = static_cast<std::size_t>(std::min(to - at, kZeroBytes));
    WEIR_RETURN_IF_ERROR(view->write(at, std::span(zeros).first(length)));
  }
  return Status::ok();
}

}  // namespace

Incarnation::Incarnation(const wire::AttributesT& attributes, layout::Partition layout)
    : file_(attributes.file), data_(attributes.data), layout_(std::move(layout)), targets_(attributes.targets) {}

Result<std::shared_ptr<Incarnation>> Incarnation::create(const std::string& path, const wire::AttributesT& attributes) {
  if (attributes.is_directory) return Status(ErrorCode::kIsDirectory, concat("open ", path, ": it is a directory"));
  WEIR_TRY(layout::Partition layout, wire::to_partition(attributes.layout));
  if (static_cast<std::size_t>(layout.element_count()) != attributes.targets.size()) {
    return corrupt(
        concat("open ", path, ": ", attributes.targets.size(), " targets for ", layout.element_count(), " subfiles"));
  }
  return std::shared_ptr<Incarnation>(new Incarnation(attributes, std::move(layout)));
}

SubfileSlot& Incarnation::slot(std::uint32_t element) {
  const std::lock_guard lock(mutex_);
  auto& slot = slots_[element];
  if (!slot) slot = std::make_unique<SubfileSlot>();
  return *slot;
}

OpenFile::OpenFile(std::shared_ptr<Session> session, std::string path, std::shared_ptr<Incarnation> incarnation)
    : session_(std::move(session)), path_(std::move(path)), incarnation_(std::move(incarnation)) {}

std::shared_ptr<Incarnation> OpenFile::incarnation() const {
  const std::lock_guard lock(mutex_);
  return incarnation_;
}

Result<std::shared_ptr<Incarnation>> OpenFile::refresh(const std::shared_ptr<Incarnation>& stale) {
  if (auto current = incarnation(); current != stale) return current;
  wire::LookupT lookup;
  lookup.path = path_;
  WEIR_TRY(const wire::AttributesT attributes, session_->call<wire::AttributesT>(0, std::move(lookup)));
  if (attributes.file != stale->file()) {
    return Status(ErrorCode::kStale, concat(path_, " is another file now: open it again"));
  }
  WEIR_TRY(auto fresh, Incarnation::create(path_, attributes));
  const std::lock_guard lock(mutex_);
  if (incarnation_ == stale) incarnation_ = std::move(fresh);
  return incarnation_;
}

Offset room_for(const layout::Element& element, Offset size) {
  if (element.is_monotone()) return element.count_below(size);
  const Offset periods = ceil_div(std::max<Offset>(size - element.disp(), 0), element.period());
  Offset room = 0;
  return __builtin_mul_overflow(periods, element.size(), &room) ? kMaxBytes : std::min(room, kMaxBytes);
}

Result<Offset> size_of(Session& session, Incarnation& file) {
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

Status OpenFile::cut(Incarnation& file, Offset size) {
  std::vector<Offset> lengths;
  Offset clear_to = size;  // bytes of elements out of order: cut at the end of a period, cleared up to there
  for (std::uint32_t i = 0; i < file.element_count(); ++i) {
    WEIR_TRY(const layout::Element element, file.layout().element(i));
    lengths.push_back(room_for(element, size));
    if (element.is_monotone()) continue;
    const Offset periods = ceil_div(std::max<Offset>(size - element.disp(), 0), element.period());
    clear_to = std::max(clear_to, element.disp() + periods * element.period());
  }
  if (clear_to > size) {
    WEIR_TRY(const Offset now, size_of(*session_, file));
    WEIR_RETURN_IF_ERROR(clear(*this, size, std::min(clear_to, now)));
  }
  std::vector<Outgoing> calls = calls_to_subfiles(*session_, file, [&](std::uint32_t element) {
    wire::TruncateT truncate;
    truncate.subfile = to_wire(file.subfile(element));
    truncate.length = lengths[element];
    truncate.file_end = size;
    return truncate;
  });
  return session_->run_all(calls);
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
    WEIR_RETURN_IF_ERROR(session_->run_all(calls));
    if (size == 0) return Status::ok();
    // The file is as long as the longest that any subfile knows of: one is enough.
    wire::WritePiecesT end;
    end.subfile = to_wire(file.subfile(0));
    end.file_end = size;
    return session_->call<wire::DoneT>(file.server_of(0), std::move(end)).status();
  });
}

Status OpenFile::sync() {
  return run([&](Incarnation& file) {
    std::vector<Outgoing> calls = calls_to_subfiles(*session_, file, [&](std::uint32_t element) {
      wire::SyncT sync;
      sync.subfile = to_wire(file.subfile(element));
      return sync;
    });
    return session_->run_all(calls);
  });
}

Status remove_subfiles(Session& session, const Incarnation& file) {
  std::vector<Outgoing> calls = calls_to_subfiles(session, file, [&](std::uint32_t element) {
    wire::RemoveSubfileT remove;
    remove.subfile = to_wire(file.subfile(element));
    return remove;
  });
  const Status status = session.run_all(calls);
  if (status.is_ok()) return status;
  return {status.code(),
          concat("some subfiles of data ", file.data(), " are left over (weir fsck removes them): ", status.message())};
}

}  // namespace weir::client::internal
