// Servers with checksums of mapped memory (docs/decisions/022): what a wild pointer did to a file is noticed, and what
// the file's users do to it never looks like that.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/base/testing/matchers.h>
#include <weir/base/text.h>
#include <weir/client/file_system.h>
#include <weir/client/internal/session.h>
#include <weir/client/testing/cluster.h>
#include <weir/layout/language.h>
#include <weir/share/block_sums.h>

namespace weir::client {
namespace {

using internal::Cluster;
using internal::ClusterOptions;
using internal::Session;
using share::kBlockBytes;
using ::testing::AllOf;
using ::testing::HasSubstr;
using weir::testing::IsOk;
using weir::testing::StatusIs;

using Bytes = std::vector<std::byte>;

constexpr Offset kFileBytes = Offset{2} << 20;

layout::Partition one_long_stripe() { return *layout::parse("stripe(unit=64K, over=1)"); }

ClusterOptions verified(int servers, const std::string& transport = "local") {
  return {.transport = transport, .servers = servers, .verifies_memory = true};
}

std::size_t to_size(Offset bytes) { return static_cast<std::size_t>(bytes); }

/// That can be told from others.
Bytes random_bytes(Offset count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Bytes bytes(to_size(count));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

/// Where this process has mapped the subfile that begins with `begin`; as a wild pointer might find it.
std::byte* find_in_memory(std::span<const std::byte> begin) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t from = 0;
    std::uintptr_t to = 0;
    char minus = 0;
    std::string access;
    std::string offset;
    std::istringstream words(line);
    words >> std::hex >> from >> minus >> to >> access >> offset;
    if (access != "rw-s" || to - from < to_size(share::kDataStart + kFileBytes) || line.find('/') == std::string::npos)
      continue;
    auto* const data = reinterpret_cast<std::byte*>(from + to_size(share::kDataStart));
    if (std::equal(begin.begin(), begin.end(), data)) return data;
  }
  return nullptr;
}

FileSystem connect(const Cluster& cluster, bool direct) {
  ConnectOptions options;
  options.direct = direct;
  auto session = Session::connect(cluster.addresses(), cluster.key(), options);
  EXPECT_THAT(session, IsOk());
  return FileSystem(*session);
}

std::int64_t damaged_blocks(const FileSystem& fs) {
  std::int64_t sum = 0;
  for (const ServerStatus& server : fs.server_status()) sum += server.damaged_blocks;
  return sum;
}

Status read(const File& file, Offset from, Offset bytes) {
  Bytes memory(to_size(bytes));
  return file.linear()->read(from, memory);
}

class VerifyMemoryTest : public ::testing::Test {
 protected:
  // A file in mapped memory, with `bytes`.
  File write_file(const FileSystem& through, const std::string& path) {
    File file = *through.create(path, one_long_stripe());
    EXPECT_THAT(file.linear()->write(0, bytes), IsOk());
    return file;
  }
  // What a wild pointer does.
  void damage(Offset at) {
    std::byte* const data = find_in_memory(std::span(bytes).first(64));
    ASSERT_NE(data, nullptr);
    data[at] ^= std::byte{1};
  }

