#include <weir/server/internal/metadata.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include <gtest/gtest.h>

#include <weir/layout/testing/generate.h>
#include <weir/server/internal/permission.h>
#include <weir/server/internal/testing.h>

namespace weir::server::internal {
namespace {

using layout::oracle::Random;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;

const net::Identity kSuperuser = user(0, 0);
const net::Identity kAda = user(1000, 100);
const net::Identity kBob = user(1001, 100);
const net::Identity kEve = user(1002, 300, {400});

struct MetadataTest : ::testing::Test {
  void SetUp() override { reopen(); }
  void reopen() {
    Result<std::unique_ptr<Metadata>> opened =
        Metadata::open(*store, {.uid = 1000, .gid = 100, .now_ns = [this] { return ++now; }});
    ASSERT_THAT(opened, IsOk());
    metadata = std::move(*opened);
    metadata->set_target_count(4);
  }
  ~MetadataTest() override { expect_consistent(*store); }

  std::unique_ptr<storage::KeyValue> store = storage::make_memory_key_value();
  std::unique_ptr<Metadata> metadata;
  std::int64_t now = 0;
};

std::vector<std::string> names_of(const Result<wire::ListingT>& listing) {
  std::vector<std::string> names;
  for (const auto& entry : listing->entries) names.push_back(entry->name);
  return names;
}

// ---------------------------------------------------------------- single cases

TEST_F(MetadataTest, KeepsWhatAFileWasMadeWith) {
  const auto made = metadata->create(create_request("/x", 0640), kAda);
  ASSERT_THAT(made, IsOk());
  reopen();
  const auto found = metadata->lookup("/x", kAda);
  ASSERT_THAT(found, IsOk());
  EXPECT_EQ(encode_attributes(*made), encode_attributes(*found));
  EXPECT_FALSE(found->is_directory);
  EXPECT_EQ(found->mode, 0640u);
  EXPECT_EQ(found->uid, 1000u);
  EXPECT_EQ(found->layout, layout_bytes("stripe(unit=4, over=2)"));
  EXPECT_EQ(found->targets.size(), 2u);
  EXPECT_GT(found->file, kRoot);
  EXPECT_GT(found->created_ns, 0);
}

TEST_F(MetadataTest, FilesStartOnOneTargetAfterTheOther) {
  std::map<std::uint32_t, int> first;
  std::map<std::uint32_t, int> all;
  for (int i = 0; i < 8; ++i) {
    // Something else in between must not disturb it.
    ASSERT_THAT(metadata->make_directory(directory_request(concat("/d", i)), kAda), IsOk());
    const auto made = metadata->create(create_request(concat("/f", i)), kAda);
    ASSERT_THAT(made, IsOk());
    ++first[made->targets.front()];
    for (const std::uint32_t target : made->targets) ++all[target];
    EXPECT_EQ(made->targets[1], (made->targets[0] + 1) % 4);
  }
  for (std::uint32_t target = 0; target < 4; ++target) {
    EXPECT_EQ(first[target], 2);
    EXPECT_EQ(all[target], 4);
  }
}

TEST_F(MetadataTest, MoreSubfilesThanTargetsGoRound) {
  const auto made = metadata->create(create_request("/x", 0644, true, "stripe(unit=4, over=9)"), kAda);
  ASSERT_THAT(made, IsOk());
  std::map<std::uint32_t, int> all;
  for (const std::uint32_t target : made->targets) ++all[target];
  EXPECT_EQ(all.size(), 4u);
  for (const auto& [target, count] : all) EXPECT_TRUE(count == 2 || count == 3) << target;
}

TEST_F(MetadataTest, TakesTargetsAsToldAndChecksThem) {
  wire::CreateT request = create_request("/x");
  request.targets = {3, 3};
  const auto made = metadata->create(request, kAda);
  ASSERT_THAT(made, IsOk());
  EXPECT_THAT(made->targets, ElementsAre(3, 3));
  request.path = "/y";
  request.targets = {0, 4};
  EXPECT_THAT(metadata->create(request, kAda), StatusIs(ErrorCode::kInvalidArgument, HasSubstr("no target 4")));
  request.targets = {0};
  EXPECT_THAT(metadata->create(request, kAda),
              StatusIs(ErrorCode::kInvalidArgument, HasSubstr("1 targets for 2 subfiles")));
}

TEST_F(MetadataTest, RefusesLayoutsThatAreNone) {
  wire::CreateT request = create_request("/x");
  request.layout = {1, 2, 3};
  EXPECT_THAT(metadata->create(request, kAda), StatusIs(ErrorCode::kInvalidArgument, HasSubstr("create \"/x\"")));
  request.layout = layout_bytes("falls({(0,1,6,1)} | {(4,5,6,1)})");
  EXPECT_THAT(metadata->create(request, kAda), StatusIs(ErrorCode::kInvalidArgument));
  request.layout = layout_bytes("stripe(unit=1, over=100000)");
  EXPECT_THAT(metadata->create(request, kAda), StatusIs(ErrorCode::kInvalidArgument, HasSubstr("at most 65536")));
  EXPECT_THAT(metadata->lookup("/x", kAda), StatusIs(ErrorCode::kNotFound));
}

TEST_F(MetadataTest, RefusesPathsThatAreNone) {
  for (const std::string& path :
       {std::string(), std::string("x"), std::string("/."), std::string("/a/../b"), std::string("/a\0b", 4),
        "/" + std::string(256, 'n'), "/" + std::string(70000, '/')}) {
    EXPECT_THAT(metadata->create(create_request(path), kAda),
                StatusIs(ErrorCode::kInvalidArgument, HasSubstr("path \"")));
    EXPECT_THAT(metadata->lookup(path, kAda), StatusIs(ErrorCode::kInvalidArgument));
  }
  EXPECT_THAT(metadata->create(create_request("/"), kAda), StatusIs(ErrorCode::kInvalidArgument, HasSubstr("root")));
  EXPECT_THAT(metadata->remove(remove_request("/", true), kAda), StatusIs(ErrorCode::kInvalidArgument));
  EXPECT_THAT(metadata->rename(rename_request("/", "/x"), kAda), StatusIs(ErrorCode::kInvalidArgument));
}

TEST_F(MetadataTest, NamesAreAnyBytes) {
  std::string name;
  for (int byte = 1; byte < 256; ++byte) {
    if (byte != '/') name += static_cast<char>(byte);
  }
  ASSERT_LE(name.size(), wire::kMostNameBytes);
  for (const std::string& one : {name, std::string("..."), std::string(" "), std::string(255, '\xff')}) {
    ASSERT_THAT(metadata->create(create_request("/" + one), kAda), IsOk());
    EXPECT_THAT(metadata->lookup("//" + one + "//", kAda), IsOk());
  }
  EXPECT_EQ(metadata->list(list_request("/"), kAda)->entries.size(), 4u);
  EXPECT_THAT(metadata->lookup("/\x01\"", kAda), StatusIs(ErrorCode::kNotFound, HasSubstr("\"/\\x01\\x22\"")));
}

TEST_F(MetadataTest, ListsPageByPage) {
  std::vector<std::string> expected;
  for (int i = 0; i < 25; ++i) expected.push_back(concat("f", i));
  for (const std::string& name : expected) ASSERT_THAT(metadata->create(create_request("/" + name), kAda), IsOk());
  std::sort(expected.begin(), expected.end());
  std::vector<std::string> listed;
  for (bool is_complete = false; !is_complete;) {
    const auto page = metadata->list(list_request("/", listed.empty() ? "" : listed.back(), 10), kAda);
    ASSERT_THAT(page, IsOk());
    ASSERT_LE(page->entries.size(), 10u);
    for (const std::string& name : names_of(page)) listed.push_back(name);
    is_complete = page->is_complete;
    EXPECT_EQ(page->entries.front()->attributes->is_directory, false);
  }
  EXPECT_EQ(listed, expected);
}

TEST_F(MetadataTest, AFullLastPageIsComplete) {
  for (int i = 0; i < 10; ++i) ASSERT_THAT(metadata->create(create_request(concat("/f", i)), kAda), IsOk());
  EXPECT_TRUE(metadata->list(list_request("/", "", 10), kAda)->is_complete);
  EXPECT_FALSE(metadata->list(list_request("/", "", 9), kAda)->is_complete);
}

TEST_F(MetadataTest, ListsOnlyTheDirectoryItself) {
  ASSERT_THAT(metadata->make_directory(directory_request("/a"), kAda), IsOk());
  ASSERT_THAT(metadata->create(create_request("/a/x"), kAda), IsOk());
  ASSERT_THAT(metadata->create(create_request("/b"), kAda), IsOk());
  EXPECT_THAT(names_of(metadata->list(list_request("/"), kAda)), ElementsAre("a", "b"));
  EXPECT_THAT(names_of(metadata->list(list_request("/a"), kAda)), ElementsAre("x"));
  EXPECT_THAT(metadata->list(list_request("/b"), kAda), StatusIs(ErrorCode::kNotDirectory));
}

TEST_F(MetadataTest, RenameDoesNotMoveADirectoryBelowItself) {
  ASSERT_THAT(metadata->make_directory(directory_request("/a"), kAda), IsOk());
  ASSERT_THAT(metadata->make_directory(directory_request("/a/b"), kAda), IsOk());
  EXPECT_THAT(metadata->rename(rename_request("/a", "/a/c"), kAda),
              StatusIs(ErrorCode::kInvalidArgument, HasSubstr("below")));
  EXPECT_THAT(metadata->rename(rename_request("/a", "/a/b/c"), kAda), StatusIs(ErrorCode::kInvalidArgument));
  EXPECT_THAT(metadata->rename(rename_request("/a/b", "/a"), kAda), StatusIs(ErrorCode::kNotEmpty));
  EXPECT_THAT(metadata->rename(rename_request("/a", "/a"), kAda), IsOk());
}

TEST_F(MetadataTest, RenameTellsWhatItReplaced) {
  const auto old = metadata->create(create_request("/old"), kAda);
  const auto made = metadata->create(create_request("/new"), kAda);
  const auto replaced = metadata->rename(rename_request("/new", "/old"), kAda);
  ASSERT_THAT(replaced, IsOk());
  EXPECT_EQ(replaced->file, old->file);
  EXPECT_EQ(metadata->lookup("/old", kAda)->file, made->file);
  EXPECT_THAT(metadata->lookup("/new", kAda), StatusIs(ErrorCode::kNotFound));
  EXPECT_EQ(metadata->rename(rename_request("/old", "/other"), kAda)->file, 0u);
}

TEST_F(MetadataTest, StickyDirectoriesProtectWhatIsInThem) {
  ASSERT_THAT(metadata->make_directory(directory_request("/tmp", 01777), kAda), IsOk());
  ASSERT_THAT(metadata->create(create_request("/tmp/x"), kBob), IsOk());
  ASSERT_THAT(metadata->create(create_request("/tmp/y"), kEve), IsOk());
  EXPECT_THAT(metadata->remove(remove_request("/tmp/x"), kEve), StatusIs(ErrorCode::kPermission));
  EXPECT_THAT(metadata->rename(rename_request("/tmp/y", "/tmp/x"), kEve), StatusIs(ErrorCode::kPermission));
  EXPECT_THAT(metadata->remove(remove_request("/tmp/x"), kBob), IsOk());
  EXPECT_THAT(metadata->remove(remove_request("/tmp/y"), kAda), IsOk());
}

TEST_F(MetadataTest, OnlyOwnersChangeModesAndOnlyTheSuperuserGivesAway) {
  ASSERT_THAT(metadata->create(create_request("/x", 0666), kAda), IsOk());
  wire::SetAttributesT mode;
  mode.path = "/x";
  mode.set_mode = true;
  mode.mode = 0600 | (1u << 20);
  EXPECT_THAT(metadata->set_attributes(mode, kBob), StatusIs(ErrorCode::kPermission));
  EXPECT_EQ(metadata->set_attributes(mode, kAda)->mode, 0600u);
  wire::SetAttributesT owner;
  owner.path = "/x";
  owner.set_owner = true;
  owner.uid = 1002;
  owner.gid = 400;
  EXPECT_THAT(metadata->set_attributes(owner, kAda), StatusIs(ErrorCode::kPermission, HasSubstr("user 1000")));
  EXPECT_THAT(metadata->set_attributes(owner, kEve), StatusIs(ErrorCode::kPermission));
  EXPECT_EQ(metadata->set_attributes(owner, kSuperuser)->uid, 1002u);
  owner.gid = 300;  // a group of her own
  EXPECT_EQ(metadata->set_attributes(owner, kEve)->gid, 300u);
  owner.gid = 100;
  EXPECT_THAT(metadata->set_attributes(owner, kEve), StatusIs(ErrorCode::kPermission));
}

TEST_F(MetadataTest, RenameNeedsTheRightToWriteToBothDirectories) {
  ASSERT_THAT(metadata->make_directory(directory_request("/ada", 0755), kAda), IsOk());
  ASSERT_THAT(metadata->make_directory(directory_request("/all", 0777), kAda), IsOk());
  ASSERT_THAT(metadata->create(create_request("/ada/x", 0666), kAda), IsOk());
  ASSERT_THAT(metadata->create(create_request("/all/y", 0666), kAda), IsOk());
  EXPECT_THAT(metadata->rename(rename_request("/ada/x", "/all/x"), kEve), StatusIs(ErrorCode::kPermission));
  EXPECT_THAT(metadata->rename(rename_request("/all/y", "/ada/y"), kEve), StatusIs(ErrorCode::kPermission));
  EXPECT_THAT(metadata->rename(rename_request("/ada/x", "/ada/z"), kEve), StatusIs(ErrorCode::kPermission));
  EXPECT_THAT(metadata->rename(rename_request("/all/y", "/all/z"), kEve), IsOk());
  EXPECT_THAT(metadata->lookup("/ada/x", kAda), IsOk()) << "where it was";
  EXPECT_THAT(metadata->rename(rename_request("/ada/x", "/all/x"), kAda), IsOk());
}

TEST_F(MetadataTest, ListingNeedsTheRightToRead) {
  ASSERT_THAT(metadata->make_directory(directory_request("/d", 0711), kAda), IsOk());
  ASSERT_THAT(metadata->create(create_request("/d/x", 0644), kAda), IsOk());
  EXPECT_THAT(metadata->list(list_request("/d"), kEve), StatusIs(ErrorCode::kPermission));
  EXPECT_THAT(metadata->lookup("/d/x", kEve), IsOk()) << "those who know a name may use it";
  EXPECT_THAT(names_of(metadata->list(list_request("/d"), kAda)), ElementsAre("x"));
}

TEST_F(MetadataTest, TouchNeedsTheRightToWrite) {
  const auto made = metadata->create(create_request("/x", 0644), kAda);
  wire::SetAttributesT touch;
  touch.path = "/x";
  touch.touch = true;
  EXPECT_THAT(metadata->set_attributes(touch, kBob), StatusIs(ErrorCode::kPermission));
  EXPECT_GT(metadata->set_attributes(touch, kAda)->changed_ns, made->changed_ns);
}

TEST_F(MetadataTest, ANewLayoutIsNewData) {
  const auto made = metadata->create(create_request("/x"), kAda);
  wire::SetAttributesT request;
  request.path = "/x";
  request.layout = layout_bytes("stripe(unit=8, over=3)");
  const auto changed = metadata->set_attributes(request, kAda);
  ASSERT_THAT(changed, IsOk());
  EXPECT_EQ(changed->file, made->file);
  EXPECT_NE(changed->data, made->data);
  EXPECT_GT(changed->epoch, made->epoch);
  EXPECT_EQ(changed->targets.size(), 3u);
}

TEST_F(MetadataTest, TellsTheRightsToFiles) {
  const auto made = metadata->create(create_request("/x", 0040), kAda);
  ASSERT_THAT(made, IsOk());
  EXPECT_EQ(made->rights, kMayRead | kMayWrite | kOwns) << "who makes a file may use it, whatever its mode is";
  EXPECT_EQ(metadata->lookup("/x", kAda)->rights, kOwns);
  EXPECT_EQ(metadata->lookup("/x", kBob)->rights, kMayRead);
  EXPECT_EQ(metadata->lookup("/x", kEve)->rights, 0);
  EXPECT_EQ(metadata->lookup("/x", kSuperuser)->rights, kMayRead | kMayWrite | kOwns);
  EXPECT_EQ(metadata->lookup(made->file)->rights, 0) << "nothing of them is kept";
  EXPECT_THAT(metadata->lookup("/x", kBob, kMayRead), IsOk());
  EXPECT_THAT(metadata->lookup("/x", kBob, kMayWrite), StatusIs(ErrorCode::kPermission));
  EXPECT_THAT(metadata->lookup("/x", kBob, kMayRead | kMayWrite), StatusIs(ErrorCode::kPermission));
  EXPECT_THAT(metadata->lookup("/x", kAda, kMayRead), StatusIs(ErrorCode::kPermission));
  wire::CreateT again = create_request("/x", 0666, false);
  again.access = kMayWrite;
  EXPECT_THAT(metadata->create(again, kBob), StatusIs(ErrorCode::kPermission));
  again.access = kMayRead;
  EXPECT_EQ(metadata->create(again, kBob)->rights, kMayRead);
}

TEST_F(MetadataTest, AccessIsCheckedByNumberToo) {
  const auto made = metadata->create(create_request("/x", 0640), kAda);
  EXPECT_THAT(metadata->check_access(made->file, kAda, true), IsOk());
  EXPECT_THAT(metadata->check_access(made->file, kBob, false), IsOk());
  EXPECT_THAT(metadata->check_access(made->file, kBob, true), StatusIs(ErrorCode::kPermission));
  EXPECT_THAT(metadata->check_access(made->file, kEve, false), StatusIs(ErrorCode::kPermission));
  EXPECT_THAT(metadata->check_access(77777, kAda, false), StatusIs(ErrorCode::kNotFound));
}

// ---------------------------------------------------------------- relayout

struct RelayoutTest : MetadataTest {
  void SetUp() override {
    MetadataTest::SetUp();
    ASSERT_THAT(metadata->make_directory(directory_request("/d"), kAda), IsOk());
    Result<wire::AttributesT> file = metadata->create(create_request("/d/x"), kAda);
    ASSERT_THAT(file, IsOk());
    made = std::move(*file);
  }
  Result<wire::AttributesT> begin() {
    wire::BeginRelayoutT request;
    request.path = "/d/x";
    request.layout = layout_bytes("stripe(unit=16, over=4)");
    return metadata->begin_relayout(request, kAda);
  }
  Result<wire::AttributesT> end(std::uint64_t data, bool commit) {
    wire::EndRelayoutT request;
    request.file = made.file;
    request.data = data;
    request.commit = commit;
    return metadata->end_relayout(request, kAda);
  }
  std::vector<std::uint64_t> all_data() {
    std::vector<std::uint64_t> data;
    const auto listing = metadata->all_files({});
    for (const auto& entry : listing->entries) {
      if (entry->attributes->is_directory) continue;
      EXPECT_EQ(entry->name, "/d/x");
      EXPECT_EQ(entry->attributes->file, made.file);
      data.push_back(entry->attributes->data);
    }
    return data;
  }
  wire::AttributesT made;
};

TEST_F(RelayoutTest, CommitMakesItTheFile) {
  const auto pending = begin();
  ASSERT_THAT(pending, IsOk());
  EXPECT_EQ(pending->file, made.file);
  EXPECT_NE(pending->data, made.data);
  EXPECT_EQ(pending->targets.size(), 4u);
  EXPECT_EQ(metadata->lookup("/d/x", kAda)->data, made.data);
  EXPECT_THAT(all_data(), ElementsAre(made.data, pending->data));
  reopen();  // a crash: the old layout serves, and both are known
  EXPECT_EQ(metadata->lookup("/d/x", kAda)->data, made.data);
  EXPECT_THAT(all_data(), ElementsAre(made.data, pending->data));
  wire::SetAttributesT mode;  // what changes meanwhile stays changed
  mode.path = "/d/x";
  mode.set_mode = true;
  mode.mode = 0600;
  ASSERT_THAT(metadata->set_attributes(mode, kAda), IsOk());
  const auto now_is = end(pending->data, true);
  ASSERT_THAT(now_is, IsOk());
  EXPECT_EQ(now_is->data, pending->data);
  EXPECT_EQ(now_is->layout, pending->layout);
  EXPECT_EQ(now_is->mode, 0600u);
  EXPECT_GT(now_is->epoch, made.epoch);
  EXPECT_THAT(all_data(), ElementsAre(pending->data));
  EXPECT_THAT(end(pending->data, true), StatusIs(ErrorCode::kStale));
}

TEST_F(RelayoutTest, AbortForgetsIt) {
  const auto pending = begin();
  EXPECT_EQ(end(pending->data, false)->data, made.data);
  EXPECT_THAT(all_data(), ElementsAre(made.data));
  EXPECT_THAT(end(pending->data, true), StatusIs(ErrorCode::kStale));
  EXPECT_EQ(metadata->lookup("/d/x", kAda)->data, made.data);
}

TEST_F(RelayoutTest, TheLastThatBeginsWins) {
  const auto first = begin();
  const auto second = begin();
  EXPECT_NE(first->data, second->data);
  EXPECT_THAT(end(first->data, true), StatusIs(ErrorCode::kStale));
  EXPECT_THAT(end(second->data, true), IsOk());
}

TEST_F(RelayoutTest, RemovingTheFileEndsIt) {
  const auto pending = begin();
  ASSERT_THAT(metadata->remove(remove_request("/d/x"), kAda), IsOk());
  EXPECT_THAT(all_data(), ElementsAre());
  EXPECT_THAT(end(pending->data, true), StatusIs(ErrorCode::kNotFound));
}

TEST_F(RelayoutTest, NeedsTheRightToWrite) {
  wire::BeginRelayoutT request;
  request.path = "/d/x";
  request.layout = made.layout;
  EXPECT_THAT(metadata->begin_relayout(request, kBob), StatusIs(ErrorCode::kPermission));
  const auto pending = begin();
  wire::EndRelayoutT ending;
  ending.file = made.file;
  ending.data = pending->data;
  ending.commit = true;
  EXPECT_THAT(metadata->end_relayout(ending, kBob), StatusIs(ErrorCode::kPermission));
  request.path = "/d";
  EXPECT_THAT(metadata->begin_relayout(request, kAda), StatusIs(ErrorCode::kIsDirectory));
}

// ---------------------------------------------------------------- against a model

/// A tree of nodes and the rules of POSIX, as plainly as they can be written.
class Model {
 public:
  struct Node {
    bool is_directory = true;
    std::uint32_t mode = 0755;
    std::uint32_t uid = 1000;
    std::uint32_t gid = 100;
    FileNumber file = kRoot;
    std::map<std::string, std::shared_ptr<Node>> children;
  };
  using NodePtr = std::shared_ptr<Node>;
  using Names = std::vector<std::string>;

