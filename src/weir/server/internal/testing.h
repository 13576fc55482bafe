#pragma once

// For the tests of the server; not installed.

#include <map>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include <weir/base/internal/temporary_directory.h>
#include <weir/base/testing.h>
#include <weir/base/text.h>
#include <weir/layout/language.h>
#include <weir/net/net.h>
#include <weir/server/internal/metadata.h>
#include <weir/wire/path.h>

namespace weir::server::internal {

using testing::TemporaryDirectory;

inline net::Identity user(std::uint32_t uid, std::uint32_t gid = 100, std::vector<std::uint32_t> groups = {}) {
  return {uid, gid, std::move(groups), "host"};
}

inline std::vector<std::uint8_t> layout_bytes(const std::string& text) {
  return wire::to_bytes(layout::parse(text).value());
}

inline wire::CreateT create_request(const std::string& path, std::uint32_t mode = 0644, bool exclusive = true,
                                    const std::string& layout = "stripe(unit=4, over=2)") {
  wire::CreateT request;
  request.path = path;
  request.mode = mode;
  request.exclusive = exclusive;
  request.layout = layout_bytes(layout);
  return request;
}

inline wire::MakeDirectoryT directory_request(const std::string& path, std::uint32_t mode = 0755) {
  wire::MakeDirectoryT request;
  request.path = path;
  request.mode = mode;
  return request;
}

inline wire::RemoveT remove_request(const std::string& path, bool directory = false) {
  wire::RemoveT request;
  request.path = path;
  request.directory = directory;
  return request;
}

inline wire::RenameT rename_request(const std::string& from, const std::string& to) {
  wire::RenameT request;
  request.from = from;
  request.to = to;
  return request;
}

inline wire::ListT list_request(const std::string& path, const std::string& after = "", std::uint32_t limit = 0) {
  wire::ListT request;
  request.path = path;
  request.after = after;
  request.limit = limit;
  return request;
}

/// Checks the records themselves: entries and files point at each other, everything hangs below the root, no number is
/// beyond the counter or used for the data of two files.
inline void expect_consistent(storage::KeyValue& store) {
  using testing::IsOk;
  const Result<std::optional<std::string>> next = store.get(kNextNumberKey);
  ASSERT_THAT(next, IsOk());
  if (!*next) {
    int keys = 0;
    ASSERT_THAT(store.scan("", "", [&](std::string_view, std::string_view) { return ++keys < 100; }), IsOk());
    EXPECT_EQ(keys, 0) << "records, but no counter";
    return;
  }
  const FileNumber end = *decode_number(**next);
  std::map<FileNumber, Record> records;
  ASSERT_THAT(store.scan(kRecordPrefix, "",
                         [&](std::string_view key, std::string_view value) {
                           Result<Record> record = decode_record(value);
                           EXPECT_THAT(record, IsOk());
                           if (record.is_ok()) records.emplace(*number_of_key(key), std::move(*record));
                           return true;
                         }),
              IsOk());
  ASSERT_TRUE(records.contains(kRoot));
  std::size_t entries = 0;
  ASSERT_THAT(store.scan("d", "",
                         [&](std::string_view key, std::string_view value) {
                           ++entries;
                           const FileNumber directory = *decode_number(key.substr(1, 8));
                           const FileNumber number = *decode_number(value);
                           EXPECT_TRUE(records.contains(directory) && records[directory].attributes.is_directory);
                           EXPECT_TRUE(records.contains(number)) << "entry without a file";
                           EXPECT_EQ(records[number].parent, directory);
                           EXPECT_EQ(records[number].name, key.substr(9));
                           return true;
                         }),
              IsOk());
  EXPECT_EQ(entries + 1, records.size()) << "a file without an entry";
  std::set<FileNumber> data;
  for (const auto& [number, record] : records) {
    EXPECT_EQ(number, record.attributes.file);
    EXPECT_LT(number, end);
    std::size_t depth = 0;
    for (FileNumber at = number; at != kRoot && depth <= records.size(); at = records[at].parent) ++depth;
    EXPECT_LE(depth, records.size()) << "a circle of directories";
    if (record.attributes.is_directory) continue;
    EXPECT_LT(record.attributes.data, end);
    EXPECT_TRUE(data.insert(record.attributes.data).second) << "two files with the same data";
  }
  ASSERT_THAT(store.scan("r", "",
                         [&](std::string_view key, std::string_view value) {
                           const FileNumber number = *decode_number(key.substr(1));
                           const Result<wire::AttributesT> pending = decode_attributes(value);
                           EXPECT_THAT(pending, IsOk());
                           EXPECT_TRUE(records.contains(number)) << "relayout without a file";
                           EXPECT_LT(pending->data, end);
                           EXPECT_TRUE(data.insert(pending->data).second) << "relayout with the data of a file";
                           return true;
                         }),
              IsOk());
}

}  // namespace weir::server::internal