  Cluster cluster{verified(1)};
  const FileSystem fs = cluster.connect();
  const FileSystem by_message = connect(cluster, false);
  const Bytes bytes = random_bytes(kFileBytes, 1);
};

TEST_F(VerifyMemoryTest, DamageAfterASyncFailsReads) {
  const File file = write_file(fs, "/file");
  ASSERT_THAT(file.sync(), IsOk());
  const File same = *by_message.open("/file");
  EXPECT_THAT(read(file, 0, kFileBytes), IsOk());
  EXPECT_THAT(read(same, 0, kFileBytes), IsOk());
  damage(3 * kBlockBytes + 5);
  const auto is_told = StatusIs(ErrorCode::kCorrupt, AllOf(HasSubstr("read of /file: read of subfile "),
                                                           HasSubstr("bytes 196608 to 262144 "), HasSubstr("wild")));
  EXPECT_THAT(read(file, 0, kFileBytes), is_told);
  EXPECT_THAT(read(file, 3 * kBlockBytes, 1), is_told);
  EXPECT_THAT(read(same, 0, kFileBytes), is_told);
  EXPECT_THAT(read(same, 4 * kBlockBytes - 1, 2), is_told);
  EXPECT_THAT(read(file, 0, 3 * kBlockBytes), IsOk());
  EXPECT_THAT(read(same, 4 * kBlockBytes, kBlockBytes), IsOk());
  EXPECT_EQ(damaged_blocks(fs), 1);
}

TEST_F(VerifyMemoryTest, DamageAfterACloseFailsReads) {
  const File file = write_file(fs, "/file");
  ASSERT_THAT(file.close(), IsOk());
  damage(0);
  EXPECT_THAT(read(file, 0, kFileBytes), StatusIs(ErrorCode::kCorrupt));
}

TEST_F(VerifyMemoryTest, DamageOfWhatWasWrittenByMessageFailsReads) {
  const File file = write_file(by_message, "/file");
  ASSERT_THAT(file.close(), IsOk());
  const File same = *fs.open("/file");
  EXPECT_THAT(read(same, 0, kFileBytes), IsOk());
  damage(kFileBytes - 1);
  EXPECT_THAT(read(same, 0, kFileBytes), StatusIs(ErrorCode::kCorrupt));
  EXPECT_THAT(read(file, 0, kFileBytes), StatusIs(ErrorCode::kCorrupt));
}

TEST_F(VerifyMemoryTest, WritesThatWouldHideDamageFailAndWholeBlocksMendIt) {
  const File file = write_file(fs, "/file");
  const File same = *by_message.open("/file");
  ASSERT_THAT(file.sync(), IsOk());
  damage(2 * kBlockBytes + 500);
  const Bytes more = random_bytes(kBlockBytes, 2);
  const auto is_told = StatusIs(ErrorCode::kCorrupt, HasSubstr("write to /file: write of subfile "));
  for (const File& one : {file, same}) {
    EXPECT_THAT(one.linear()->write(2 * kBlockBytes, std::span(more).first(100)), is_told);
    EXPECT_THAT(one.linear()->write(2 * kBlockBytes + 1, std::span(more)), is_told);
  }
  EXPECT_THAT(read(file, 2 * kBlockBytes, 100), StatusIs(ErrorCode::kCorrupt));
  EXPECT_EQ(damaged_blocks(fs), 1) << "the same one";
  EXPECT_THAT(same.linear()->write(2 * kBlockBytes, more), IsOk());
  ASSERT_THAT(same.sync(), IsOk());
  EXPECT_THAT(read(file, 0, kFileBytes), IsOk());
  damage(2 * kBlockBytes + 7);
  EXPECT_THAT(file.truncate(2 * kBlockBytes + 5), StatusIs(ErrorCode::kCorrupt));
  EXPECT_EQ(damaged_blocks(fs), 2);
  EXPECT_THAT(file.truncate(2 * kBlockBytes), IsOk());
  EXPECT_THAT(read(file, 0, kFileBytes), IsOk());
}

TEST_F(VerifyMemoryTest, TheEndOfAFileIsVerified) {
  const File file = write_file(fs, "/file");
  ASSERT_THAT(file.truncate(kFileBytes - 1000), IsOk());
  ASSERT_THAT(file.linear()->write(kFileBytes - 1000, std::span(bytes).first(10)), IsOk());
  ASSERT_THAT(file.sync(), IsOk());
  EXPECT_THAT(read(file, 0, kFileBytes - 990), IsOk());
  damage(kFileBytes - 1001);
  EXPECT_THAT(read(file, kFileBytes - 995, 5), StatusIs(ErrorCode::kCorrupt));
}

TEST_F(VerifyMemoryTest, ARelayoutDoesNotCopyDamage) {
  const File file = write_file(fs, "/file");
  ASSERT_THAT(file.sync(), IsOk());
  damage(9 * kBlockBytes);
  EXPECT_THAT(fs.relayout("/file", *layout::parse("stripe(unit=4K, over=2)")), StatusIs(ErrorCode::kCorrupt));
  EXPECT_THAT(read(file, 0, 9 * kBlockBytes), IsOk()) << "the old layout serves";
}

TEST(UnverifiedMemoryTest, NothingIsVerifiedUnlessAskedFor) {
  Cluster cluster({.servers = 1});
  const FileSystem fs = cluster.connect();
  const Bytes bytes = random_bytes(kFileBytes, 3);
  const File file = *fs.create("/file", one_long_stripe());
  ASSERT_THAT(file.linear()->write(0, bytes), IsOk());
  ASSERT_THAT(file.sync(), IsOk());
  std::byte* const data = find_in_memory(std::span(bytes).first(64));
  ASSERT_NE(data, nullptr);
  data[1000] ^= std::byte{1};
  EXPECT_THAT(read(file, 0, kFileBytes), IsOk());
  EXPECT_FALSE(fs.server_status().front().verifies_memory);
  const std::byte* const words = data - share::kDataStart + share::kControlBytes;
  EXPECT_TRUE(std::all_of(words, words + 4096, [](std::byte byte) { return byte == std::byte{0}; }));
}

// ---------------------------------------------------------------- a program with a wild pointer

constexpr const char* kWildRole =
    "WEIR_CLIENT_TEST_WILD";  // the address of the server, and the file's first bytes' seed

net::Key wild_key() { return {net::Bytes(32, std::byte{43}), net::Key::Holder::kServers}; }

/// Reads the file, and then writes a byte of its second block through a pointer.
int be_wild(const std::string& address) {
  const Bytes bytes = random_bytes(kFileBytes, 1);
  auto session = Session::connect({{address}}, wild_key(), {});
  if (!session.is_ok()) return 2;
  const FileSystem fs(*session);
  const auto file = fs.open("/file");
  if (!file.is_ok() || !read(*file, 0, kFileBytes).is_ok()) return 3;
  std::byte* const data = find_in_memory(std::span(bytes).first(64));
  if (data == nullptr) return 4;
  data[kBlockBytes + 10] ^= std::byte{1};
  return 0;
}

/// Before any test: is that program instead, if asked to.
class WildEnvironment : public ::testing::Environment {
 public:
  void SetUp() override {
    if (const char* const address = std::getenv(kWildRole)) std::_Exit(be_wild(address));
  }
};

const auto* const kWildEnvironment = ::testing::AddGlobalTestEnvironment(new WildEnvironment);

TEST(WildProcessTest, WhatItDidIsNoticedByAllOthers) {
  server::Options options;
  options.address = {"tcp:127.0.0.1:0"};
  options.key = wild_key();
  options.capacity_bytes = Offset{1} << 30;
  options.verifies_memory = true;
  const auto server = server::Server::start(options);
  ASSERT_THAT(server, IsOk());
  const std::vector<net::Address> addresses{(*server)->address()};
  ASSERT_THAT((*server)->set_members(addresses), IsOk());
  const auto connect_to = [&](bool direct) {
    ConnectOptions how;
    how.direct = direct;
    return FileSystem(*Session::connect(addresses, wild_key(), how));
  };
  const FileSystem fs = connect_to(true);
  const FileSystem by_message = connect_to(false);
  const File file = *fs.create("/file", one_long_stripe());
  ASSERT_THAT(file.linear()->write(0, random_bytes(kFileBytes, 1)), IsOk());
  ASSERT_THAT(file.close(), IsOk());
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv(kWildRole, addresses[0].text.c_str(), 1);
    ::execl("/proc/self/exe", "client_test", "--gtest_brief=1", nullptr);
    std::_Exit(127);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  ASSERT_EQ(WEXITSTATUS(status), 0);
  EXPECT_THAT(read(file, 0, kFileBytes), StatusIs(ErrorCode::kCorrupt, HasSubstr("bytes 65536 to 131072")));
  EXPECT_THAT(read(*by_message.open("/file"), 0, kFileBytes), StatusIs(ErrorCode::kCorrupt));
  EXPECT_EQ(damaged_blocks(fs), 1);
}

// ---------------------------------------------------------------- no false alarms

/// Several clients that share blocks of a file: byte x is of client x / kPiece % kClients.
class SharedBlocks {
 public:
  static constexpr Offset kPiece = 5000;
  static constexpr std::size_t kClients = 4;