  static bool allowed(const Node& node, const net::Identity& who, char right) {
    if (who.uid == 0) return true;
    const std::uint32_t bit = right == 'r' ? 4 : right == 'w' ? 2 : 1;
    if (who.uid == node.uid) return (node.mode & (bit * 64)) != 0;
    if (who.gid == node.gid || std::count(who.groups.begin(), who.groups.end(), node.gid) != 0)
      return (node.mode & (bit * 8)) != 0;
    return (node.mode & bit) != 0;
  }

  ErrorCode step(NodePtr& at, const std::string& name, const net::Identity& who) const {
    if (!at->is_directory) return ErrorCode::kNotDirectory;
    if (!allowed(*at, who, 'x')) return ErrorCode::kPermission;
    const auto found = at->children.find(name);
    if (found == at->children.end()) return ErrorCode::kNotFound;
    at = found->second;
    return ErrorCode::kOk;
  }
  ErrorCode find(const Names& names, const net::Identity& who, NodePtr& at) const {
    at = root;
    for (const std::string& name : names) {
      if (const ErrorCode code = step(at, name, who); code != ErrorCode::kOk) return code;
    }
    return ErrorCode::kOk;
  }
  ErrorCode find_directory(const Names& names, const net::Identity& who, NodePtr& at) const {
    if (names.empty()) return ErrorCode::kInvalidArgument;
    if (const ErrorCode code = find({names.begin(), names.end() - 1}, who, at); code != ErrorCode::kOk) return code;
    if (!at->is_directory) return ErrorCode::kNotDirectory;
    return allowed(*at, who, 'x') ? ErrorCode::kOk : ErrorCode::kPermission;
  }

