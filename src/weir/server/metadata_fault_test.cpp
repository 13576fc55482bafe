// The key-value store fails at every operation in turn: what is left is consistent, what was reported done is done, and
// work goes on.

#include <map>
#include <memory>
#include <set>

#include <gtest/gtest.h>

#include <weir/server/internal/metadata.h>
#include <weir/server/internal/testing.h>
#include <weir/storage/faulty_store.h>

namespace weir::server::internal {
namespace {

using storage::FaultOptions;
using storage::Faults;
using testing::IsOk;
using testing::StatusIs;

const net::Identity kWriter = user(1000);

/// Does a bit of everything, and goes on after errors.
class Script {
 public:
  explicit Script(Metadata& metadata) : metadata_(metadata) {}

  void run() {
    note(metadata_.make_directory(directory_request("/d"), kWriter), "/d");
    note(metadata_.create(create_request("/d/x"), kWriter), "/d/x");
    note(metadata_.create(create_request("/d/y"), kWriter), "/d/y");
    note(metadata_.lookup("/d/x", kWriter), "");
    if (note(metadata_.rename(rename_request("/d/y", "/d/x"), kWriter), "")) done_.erase("/d/y");
    note(metadata_.list(list_request("/d"), kWriter), "");
    note(metadata_.make_directory(directory_request("/e"), kWriter), "/e");
    if (note(metadata_.rename(rename_request("/d", "/e/d"), kWriter), "")) move_to_e();
    relayout("/e/d/x");
    wire::SetAttributesT mode;
    mode.path = "/e";
    mode.set_mode = true;
    mode.mode = 0700;
    note(metadata_.set_attributes(mode, kWriter), "");
    note(metadata_.create(create_request("/z"), kWriter), "/z");
    if (note(metadata_.remove(remove_request("/z"), kWriter), "")) done_.erase("/z");
    note(metadata_.all_files({}), "");
  }

  [[nodiscard]] int failures() const { return failures_; }
  [[nodiscard]] const std::set<std::string>& done() const { return done_; }

 private:
  template <typename T>
  bool note(const Result<T>& result, const std::string& made) {
    // Later steps miss what a failed one did not make; anything else is the fault that was asked for.
    if (!result.is_ok() && result.status().code() == ErrorCode::kIoError) ++failures_;
    if (result.is_ok() && !made.empty()) done_.insert(made);
    return result.is_ok();
  }
  void move_to_e() {
    std::set<std::string> moved;
    for (const std::string& path : done_) moved.insert(path.starts_with("/d") ? "/e" + path : path);
    done_ = std::move(moved);
  }
  void relayout(const std::string& path) {
    for (const bool commit : {false, true}) {
      wire::BeginRelayoutT begin;
      begin.path = path;
      begin.layout = layout_bytes("stripe(unit=2, over=1)");
      const auto pending = metadata_.begin_relayout(begin, kWriter);
      if (!note(pending, "")) continue;
      wire::EndRelayoutT end;
      end.file = pending->file;
      end.data = pending->data;
      end.commit = commit;
      note(metadata_.end_relayout(end, kWriter), "");
    }
  }

