#pragma once

// Messages that a fuzzer draws: fields are small numbers, limits, or what earlier answers have told.

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <weir/base/testing/fuzz_input.h>
#include <weir/layout/binary.h>
#include <weir/layout/element.h>
#include <weir/layout/language.h>
#include <weir/wire/wire.h>

namespace weir::wire::testing {

using weir::testing::FuzzInput;
using weir::testing::require;

/// What answers have told: without it, no request would name a file that exists.
class Known {
 public:
  void learn(const ReplyHeadT& reply) {
    if (const auto* attributes = reply.answer.AsAttributes()) add(*attributes);
    if (const auto* listing = reply.answer.AsListing()) {
      for (const auto& entry : listing->entries) {
        if (entry && entry->attributes) add(*entry->attributes);
      }
    }
    if (const auto* counter = reply.answer.AsCounterValue()) counter_ = counter->counter;
    if (const auto* members = reply.answer.AsMembers()) epoch_ = members->epoch;
  }
  [[nodiscard]] const std::deque<AttributesT>& files() const { return files_; }
  [[nodiscard]] std::uint64_t counter() const { return counter_; }
  [[nodiscard]] std::uint64_t epoch() const { return epoch_; }

 private:
  void add(const AttributesT& attributes) {
    if (attributes.is_directory) return;
    files_.push_front(attributes);
    if (files_.size() > 8) files_.pop_back();
  }

  std::deque<AttributesT> files_;
  std::uint64_t counter_ = 0;
  std::uint64_t epoch_ = 0;
};

class Drawer {
 public:
  Drawer(FuzzInput& in, const Known& known) : in_(in), known_(known) {}

  /// Of one of the operations, mostly as a client would send it.
  RequestHeadT request() {
    RequestHeadT head;
    draw_operation(head.operation);
    head.remaining_ms = in_.below(16) == 15 ? in_.number() : 1000;
    if (in_.below(16) == 15) head.store = u64();
    if (in_.below(16) == 15) head.epoch = in_.flag() ? known_.epoch() : u64();
    return head;
  }
  ReplyHeadT reply() {
    ReplyHeadT head;
    draw_answer(head.answer);
    head.boot = in_.below(4) == 3 ? u64() : 7;
    return head;
  }
  /// Of a file.  What is between short ones and those that cannot be would only take long.
  std::int64_t length() {
    const std::int64_t drawn = in_.number();
    return drawn > 1 << 20 && drawn <= Offset{1} << 62 ? drawn % (1 << 20) : drawn;
  }
  AttributesT attributes() {
    AttributesT drawn;
    if (const AttributesT* known = file()) drawn = *known;
    for (std::size_t changes = in_.below(4); changes > 0; --changes) change(drawn);
    return drawn;
  }