  ErrorCode create(const Names& names, const net::Identity& who, bool is_directory, std::uint32_t mode, bool exclusive,
                   NodePtr& made) {
    NodePtr at;
    if (const ErrorCode code = find_directory(names, who, at); code != ErrorCode::kOk) return code;
    if (const auto found = at->children.find(names.back()); found != at->children.end()) {
      if (is_directory || exclusive) return ErrorCode::kExists;
      if (found->second->is_directory) return ErrorCode::kIsDirectory;
      made = found->second;
      return ErrorCode::kOk;
    }
    if (!allowed(*at, who, 'w')) return ErrorCode::kPermission;
    made = std::make_shared<Node>(Node{is_directory, mode, who.uid, who.gid, 0, {}});
    at->children[names.back()] = made;
    return ErrorCode::kOk;
  }

  ErrorCode remove(const Names& names, const net::Identity& who, bool is_directory) {
    NodePtr at;
    if (const ErrorCode code = find_directory(names, who, at); code != ErrorCode::kOk) return code;
    const auto found = at->children.find(names.back());
    if (found == at->children.end()) return ErrorCode::kNotFound;
    if (!allowed(*at, who, 'w')) return ErrorCode::kPermission;
    const Node& node = *found->second;
    if (node.is_directory != is_directory)
      return node.is_directory ? ErrorCode::kIsDirectory : ErrorCode::kNotDirectory;
    if (!node.children.empty()) return ErrorCode::kNotEmpty;
    at->children.erase(found);
    return ErrorCode::kOk;
  }

