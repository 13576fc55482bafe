// What the metadata service finds in its records: one record of any bytes, and metadata of which some records were
// damaged, swapped, lost or added.  Every operation ends, with an error or without.
//
// Input: 'r' and a record, or 'm', damages, and operations.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <weir/base/testing/fuzz_input.h>
#include <weir/layout/language.h>
#include <weir/log/log.h>
#include <weir/server/internal/metadata.h>
#include <weir/server/internal/records.h>
#include <weir/storage/key_value.h>
#include <weir/wire/wire.h>

namespace {

using namespace weir;
using namespace weir::server::internal;
using testing::FuzzInput;
using testing::require;

void any_record(FuzzInput& in) {
  const std::vector<std::uint8_t> any = in.rest();
  const auto record = decode_record({reinterpret_cast<const char*>(any.data()), any.size()});
  if (!record.is_ok()) return;
  const std::string encoded = encode_record(*record);
  const auto again = decode_record(encoded);
  require(again.is_ok() && encode_record(*again) == encoded, "a record means what it is written as");
}

const char* path(FuzzInput& in) {
  constexpr const char* kPaths[] = {"/", "/a", "/d", "/d/b", "/d/e", "/d/e/c", "/new"};
  return in.one_of(kPaths);
}

wire::CreateT create(const char* path) {
  wire::CreateT request;
  request.path = path;
  request.layout = wire::to_bytes(*layout::parse("stripe(unit=16, over=2)"));
  request.mode = 0644;
  return request;
}

Metadata::Options options() {
  Metadata::Options options;
  options.now_ns = [] { return std::int64_t{1'000'000'000}; };
  return options;
}

net::Identity root() {
  net::Identity who;
  who.uid = who.gid = 0;
  return who;
}

using Records = std::vector<std::pair<std::string, std::string>>;

Records all_of(storage::KeyValue& store) {
  Records records;
  require(store
              .scan("", "",
                    [&](std::string_view key, std::string_view value) {
                      records.emplace_back(key, value);
                      return true;
                    })
              .is_ok(),
          "scan");
  return records;
}

/// Of directories, files, one with a relayout under way, and one that was removed.
const Records& whole() {
  static const Records records = [] {
    const auto store = storage::make_memory_key_value();
    auto metadata = Metadata::open(*store, options());
    require(metadata.is_ok(), "new metadata");
    (*metadata)->set_target_count(2);
    for (const char* const directory : {"/d", "/d/e"}) {
      wire::MakeDirectoryT request;
      request.path = directory;
      request.mode = 0755;
      require((*metadata)->make_directory(request, root()).is_ok(), "mkdir");
    }
    for (const char* const file : {"/a", "/gone", "/d/b", "/d/e/c"}) {
      require((*metadata)->create(create(file), root()).is_ok(), "create");
    }
    wire::RemoveT remove;
    remove.path = "/gone";
    require((*metadata)->remove(remove, root()).is_ok(), "remove");
    wire::BeginRelayoutT begin;
    begin.path = "/d/b";
    begin.layout = create("").layout;
    require((*metadata)->begin_relayout(begin, root()).is_ok(), "relayout");
    return all_of(*store);
  }();
  return records;
}

void damage(Records& records, FuzzInput& in) {
  if (records.empty()) return;
  auto& [key, value] = records[in.below(records.size())];
  switch (in.below(6)) {
    case 0: value.resize(in.byte() % (value.size() + 9)); break;
    case 1: value = in.text(200); break;
    case 2: std::swap(value, records[in.below(records.size())].second); break;
    case 3: key = std::string(1, "dirxnf"[in.below(6)]) + encode_number(in.u64() % 12) + in.text(5); break;
    case 4: {
      // A record that can be decoded, whose numbers are others.
      auto record = decode_record(value);
      if (!record.is_ok()) return;
      record->parent = in.byte() % 12;
      if (in.flag()) record->name = in.text(20);
      if (in.flag()) record->attributes.is_directory = in.flag();
      if (in.flag()) record->attributes.file = in.byte() % 12;
      if (in.flag()) record->attributes.data = static_cast<std::uint64_t>(in.number());
      if (in.flag()) record->attributes.layout = in.bytes(40);
      if (in.flag()) record->attributes.targets = {static_cast<std::uint32_t>(in.number())};
      value = encode_record(*record);
      break;
    }
    default:
      if (!value.empty()) value[in.byte() % value.size()] = static_cast<char>(in.byte());
  }
}

void operate(Metadata& metadata, FuzzInput& in) {
  net::Identity who = root();
  if (in.flag()) who.uid = 1000;
  switch (in.below(14)) {
    case 0: return (void)metadata.lookup(path(in), who);
    case 1: return (void)metadata.lookup(in.byte() % 12);
    case 2: return (void)metadata.create(create(path(in)), who);
    case 3: {
      wire::MakeDirectoryT request;
      request.path = path(in);
      return (void)metadata.make_directory(request, who);
    }
    case 4: {
      wire::RemoveT request;
      request.path = path(in);
      request.directory = in.flag();
      return (void)metadata.remove(request, who);
    }
    case 5: {
      wire::RenameT request;
      request.from = path(in);
      request.to = path(in);
      return (void)metadata.rename(request, who);
    }
    case 6: {
      wire::ListT request;
      request.path = path(in);
      request.limit = in.byte();
      return (void)metadata.list(request, who);
    }
    case 7: {
      wire::SetAttributesT request;
      request.path = path(in);
      request.set_mode = request.touch = true;
      request.mode = 0600;
      return (void)metadata.set_attributes(request, who);
    }
    case 8: {
      wire::BeginRelayoutT request;
      request.path = path(in);
      request.layout = create("").layout;
      return (void)metadata.begin_relayout(request, who);
    }
    case 9: {
      wire::EndRelayoutT request;
      request.file = in.byte() % 12;
      request.data = in.byte() % 12;
      request.commit = in.flag();
      return (void)metadata.end_relayout(request, who);
    }
    case 10: return (void)metadata.pending_removals({});
    case 11: return (void)metadata.all_files({});
    case 12: return (void)metadata.named(in.byte() % 12);
    default: return (void)metadata.check_access(in.byte() % 12, who, in.flag());
  }
}

void damaged_metadata(FuzzInput& in) {
  Records records = whole();
  for (std::size_t count = in.below(6); count > 0; --count) damage(records, in);
  const auto store = storage::make_memory_key_value();
  storage::Batch batch;
  for (auto& [key, value] : records) batch.put(std::move(key), std::move(value));
  require(store->apply(batch, false).is_ok(), "put");
  const auto metadata = Metadata::open(*store, options());
  if (!metadata.is_ok()) return;
  (*metadata)->set_target_count(2);
  for (int i = 0; i < 50 && !in.empty(); ++i) operate(**metadata, in);
  (void)(*metadata)->all_files({});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  log::set_level(log::Level::kOff);
  FuzzInput in(data, size);
  in.byte() == 'r' ? any_record(in) : damaged_metadata(in);
  return 0;
}