  explicit SharedBlocks(std::uint64_t seed) : cluster_(verified(2)), random_(seed), model_(kFileBytes) {
    for (std::size_t i = 0; i < kClients; ++i) clients_.push_back(connect(cluster_, i != 0));
    (void)*clients_[0].create(kPath, *layout::parse("stripe(unit=48K, over=2)"));
    for (const FileSystem& fs : clients_) files_.push_back(*fs.open(kPath));
    EXPECT_THAT(files_[1].linear()->write(0, model_), IsOk());
  }

  /// All clients at work on their own bytes, and another at `meanwhile`.
  void work(const std::function<void()>& meanwhile) {
    std::vector<std::thread> threads;
    const std::uint64_t seed = random_();
    for (std::size_t i = 0; i < kClients; ++i) threads.emplace_back([this, i, seed] { work_as(i, seed + i); });
    meanwhile();
    for (std::thread& thread : threads) thread.join();
    check_all();
  }

  void change_layout() {
    const std::array layouts{"stripe(unit=48K, over=2)", "stripe(unit=1M, over=2)", "stripe(unit=1000, over=2)",
                             "stripe(unit=64K, over=1)"};
    EXPECT_THAT(clients_[0].relayout(kPath, *layout::parse(layouts[random_() % layouts.size()])), IsOk());
  }

  /// Cuts the file somewhere, and lets it grow again.
  void cut() {
    const auto size = static_cast<Offset>(random_() % to_size(kFileBytes));
    EXPECT_THAT(files_[random_() % kClients].truncate(size), IsOk());
    std::fill(model_.begin() + size, model_.end(), std::byte{0});
    EXPECT_THAT(files_[random_() % kClients].truncate(kFileBytes), IsOk());
    check_all();
  }