  static bool holds(const Node& node, const Node* wanted) {
    if (&node == wanted) return true;
    return std::any_of(node.children.begin(), node.children.end(),
                       [&](const auto& child) { return holds(*child.second, wanted); });
  }

  ErrorCode rename(const Names& from, const Names& to, const net::Identity& who) {
    NodePtr old_at;
    NodePtr new_at;
    if (const ErrorCode code = find_directory(from, who, old_at); code != ErrorCode::kOk) return code;
    if (const ErrorCode code = find_directory(to, who, new_at); code != ErrorCode::kOk) return code;
    const auto found = old_at->children.find(from.back());
    if (found == old_at->children.end()) return ErrorCode::kNotFound;
    const NodePtr moved = found->second;
    const auto there = new_at->children.find(to.back());
    const NodePtr replaced = there == new_at->children.end() ? nullptr : there->second;
    if (replaced == moved) return ErrorCode::kOk;
    if (!allowed(*old_at, who, 'w') || !allowed(*new_at, who, 'w')) return ErrorCode::kPermission;
    if (holds(*moved, new_at.get())) return ErrorCode::kInvalidArgument;
    if (replaced && replaced->is_directory != moved->is_directory) {
      return replaced->is_directory ? ErrorCode::kIsDirectory : ErrorCode::kNotDirectory;
    }
    if (replaced && !replaced->children.empty()) return ErrorCode::kNotEmpty;
    old_at->children.erase(from.back());
    new_at->children[to.back()] = moved;
    return ErrorCode::kOk;
  }