 private:
  void change(AttributesT& drawn) {
    switch (in_.below(10)) {
      case 0: drawn.file = u64(); break;
      case 1: drawn.data = u64(); break;
      case 2: drawn.epoch = u64(); break;
      case 3: drawn.is_directory = in_.flag(); break;
      case 4: drawn.mode = u32(); break;
      case 5: drawn.uid = u32(); break;
      case 6: drawn.layout = layout(); break;
      case 7: drawn.targets = targets(); break;
      case 8: drawn.stores = stores(); break;
      default:
        drawn.capability = capability();
        drawn.rights = in_.byte();
        break;
    }
  }
  void draw_operation(OperationUnion& operation) {
    switch (in_.below(38)) {
      case 0:
        return operation.Set(drawn<LookupT>([&](LookupT& it) {
          it.path = path();
          if (in_.flag()) it.file = file_number(), it.capability = capability();
          it.access = in_.byte() % 8;
        }));
      case 1:
        return operation.Set(drawn<CreateT>([&](CreateT& it) {
          it.path = path();
          it.layout = layout();
          it.mode = in_.flag() ? 0666 : u32();
          it.exclusive = in_.flag();
          it.targets = targets();
          it.stores = stores();
          it.access = in_.byte() % 8;
        }));
      case 2:
        return operation.Set(drawn<MakeDirectoryT>([&](MakeDirectoryT& it) { it.path = path(), it.mode = u32(); }));
      case 3: return operation.Set(drawn<RemoveT>([&](RemoveT& it) { it.path = path(), it.directory = in_.flag(); }));
      case 4: return operation.Set(drawn<RenameT>([&](RenameT& it) { it.from = path(), it.to = path(); }));
      case 5:
        return operation.Set(
            drawn<ListT>([&](ListT& it) { it.path = path(), it.after = in_.text(20), it.limit = u32(); }));
      case 6:
        return operation.Set(drawn<SetAttributesT>([&](SetAttributesT& it) {
          it.path = path();
          it.set_mode = in_.flag();
          it.mode = u32();
          it.set_owner = in_.flag();
          it.uid = u32();
          it.gid = u32();
          if (in_.flag()) it.layout = layout(), it.targets = targets(), it.stores = stores();
          it.touch = in_.flag();
        }));
      case 7:
        return operation.Set(drawn<BeginRelayoutT>([&](BeginRelayoutT& it) {
          it.path = path(), it.layout = layout(), it.targets = targets(), it.stores = stores();
        }));
      case 8:
        return operation.Set(drawn<EndRelayoutT>([&](EndRelayoutT& it) {
          const AttributesT* known = file();
          it.file = known != nullptr ? known->file : u64();
          it.data = known != nullptr ? known->data : u64();
          it.commit = in_.flag();
        }));
      case 9: return operation.Set(MembershipT{});
      case 10: return operation.Set(drawn<AllFilesT>([&](AllFilesT& it) { it.after = u64(), it.limit = u32(); }));
      case 11:
        return operation.Set(drawn<LockT>([&](LockT& it) {
          it.file = file_number();
          it.range = std::make_unique<Range>(range());
          it.exclusive = in_.flag();
          it.owner = in_.byte() % 4;
          it.wait = in_.flag();
          it.capability = capability();
        }));
      case 12:
        return operation.Set(drawn<UnlockT>([&](UnlockT& it) {
          it.file = file_number(), it.range = std::make_unique<Range>(range()), it.owner = in_.byte() % 4;
        }));
      case 13:
      case 37:
        return operation.Set(drawn<RegisterViewT>([&](RegisterViewT& it) {
          it.view = in_.byte() % 4;
          it.subfile = subfile();
          for (std::size_t count = in_.below(4); count > 0; --count) it.bands.push_back(band());
        }));
      case 14: return operation.Set(drawn<ForgetViewT>([&](ForgetViewT& it) { it.view = in_.byte() % 4; }));
      case 15:
        return operation.Set(drawn<ReadViewT>(
            [&](ReadViewT& it) { it.view = in_.byte() % 4, it.range = std::make_unique<Range>(range()); }));
      case 16:
        return operation.Set(drawn<WriteViewT>([&](WriteViewT& it) {
          it.view = in_.byte() % 4, it.range = std::make_unique<Range>(range()), it.file_end = in_.number();
        }));
      case 17:
        return operation.Set(
            drawn<ReadPiecesT>([&](ReadPiecesT& it) { it.subfile = subfile(), it.pieces = pieces(); }));
      case 18:
        return operation.Set(drawn<WritePiecesT>(
            [&](WritePiecesT& it) { it.subfile = subfile(), it.pieces = pieces(), it.file_end = in_.number(); }));
      case 19:
        return operation.Set(drawn<TruncateT>(
            [&](TruncateT& it) { it.subfile = subfile(), it.length = in_.number(), it.file_end = in_.number(); }));
      case 20:
        return operation.Set(drawn<ReserveT>([&](ReserveT& it) {
          it.subfile = subfile(), it.range = std::make_unique<Range>(range()), it.mapped = in_.flag();
        }));
      case 21: return operation.Set(drawn<SyncT>([&](SyncT& it) { it.subfile = subfile(), it.about = about(); }));
      case 22: return operation.Set(drawn<RemoveSubfileT>([&](RemoveSubfileT& it) { it.subfile = subfile(); }));
      case 23:
        return operation.Set(drawn<InspectT>([&](InspectT& it) { it.subfile = subfile(), it.about = in_.flag(); }));
      case 24:
        return operation.Set(drawn<ListSubfilesT>([&](ListSubfilesT& it) { it.after = subfile(), it.limit = u32(); }));
      case 25: return operation.Set(drawn<UsageOfT>([&](UsageOfT& it) { it.counts_stored = in_.flag(); }));
      case 26:
        return operation.Set(drawn<ShareT>([&](ShareT& it) {
          it.subfile = subfile();
          it.for_writing = in_.flag();
          it.expected_bytes = in_.number();
          it.opens = in_.flag();
        }));
      case 27: return operation.Set(StatisticsT{});
      case 28:
        return operation.Set(drawn<UseCounterT>([&](UseCounterT& it) {
          it.action = static_cast<CounterAction>(in_.byte() % 7);
          it.counter = in_.flag() ? known_.counter() : u64();
          it.holder = in_.byte() % 4;
          it.value = in_.number();
        }));
      case 29:
        return operation.Set(drawn<FenceT>([&](FenceT& it) {
          it.action = static_cast<FenceAction>(in_.byte() % 5);
          it.subfile = subfile();
          it.token = in_.byte() % 4;
        }));
      case 30: return operation.Set(SyncNamesT{});
      case 31: return operation.Set(SyncSubfilesT{});
      case 32:
        return operation.Set(drawn<AdoptT>(
            [&](AdoptT& it) { it.path = path(), it.attributes = std::make_unique<AttributesT>(attributes()); }));
      case 33:
        return operation.Set(drawn<DescribeT>([&](DescribeT& it) { it.subfile = subfile(), it.about = about(); }));
      case 34:
        return operation.Set(
            drawn<PendingRemovalsT>([&](PendingRemovalsT& it) { it.after = u64(), it.limit = u32(); }));
      case 35:
        return operation.Set(drawn<PullT>([&](PullT& it) {
          it.element = static_cast<std::uint32_t>(in_.below(3));
          it.to = std::make_unique<AttributesT>(attributes());
          it.from = std::make_unique<AttributesT>(attributes());
          const std::int64_t from = in_.number();
          it.range = std::make_unique<Range>(from, from < 0 ? -1 : std::min(from, Offset{1} << 62) + in_.u16());
          it.file_end = in_.number();
          it.buffer_bytes = in_.number();
        }));
      default: return operation.Set(drawn<PresentT>([&](PresentT& it) { it.capability = capability(); }));
    }
  }
  void draw_answer(AnswerUnion& answer) {
    switch (in_.below(11)) {
      case 0:
        return answer.Set(drawn<FailureT>(
            [&](FailureT& it) { it.code = in_.byte(), it.message = in_.text(20), it.location = in_.number(); }));
      case 1: return answer.Set(DoneT{});
      case 2: return answer.Set(attributes());
      case 3:
        return answer.Set(drawn<ListingT>([&](ListingT& it) {
          for (std::size_t count = in_.below(4); count > 0; --count) {
            auto entry = std::make_unique<EntryT>();
            entry->name = path();
            if (in_.below(4) != 3) entry->attributes = std::make_unique<AttributesT>(attributes());
            it.entries.push_back(std::move(entry));
          }
          it.is_complete = in_.flag();
        }));
      case 4: return answer.Set(members());
      case 5:
        return answer.Set(drawn<SubfileInfoT>([&](SubfileInfoT& it) {
          it.length = length();
          it.file_end = length();
          it.stored_bytes = length();
          it.about = about();
          it.about_error = in_.text(10);
          it.fence = in_.byte() % 4;
          it.fence_abandoned = in_.flag();
        }));
      case 6:
        return answer.Set(drawn<SubfilesT>([&](SubfilesT& it) {
          for (std::size_t count = in_.below(4); count > 0; --count) {
            const AttributesT* known = file();
            const std::uint64_t data = known != nullptr ? known->data : u64();
            const std::uint32_t element = u32();
            it.subfiles.emplace_back(data, element);
            if (in_.flag()) it.fences.emplace_back(data, in_.byte(), element);
          }
          it.is_complete = in_.flag();
        }));
      case 7:
        return answer.Set(drawn<UsageT>([&](UsageT& it) {
          it.capacity_bytes = in_.number();
          it.used_bytes = in_.number();
          it.subfiles = in_.number();
          it.disk = u64();
          it.stored_bytes = in_.number();
        }));
      case 8:
        return answer.Set(drawn<HandoverT>([&](HandoverT& it) {
          it.possible = in_.flag(), it.socket = in_.text(120), it.token = in_.bytes(40), it.boot = u64();
        }));
      case 9:
        return answer.Set(drawn<CountersT>([&](CountersT& it) {
          it.requests = u64();
          it.identifies = static_cast<Identifies>(in_.byte() % 4);
          it.encrypts = static_cast<Encrypts>(in_.byte() % 4);
        }));
      default:
        return answer.Set(
            drawn<CounterValueT>([&](CounterValueT& it) { it.counter = u64(), it.value = in_.number(); }));
    }
  }
  MembersT members() {
    MembersT drawn;
    for (std::size_t count = in_.below(4); count > 0; --count) {
      auto server = std::make_unique<ServerT>();
      server->index = in_.below(4) == 3 ? u32() : static_cast<std::uint32_t>(drawn.servers.size());
      server->address = in_.below(4) == 3 ? in_.text(30) : "sim:server-" + std::to_string(drawn.servers.size());
      drawn.servers.push_back(std::move(server));
    }
    for (std::size_t count = in_.below(4); count > 0; --count) {
      auto target = std::make_unique<TargetT>();
      target->index = in_.below(4) == 3 ? u32() : static_cast<std::uint32_t>(drawn.targets.size());
      target->server = in_.below(4) == 3 ? u32() : in_.byte() % 2U;
      target->store = in_.below(4) == 3 ? in_.text(20) : "memory";
      target->store_id = u64();
      target->keeps_about = in_.flag();
      drawn.targets.push_back(std::move(target));
    }
    drawn.epoch = in_.flag() ? known_.epoch() : u64();
    return drawn;
  }
  template <typename Table, typename Fill>
  static Table drawn(Fill fill) {
    Table table;
    fill(table);
    return table;
  }

