#include "fs_methods.h"

#include <algorithm>
#include <cstring>

#include <weir/base/text.h>

namespace weir::bench {

namespace {

enum Method : std::size_t { kView, kList, kSieving, kTwoPhase, kDirect };

constexpr Offset kWindow = Offset{4} << 20;

std::byte byte_at(Offset x, unsigned seed) {
  return static_cast<std::byte>((static_cast<std::uint64_t>(x) + seed) * 0x9E3779B97F4A7C15u >> 56);
}

}  // namespace

const std::vector<std::string>& Part::methods() {
  static const std::vector<std::string> names{"view", "list", "sieving", "two-phase", "view, direct"};
  return names;
}

Part::Part(const Team& team, const client::FileSystem& by_message, const client::FileSystem& direct,
           const layout::Partition& layout, const layout::Partition& views)
    : team_(team),
      system_(by_message),
      path_("/part"),
      element_(expect(views.element(team.rank()))),
      gather_(expect(transfer::Plan::gather(element_))),
      scatter_(expect(transfer::Plan::scatter(element_))),
      memory_(element_.size()),
      window_(std::min(kWindow, element_.period())) {
  if (team.is_first()) {
    (void)system_.remove(path_);
    (void)expect(system_.create(path_, layout));
  }
  team.barrier();
  file_.emplace(expect(system_.open(path_)));
  view_.emplace(expect(file_->view(element_)));
  linear_.emplace(expect(file_->linear()));
  direct_.emplace(expect(expect(direct.open(path_)).view(element_)));
  layout::SegmentCursor cursor(element_, 0, element_.size());
  std::byte* at = memory_.data();
  while (const auto segment = cursor.next()) {
    const std::span<std::byte> piece(at, static_cast<std::size_t>(segment->length));
    pieces_.push_back({segment->offset, piece});
    places_.push_back({segment->offset, piece});
    at += segment->length;
  }
}

client::View& Part::view_of(std::size_t method) {
  return method == kView ? *view_ : method == kDirect ? *direct_ : *linear_;
}

void Part::write(std::size_t method) {
  switch (method) {
    case kList: return write_list();
    case kSieving: return write_sieving();
    case kTwoPhase: return write_two_phase();
    default: return expect(view_of(method).write(0, memory_.span()));
  }
}

void Part::read(std::size_t method) {
  switch (method) {
    case kList: return read_list();
    case kSieving: return read_sieving();
    case kTwoPhase: return read_two_phase();
    default: return expect(view_of(method).read(0, memory_.span()));
  }
}

void Part::write_list() { expect(linear_->write(pieces_)); }
void Part::read_list() { expect(linear_->read(places_)); }

// Calls visit(window of the file, range of the part in it).
template <typename Visit>
void Part::for_windows(Visit visit) {
  const Offset end = *element_.unmap(element_.size() - 1) + 1;
  for (Offset from = *element_.unmap(0); from < end; from += kWindow) {
    const Offset to = std::min(from + kWindow, end);
    visit(layout::Range{from, to}, layout::Range{element_.count_below(from), element_.count_below(to)});
  }
}

void Part::read_sieving() {
  for_windows([&](layout::Range file, layout::Range mine) {
    expect(linear_->read(file.from, window_.span().first(static_cast<std::size_t>(file.to - file.from))));
    gather_.run({window_.data(), file.from}, {memory_.data(), 0}, mine);
  });
}

void Part::write_sieving() {
  for_windows([&](layout::Range file, layout::Range mine) {
    const auto window = window_.span().first(static_cast<std::size_t>(file.to - file.from));
    client::FileLock lock = expect(file_->lock(file.from, file.to, true));
    expect(linear_->read(file.from, window));
    scatter_.run({memory_.data(), 0}, {window_.data(), file.from}, mine);
    expect(linear_->write(file.from, window));
    expect(lock.release());
  });
}

layout::Range Part::domain() const {
  const Offset share = ceil_div(file_bytes(), team_.size());
  const Offset from = std::min(share * team_.rank(), file_bytes());
  return {from, std::min(from + share, file_bytes())};
}

void Part::read_two_phase() {
  const layout::Range mine = domain();
  team_.barrier();  // all have taken what they read before
  expect(linear_->read(mine.from, {team_.shared_memory() + mine.from, static_cast<std::size_t>(mine.to - mine.from)}));
  team_.barrier();
  gather_.run({team_.shared_memory(), 0}, {memory_.data(), 0}, {0, bytes()});
}

void Part::write_two_phase() {
  const layout::Range mine = domain();
  team_.barrier();  // all have written what was there before
  scatter_.run({memory_.data(), 0}, {team_.shared_memory(), 0}, {0, bytes()});
  team_.barrier();
  expect(linear_->write(mine.from, {team_.shared_memory() + mine.from, static_cast<std::size_t>(mine.to - mine.from)}));
}

// ---------------------------------------------------------------- checks and counts

void Part::fill(unsigned seed) {
  std::byte* at = memory_.data();
  layout::SegmentCursor cursor(element_, 0, element_.size());
  while (const auto segment = cursor.next()) {
    for (Offset x = segment->offset; x < segment->end(); ++x) *at++ = byte_at(x, seed);
  }
}

void Part::check(std::size_t method) {
  const auto seed = static_cast<unsigned>(method + 1);
  const auto expect_filled = [&](const char* what) {
    std::vector<std::byte> got(memory_.span().begin(), memory_.span().end());
    fill(seed);
    if (std::memcmp(got.data(), memory_.data(), got.size()) != 0) {
      give_up(concat(what, " by ", methods()[method], " moved the wrong bytes"));
    }
  };
  fill(seed);
  write(method);
  team_.barrier();
  std::memset(memory_.data(), 0, memory_.span().size());
  read(kView);
  expect_filled("a write");
  std::memset(memory_.data(), 0, memory_.span().size());
  team_.barrier();
  read(method);
  expect_filled("a read");
  team_.barrier();
}

Costs Part::costs_of_write(std::size_t method) {
  // Twice: the first write makes the view known to the targets, which counts for views, and is of no interest for the
  // linear one.
  if (method == kView) view_.emplace(expect(file_->view(element_)));
  if (method != kView) write(method);
  const client::AccessReport before = view_of(method).report();
  write(method);
  const client::AccessReport after = view_of(method).report();
  const auto all = [&](std::int64_t value) { return team_.sum(static_cast<double>(value)); };
  Costs costs;
  costs.calls = all(after.calls - before.calls);
  costs.messages = all(after.messages - before.messages);
  costs.index_bytes = all(after.index_bytes - before.index_bytes);
  costs.extra_bytes = all(after.moved_bytes - before.moved_bytes - bytes());
  if (method == kTwoPhase) {
    const layout::Range mine = domain();
    costs.extra_bytes = all(bytes() - (element_.count_below(mine.to) - element_.count_below(mine.from)));
  }
  return costs;
}

double seconds_to_set_view(const client::File& file, const layout::Element& element) {
  const layout::Partition layout = file.layout();
  // A byte of the view in each subfile: reading it makes the view known to that target.
  std::vector<Offset> probes;
  for (Offset i = 0; i < layout.element_count(); ++i) {
    const layout::Element subfile = expect(layout.element(i));
    layout::PieceCursor cursor(element, subfile, layout::Order::kA);
    if (const auto piece = cursor.next()) probes.push_back(piece->a);
  }
  std::byte byte{};
  const auto probe = [&](const client::View& view) {
    for (const Offset at : probes) expect(view.read(at, {&byte, 1}));
  };
  const double start = now_seconds();
  const client::View view = expect(file.view(element));
  probe(view);
  const double middle = now_seconds();
  probe(view);
  return (middle - start) - (now_seconds() - middle);
}

}  // namespace weir::bench