  NodePtr root = std::make_shared<Node>();
};

class Comparison {
 public:
  Comparison(storage::KeyValue& store, Random& random) : store_(store), random_(random) { reopen(); }

  void reopen() {
    Result<std::unique_ptr<Metadata>> opened = Metadata::open(store_, {.uid = 1000, .gid = 100, .now_ns = {}});
    ASSERT_THAT(opened, IsOk());
    metadata_ = std::move(*opened);
  }

  void step() {
    const net::Identity& who = any_user();
    const Model::Names names = any_names();
    const std::string path = to_path(names);
    const auto mode = static_cast<std::uint32_t>(random_.chance(70) ? 0777 : random_.between(0, 0777));
    SCOPED_TRACE(::testing::Message() << wire::quoted_path(path) << " by " << who.uid);
    switch (random_.between(0, 6)) {
      case 0: return create(names, path, who, mode);
      case 1: return make_directory(names, path, who, mode);
      case 2: return remove(names, path, who);
      case 3: return rename(names, path, who);
      case 4: return set_mode(names, path, who, mode);
      case 5: return lookup(names, path, who);
      default:
        if (random_.chance(10)) reopen();
    }
  }

  void expect_same_tree() { expect_same(*model_.root, "/"); }

 private:
  const net::Identity& any_user() {
    const net::Identity* const users[] = {&kSuperuser, &kAda, &kAda, &kBob, &kEve};
    return *users[random_.between(0, 4)];
  }
  Model::Names any_names() {
    static const std::vector<std::string> names = {"a", "b", "c", "\xff\x01", "a b"};
    Model::Names path;
    for (Offset depth = random_.between(random_.chance(5) ? 0 : 1, 4); depth > 0; --depth) {
      path.push_back(names[static_cast<std::size_t>(random_.between(0, 4))]);
    }
    return path;
  }
  static std::string to_path(const Model::Names& names) {
    std::string path = names.empty() ? "/" : "";
    for (const std::string& name : names) path += "/" + name;
    return path;
  }