  Metadata& metadata_;
  std::set<std::string> done_;
  int failures_ = 0;
};

void fail_everywhere(FaultOptions::When when, bool stays) {
  for (int n = 0;; ++n) {
    SCOPED_TRACE(n);
    ASSERT_LT(n, 1000) << "the script never ends";
    const std::shared_ptr<storage::KeyValue> store = storage::make_memory_key_value();
    const auto faults = std::make_shared<Faults>(FaultOptions{.fail_at = n, .when = when, .stays = stays});
    storage::FaultyKeyValue faulty(store, faults);
    auto metadata = Metadata::open(faulty, {.uid = 1000, .gid = 100, .now_ns = {}, .numbers_at_a_time = 4});
    std::set<std::string> done;
    if (metadata.is_ok()) {
      Script script(**metadata);
      script.run();
      done = script.done();
      EXPECT_EQ(script.failures() > 0, faults->fired());
    } else {
      EXPECT_TRUE(faults->fired());
      EXPECT_THAT(metadata, StatusIs(ErrorCode::kIoError));
    }
    const bool fired = faults->fired();
    expect_consistent(*store);
    // Another server takes over; with a fault that does not last, this one can go on too.
    const auto again = Metadata::open(*store, {.uid = 1000, .gid = 100, .now_ns = {}, .numbers_at_a_time = 4});
    ASSERT_THAT(again, IsOk());
    if (when == FaultOptions::When::kBefore && !stays) {
      for (const std::string& path : done) EXPECT_THAT((*again)->lookup(path, kWriter), IsOk()) << path;
    }
    EXPECT_THAT((*again)->create(create_request("/after"), kWriter), IsOk());
    if (metadata.is_ok() && fired && !stays) {
      EXPECT_THAT((*metadata)->lookup("/after", kWriter), IsOk());
    }
    expect_consistent(*store);
    if (!fired) break;
  }
}

TEST(MetadataFaultTest, EveryFailureLeavesAConsistentNamespace) { fail_everywhere(FaultOptions::When::kBefore, false); }
TEST(MetadataFaultTest, AnswersThatAreLostLeaveAConsistentNamespace) {
  fail_everywhere(FaultOptions::When::kAfter, false);
}
TEST(MetadataFaultTest, AStoreThatDiesLeavesAConsistentNamespace) {
  fail_everywhere(FaultOptions::When::kBefore, true);
}

TEST(MetadataFaultTest, NumbersOfFailedCallsAreNotGivenOutAgain) {
  // The answer to the batch that has the file is lost: the file may be there.
  for (int n = 0; n < 40; ++n) {
    SCOPED_TRACE(n);
    const std::shared_ptr<storage::KeyValue> store = storage::make_memory_key_value();
    const auto faults = std::make_shared<Faults>(FaultOptions{.fail_at = n, .when = FaultOptions::When::kAfter});
    storage::FaultyKeyValue faulty(store, faults);
    const auto metadata = Metadata::open(faulty, {.uid = 1000, .gid = 100, .now_ns = {}, .numbers_at_a_time = 4});
    if (!metadata.is_ok()) continue;
    for (const char* path : {"/a", "/b", "/c", "/d"}) (void)(*metadata)->create(create_request(path), kWriter);
    std::map<FileNumber, std::string> paths;
    const auto all = (*metadata)->all_files({});
    if (!all.is_ok()) continue;
    for (const auto& entry : all->entries) {
      EXPECT_TRUE(paths.emplace(entry->attributes->file, entry->name).second) << entry->name;
    }
    expect_consistent(*store);
  }
}

TEST(MetadataFaultTest, DamagedRecordsAreErrorsWithAName) {
  const std::unique_ptr<storage::KeyValue> store = storage::make_memory_key_value();
  const auto metadata = Metadata::open(*store, {.uid = 1000, .gid = 100, .now_ns = {}, .numbers_at_a_time = 4});
  ASSERT_THAT(metadata, IsOk());
  const auto made = (*metadata)->create(create_request("/x"), kWriter);
  const std::string whole = **store->get(record_key(made->file));
  for (std::size_t length = 0; length < whole.size(); ++length) {
    storage::Batch batch;
    batch.put(record_key(made->file), whole.substr(0, length));
    ASSERT_THAT(store->apply(batch, false), IsOk());
    EXPECT_THAT((*metadata)->lookup("/x", kWriter), StatusIs(ErrorCode::kCorrupt)) << length;
  }
  storage::Batch batch;
  batch.erase(record_key(kRoot));
  ASSERT_THAT(store->apply(batch, false), IsOk());
  EXPECT_THAT(Metadata::open(*store, {}), StatusIs(ErrorCode::kCorrupt));
}

}  // namespace
}  // namespace weir::server::internal