  /// That the file is verified after all of that.  With new bytes: memory of its former layouts may still be mapped.
  void expect_damage_is_noticed() {
    model_ = random_bytes(kFileBytes, random_());
    EXPECT_THAT(files_[1].linear()->write(0, model_), IsOk());
    EXPECT_THAT(files_[1].sync(), IsOk());
    std::byte* const data = find_in_memory(std::span(model_).first(64));
    ASSERT_NE(data, nullptr);
    data[kBlockBytes - 1] ^= std::byte{1};
    for (const File& file : files_) EXPECT_THAT(read(file, 0, kFileBytes), StatusIs(ErrorCode::kCorrupt));
  }

  void check_all() {
    for (const File& file : files_) {
      Bytes bytes(model_.size());
      EXPECT_THAT(file.linear()->read(0, bytes), IsOk());
      EXPECT_TRUE(bytes == model_);
    }
    EXPECT_EQ(damaged_blocks(clients_[0]), 0);
  }

 private:
  static constexpr const char* kPath = "/file";

  void work_as(std::size_t client, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    const View view = *files_[client].linear();
    const auto below = [&](Offset most) { return static_cast<Offset>(random() % to_size(most)); };
    for (int i = 0; i < 60; ++i) {
      const Offset pieces = kFileBytes / kPiece / static_cast<Offset>(kClients);
      const Offset piece = (below(pieces) * static_cast<Offset>(kClients) + static_cast<Offset>(client)) * kPiece;
      const Offset from = piece + below(kPiece);
      const auto mine = std::span(model_).subspan(to_size(from), to_size(1 + below(piece + kPiece - from)));
      switch (below(8)) {
        case 0: EXPECT_THAT(files_[client].sync(), IsOk()); break;
        case 1: EXPECT_THAT(files_[client].close(), IsOk()); break;
        case 2: {  // its own bytes and those of others
          Bytes all(model_.size());
          EXPECT_THAT(view.read(0, all), IsOk());
          EXPECT_TRUE(std::equal(mine.begin(), mine.end(), all.begin() + from));
          break;
        }
        case 3:
        case 4: {
          Bytes bytes(mine.size());
          EXPECT_THAT(view.read(from, bytes), IsOk());
          EXPECT_TRUE(std::equal(mine.begin(), mine.end(), bytes.begin()));
          break;
        }
        default:
          std::generate(mine.begin(), mine.end(), [&] { return static_cast<std::byte>(random()); });
          EXPECT_THAT(view.write(from, mine), IsOk());
      }
    }
  }

  Cluster cluster_;
  std::mt19937_64 random_;
  Bytes model_;
  std::vector<FileSystem> clients_;
  std::vector<File> files_;
};

TEST(VerifiedAccessTest, ClientsThatShareBlocksNeverLookLikeDamage) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(concat("seed ", seed));
  SharedBlocks file(seed);
  for (int round = 0; round < 4 && !::testing::Test::HasFailure(); ++round) {
    file.work([] {});
    file.cut();
    file.work([&] { file.change_layout(); });
  }
  file.expect_damage_is_noticed();
}

// Truncation while others write has no defined bytes, but is no damage either.
TEST(VerifiedAccessTest, FilesThatAreCutWhileTheyAreUsedAreNotDamaged) {
  const Cluster cluster(verified(1));
  const FileSystem fs = cluster.connect();
  const File file = *fs.create("/file", one_long_stripe());
  const Bytes bytes = random_bytes(kFileBytes, 5);
  std::atomic<bool> is_over{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      const FileSystem own = connect(cluster, i != 2);
      const File same = *own.open("/file");
      const View view = *same.linear();
      Bytes memory(300'000);
      std::mt19937_64 random(static_cast<std::uint64_t>(i));
      for (int turn = 0; turn < 150; ++turn) {
        const auto at = static_cast<Offset>(random() % to_size(kFileBytes - 300'000));
        const std::size_t count = 1 + random() % 300'000;
        EXPECT_THAT(view.write(at, std::span(bytes).first(count)), IsOk());
        EXPECT_THAT(view.read(at, memory), IsOk());
        if (turn % 5 == 0) {
          EXPECT_THAT(same.sync(), IsOk());
        }
      }
      is_over = true;
    });
  }
  for (std::mt19937_64 random(9); !is_over;) {
    EXPECT_THAT(file.truncate(static_cast<Offset>(random() % to_size(kFileBytes))), IsOk());
    EXPECT_THAT(file.sync(), IsOk());
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(damaged_blocks(fs), 0);
}

}  // namespace
}  // namespace weir::client