  void expect_made(const Result<wire::AttributesT>& result, ErrorCode expected, const Model::NodePtr& node) {
    ASSERT_EQ(result.status().code(), expected) << result.status().message();
    if (expected != ErrorCode::kOk) return;
    if (node->file == 0) {
      EXPECT_TRUE(numbers_.insert(result->file).second) << "number " << result->file << " is used twice";
      node->file = result->file;
    }
    EXPECT_EQ(result->file, node->file);
  }

  void create(const Model::Names& names, const std::string& path, const net::Identity& who, std::uint32_t mode) {
    const bool exclusive = random_.chance(50);
    Model::NodePtr node;
    const ErrorCode expected = model_.create(names, who, false, mode, exclusive, node);
    expect_made(metadata_->create(create_request(path, mode, exclusive, "stripe(unit=4, over=1)"), who), expected,
                node);
  }
  void make_directory(const Model::Names& names, const std::string& path, const net::Identity& who,
                      std::uint32_t mode) {
    Model::NodePtr node;
    const ErrorCode expected = model_.create(names, who, true, mode, true, node);
    expect_made(metadata_->make_directory(directory_request(path, mode), who), expected, node);
  }
  void remove(const Model::Names& names, const std::string& path, const net::Identity& who) {
    const bool is_directory = random_.chance(50);
    const ErrorCode expected = model_.remove(names, who, is_directory);
    const auto result = metadata_->remove(remove_request(path, is_directory), who);
    EXPECT_EQ(result.status().code(), expected) << result.status().message();
  }
  void rename(const Model::Names& names, const std::string& path, const net::Identity& who) {
    const Model::Names to = any_names();
    const ErrorCode expected = model_.rename(names, to, who);
    const auto result = metadata_->rename(rename_request(path, to_path(to)), who);
    EXPECT_EQ(result.status().code(), expected) << wire::quoted_path(to_path(to)) << ": " << result.status().message();
  }
  void set_mode(const Model::Names& names, const std::string& path, const net::Identity& who, std::uint32_t mode) {
    Model::NodePtr node;
    ErrorCode expected = model_.find(names, who, node);
    if (expected == ErrorCode::kOk && who.uid != 0 && who.uid != node->uid) expected = ErrorCode::kPermission;
    if (expected == ErrorCode::kOk) node->mode = mode;
    wire::SetAttributesT request;
    request.path = path;
    request.set_mode = true;
    request.mode = mode;
    EXPECT_EQ(metadata_->set_attributes(request, who).status().code(), expected);
  }
  void lookup(const Model::Names& names, const std::string& path, const net::Identity& who) {
    Model::NodePtr node;
    const ErrorCode expected = model_.find(names, who, node);
    const auto result = metadata_->lookup(path, who);
    ASSERT_EQ(result.status().code(), expected) << result.status().message();
    if (expected == ErrorCode::kOk) {
      EXPECT_EQ(result->file, node->file);
    }
  }