  std::uint32_t u32() { return static_cast<std::uint32_t>(in_.number()); }
  std::uint64_t u64() { return static_cast<std::uint64_t>(in_.number()); }
  std::string path() {
    static const char* const kPaths[] = {"/d/x",   "/d/y",        "/d", "/d/e", "/",
                                         "/d/e/z", "/lost+found", "",   "d",    "/d/../x"};
    const std::size_t which = in_.below(12);
    if (which == 10) return in_.text(300);
    return which == 11 ? "/" + std::string(in_.byte(), 'n') : kPaths[which % std::size(kPaths)];
  }
  layout::Partition partition() {
    static const char* const kLayouts[] = {"stripe(unit=16, over=2)", "stripe(unit=4K, over=1)",
                                           "hpf(shape=[8,8], dist=(BLOCK,CYCLIC(2)), grid=[2,1])",
                                           "falls(period=24, {(0,3,12,2)} | {(4,11,12,2)})"};
    auto parsed = layout::parse(in_.one_of(kLayouts));
    require(parsed.is_ok(), "the layouts above can be parsed");
    return *parsed;
  }
  std::vector<std::uint8_t> layout() {
    const std::size_t which = in_.below(8);
    if (which == 6) return {};
    return which == 7 ? in_.bytes(64) : to_bytes(partition());
  }
  /// Mostly one that answers have told.
  const AttributesT* file() {
    const std::size_t which = in_.below(12);
    return which < known_.files().size() ? &known_.files()[which] : nullptr;
  }
  std::uint64_t file_number() {
    const AttributesT* known = file();
    return known != nullptr ? known->file : u64();
  }
  std::vector<std::uint8_t> capability() {
    const AttributesT* known = file();
    if (known == nullptr) return in_.bytes(80);
    std::vector<std::uint8_t> sealed = known->capability;
    if (in_.below(8) == 7 && !sealed.empty()) sealed[in_.byte() % sealed.size()] ^= 1;
    return sealed;
  }
  std::unique_ptr<Subfile> subfile() {
    const AttributesT* known = file();
    const std::uint64_t number = known != nullptr ? known->data : u64();
    return std::make_unique<Subfile>(number, in_.below(8) == 7 ? u32() : in_.byte() % 2U);
  }
  /// Short, or longer than any message: what is in between would only take long to move.
  Range range() {
    const std::int64_t from = in_.number();
    const std::uint64_t length = u64();
    const bool is_between = length > 65536 && length <= (std::uint64_t{1} << 30);
    return {from, static_cast<std::int64_t>(static_cast<std::uint64_t>(from) + (is_between ? length % 65536 : length))};
  }
  std::vector<std::uint32_t> targets() {
    std::vector<std::uint32_t> some;
    for (std::size_t count = in_.below(5); count > 0; --count)
      some.push_back(in_.below(4) == 3 ? u32() : in_.byte() % 2U);
    return some;
  }
  std::vector<std::uint64_t> stores() {
    std::vector<std::uint64_t> some;
    for (std::size_t count = in_.below(3); count > 0; --count) some.push_back(u64());
    return some;
  }
  std::unique_ptr<BandT> band() {
    if (in_.below(4) != 3) {
      const auto view = partition().element(0);
      const auto part = partition().element(in_.below(2) == 0 ? 0 : partition().element_count() - 1);
      if (view.is_ok() && part.is_ok()) return to_band(*view, *part);
    }
    auto drawn = std::make_unique<BandT>();
    const auto set = [this] {
      static const char* const kSets[] = {"{(0,3,8,4)}", "{(0,0,1,1)}", "{(0,15,32,2,{(0,1,4,4)})}", "{}"};
      std::vector<std::uint8_t> bytes;
      if (in_.below(3) == 2) return in_.bytes(64);
      const auto parsed = layout::parse_falls(in_.one_of(kSets));
      if (!parsed.is_ok()) return bytes;
      for (const std::byte byte : layout::encode(*parsed)) bytes.push_back(std::to_integer<std::uint8_t>(byte));
      return bytes;
    };
    drawn->view = set();
    drawn->view_disp = in_.number();
    drawn->view_period = in_.number();
    drawn->subfile = set();
    drawn->subfile_disp = in_.number();
    drawn->subfile_period = in_.number();
    return drawn;
  }
  std::vector<std::uint8_t> about() {
    const std::size_t which = in_.below(4);
    if (which == 0) return {};
    if (which == 3) return in_.bytes(100);
    AboutT told;
    told.path = path();
    told.element = static_cast<std::uint32_t>(in_.below(3));
    told.attributes = std::make_unique<AttributesT>(attributes());
    told.pending = in_.flag();
    return encode_about(told);
  }
  std::vector<Range> pieces() {
    std::vector<Range> some;
    for (std::size_t count = in_.below(6); count > 0; --count) some.push_back(range());
    return some;
  }

  FuzzInput& in_;
  const Known& known_;
};

}  // namespace weir::wire::testing