  void expect_same(const Model::Node& node, const std::string& path) {
    SCOPED_TRACE(path);
    const auto attributes = metadata_->lookup(path, kSuperuser);
    ASSERT_THAT(attributes, IsOk());
    EXPECT_EQ(attributes->is_directory, node.is_directory);
    EXPECT_EQ(attributes->mode, node.mode);
    EXPECT_EQ(attributes->uid, node.uid);
    EXPECT_EQ(attributes->gid, node.gid);
    EXPECT_EQ(attributes->file, node.file);
    if (!node.is_directory) return;
    std::vector<std::string> expected;
    for (const auto& [name, child] : node.children) {
      expected.push_back(name);
      expect_same(*child, (path == "/" ? "" : path) + "/" + name);
    }
    EXPECT_EQ(names_of(metadata_->list(list_request(path), kSuperuser)), expected);
  }

  storage::KeyValue& store_;
  Random& random_;
  std::unique_ptr<Metadata> metadata_;
  Model model_;
  std::set<FileNumber> numbers_{kRoot};
};

void compare(storage::KeyValue& store, Random& random, int steps) {
  Comparison comparison(store, random);
  for (int i = 0; i < steps && !::testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE(i);
    comparison.step();
  }
  comparison.expect_same_tree();
  comparison.reopen();
  comparison.expect_same_tree();
  expect_consistent(store);
}

TEST(MetadataPropertyTest, BehavesAsAPlainTree) {
  layout::oracle::for_cases(60, [](Random& random) {
    const std::unique_ptr<storage::KeyValue> store = storage::make_memory_key_value();
    compare(*store, random, 300);
  });
}

TEST(MetadataPropertyTest, BehavesAsAPlainTreeOnDisk) {
  layout::oracle::for_cases(2, [](Random& random) {
    const TemporaryDirectory directory;
    Result<std::unique_ptr<storage::KeyValue>> store = storage::open_rocks_key_value(directory.path() + "/metadata");
    ASSERT_THAT(store, IsOk());
    compare(**store, random, 200);
  });
}

TEST(MetadataPropertyTest, NumbersAreNotUsedAgainAfterTheStoreWasClosed) {
  const TemporaryDirectory directory;
  std::set<FileNumber> numbers;
  for (int round = 0; round < 3; ++round) {
    Result<std::unique_ptr<storage::KeyValue>> store = storage::open_rocks_key_value(directory.path() + "/metadata");
    ASSERT_THAT(store, IsOk());
    auto metadata = Metadata::open(**store, {.uid = 1000, .gid = 100, .now_ns = {}, .numbers_at_a_time = 100});
    ASSERT_THAT(metadata, IsOk());
    for (int i = 0; i < 250; ++i) {  // more than one block of numbers
      const auto made = (*metadata)->create(create_request("/x"), kAda);
      ASSERT_THAT(made, IsOk());
      EXPECT_TRUE(numbers.insert(made->file).second);
      ASSERT_THAT((*metadata)->remove(remove_request("/x"), kAda), IsOk());
    }
    expect_consistent(**store);
  }
}

// Before, the path of such a directory grew until there was no memory left.
TEST(DamagedMetadataTest, DirectoriesThatFormACircleAreDamage) {
  for (const int depth : {1, 2, 3, 7}) {
    SCOPED_TRACE(depth);
    const auto store = storage::make_memory_key_value();
    const auto metadata = Metadata::open(*store, {});
    ASSERT_THAT(metadata, IsOk());
    std::vector<FileNumber> numbers;
    std::string path;
    for (int i = 0; i < depth; ++i) {
      path += "/d";
      const auto made = (*metadata)->make_directory(directory_request(path), kSuperuser);
      ASSERT_THAT(made, IsOk());
      numbers.push_back(made->file);
    }
    const auto first = store->get(record_key(numbers.front()));
    ASSERT_THAT(first, IsOk());
    auto record = decode_record(**first);
    ASSERT_THAT(record, IsOk());
    record->parent = numbers.back();
    storage::Batch batch;
    batch.put(record_key(numbers.front()), encode_record(*record));
    ASSERT_THAT(store->apply(batch, false), IsOk());
    EXPECT_THAT((*metadata)->all_files({}), StatusIs(ErrorCode::kCorrupt, HasSubstr("below itself")));
    EXPECT_THAT((*metadata)->named(numbers.back()), StatusIs(ErrorCode::kCorrupt));
  }
}

}  // namespace
}  // namespace weir::server::internal
