#include <weir/storage/memory_store.h>

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/storage/blocking.h>
#include <weir/storage/internal/memory_subfile.h>
#include <weir/storage/internal/store_conformance.h>

namespace weir::storage::internal {
namespace {

using share::Control;
using share::is_made;
using share::kDataStart;
using share::raise;
using share::SharedMemory;
using share::test_bit;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::Eq;
using ::testing::HasSubstr;
using ::weir::testing::IsOk;
using ::weir::testing::IsOkAndHolds;
using ::weir::testing::StatusIs;

constexpr Offset kKib = 1024;
constexpr Offset kMib = 1024 * kKib;
constexpr SubfileId kMemoryId{1, 0};

class MemoryHome final : public StoreHome {
 public:
  explicit MemoryHome(int pool_regions) : pool_regions_(pool_regions) {}
  Result<std::unique_ptr<Store>> open(Offset capacity_bytes) override {
    return make_memory_store({.capacity_bytes = capacity_bytes, .pool_regions = pool_regions_});
  }

 private:
  int pool_regions_;
};

StoreCase memory_case(const char* name, int pool_regions) {
  return {.name = name, .make_home = [pool_regions] { return std::make_unique<MemoryHome>(pool_regions); }};
}

INSTANTIATE_TEST_SUITE_P(Memory, StoreConformance, ::testing::Values(memory_case("pooled", 2), memory_case("plain", 0)),
                         StoreCaseName{});

std::vector<std::byte> bytes_of(Offset count, int value) {
  return std::vector<std::byte>(static_cast<std::size_t>(count), static_cast<std::byte>(value));
}

Offset open_descriptors() {
  DIR* directory = opendir("/proc/self/fd");
  Offset count = 0;
  while (readdir(directory) != nullptr) ++count;
  closedir(directory);
  return count;
}

/// Room that the system really has taken for an anonymous file.
Offset real_bytes(int descriptor) {
  struct stat now {};
  EXPECT_EQ(fstat(descriptor, &now), 0);
  return Offset{now.st_blocks} * 512;
}

/// Exactly what the system has taken, but that not every page of Control need exist.
MATCHER_P(IsRoomOf, descriptor, "") {
  const Offset real = real_bytes(descriptor);
  *result_listener << "really " << real;
  return real <= arg && arg - real < kControlRoom;
}

/// What a client does with shared memory.
class Peer {
 public:
  explicit Peer(const SharedMemory& memory, int protection = PROT_READ | PROT_WRITE)
      : descriptor_(dup(memory.descriptor)), bytes_(static_cast<std::size_t>(kDataStart + memory.mapped_bytes)) {
    base_ = mmap(nullptr, bytes_, protection, MAP_SHARED, descriptor_, 0);
  }
  ~Peer() {
    if (is_mapped()) munmap(base_, bytes_);
    close(descriptor_);
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  [[nodiscard]] bool is_mapped() const { return base_ != MAP_FAILED; }
  [[nodiscard]] int descriptor() const { return descriptor_; }
  [[nodiscard]] Control& control() const { return *static_cast<Control*>(base_); }
  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(base_) + kDataStart; }

 private:
  int descriptor_;
  std::size_t bytes_;
  void* base_;
};

class MemoryStoreTest : public ::testing::Test {
 protected:
  void SetUp() override { make({.capacity_bytes = 64 * kMib, .pool_regions = 0}); }
  void make(const MemoryStoreOptions& options) {
    auto made = make_memory_store(options);
    ASSERT_THAT(made.status(), IsOk());
    store_ = std::move(*made);
  }
  Status write(Offset offset, Offset count, int value, SubfileId id = kMemoryId) {
    const std::vector<std::byte> bytes = bytes_of(count, value);
    const std::array pieces{WritePiece{offset, bytes}};
    return Blocking(*store_).write(id, pieces, 0);
  }
  std::vector<std::byte> read(Offset offset, Offset count, SubfileId id = kMemoryId) {
    std::vector<std::byte> bytes = bytes_of(count, 0xAA);
    const std::array pieces{ReadPiece{offset, bytes}};
    EXPECT_THAT(Blocking(*store_).read(id, pieces), IsOk());
    return bytes;
  }
  SharedMemory share(SubfileId id = kMemoryId, bool for_writing = true, Peers peers = Peers::kOwn) {
    const auto shared = store_->share(id, for_writing, 0, peers);
    EXPECT_THAT(shared.status(), IsOk());
    EXPECT_TRUE(shared.is_ok() && *shared);
    return **shared;
  }
  std::unique_ptr<Store> store_;
};

TEST_F(MemoryStoreTest, SmallSubfilesTakeNoDescriptorAndLittleRoom) {
  // What files are made in has a descriptor, too.
  (void)share();
  ASSERT_THAT(Blocking(*store_).remove(kMemoryId), IsOk());
  const Offset before = open_descriptors();
  for (std::uint64_t i = 0; i < 1000; ++i) ASSERT_THAT(write(0, 100, 1, {i, 0}), IsOk());
  EXPECT_EQ(open_descriptors(), before);
  EXPECT_EQ(Blocking(*store_).usage()->used_bytes, 100 * 1000);
  ASSERT_THAT(write(0, 64 * kKib, 1), IsOk());
  EXPECT_EQ(open_descriptors(), before);
  ASSERT_THAT(write(64 * kKib, 1, 1), IsOk());
  EXPECT_EQ(open_descriptors(), before + 1);
  ASSERT_THAT(Blocking(*store_).remove(kMemoryId), IsOk());
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(MemoryStoreTest, APeerSeesWhatWasWrittenAndTheStoreWhatAPeerWrites) {
  ASSERT_THAT(write(10, 1000, 7), IsOk());  // moves out of the heap when shared
  ASSERT_THAT(Blocking(*store_).reserve(kMemoryId, 0, 2 * kMib), IsOk());
  const Peer peer{share()};
  ASSERT_TRUE(peer.is_mapped());
  EXPECT_EQ(peer.control().state, Control::kServing);
  EXPECT_GE(peer.control().mapped_bytes, 2 * kMib);
  EXPECT_EQ(peer.control().length, 1010);
  EXPECT_EQ(peer.data()[10], std::byte{7});
  EXPECT_TRUE(test_bit(peer.control().full, 1));
  EXPECT_TRUE(test_bit(peer.control().touched, 1));  // full: may be read as well
  EXPECT_FALSE(test_bit(peer.control().full, 2));

  peer.data()[2 * kMib - 1] = std::byte{9};
  raise(peer.control().length, 2 * kMib);
  raise(peer.control().file_end, 123456);
  EXPECT_EQ(Blocking(*store_).info(kMemoryId)->length, 2 * kMib);
  EXPECT_EQ(Blocking(*store_).info(kMemoryId)->file_end, 123456);
  EXPECT_EQ(read(2 * kMib - 1, 1)[0], std::byte{9});
}

TEST_F(MemoryStoreTest, SharedMemoryGrowsUnderItsPeers) {
  const Peer before{share()};
  ASSERT_THAT(write(5 * kMib, 100, 3), IsOk());
  EXPECT_GT(before.control().mapped_bytes, 5 * kMib);  // tells the peer to map it again
  const Peer after{{before.descriptor(), before.control().mapped_bytes}};
  EXPECT_EQ(after.data()[5 * kMib + 99], std::byte{3});
  EXPECT_TRUE(test_bit(after.control().touched, 5));
  EXPECT_FALSE(test_bit(after.control().full, 5));
  EXPECT_FALSE(test_bit(after.control().touched, 4));
}

TEST_F(MemoryStoreTest, TruncateTakesPagesAndBitsAway) {
  ASSERT_THAT(write(0, 4 * kMib, 3), IsOk());
  const Peer peer{share()};
  const Offset before = real_bytes(peer.descriptor());
  ASSERT_THAT(Blocking(*store_).truncate(kMemoryId, kMib + 10, 5), IsOk());
  EXPECT_LE(real_bytes(peer.descriptor()), before - 3 * kMib + kPageBytes);
  EXPECT_TRUE(test_bit(peer.control().full, 0));
  EXPECT_TRUE(test_bit(peer.control().touched, 1));
  for (const Offset chunk : {1, 2, 3}) EXPECT_FALSE(test_bit(peer.control().full, chunk)) << chunk;
  for (const Offset chunk : {2, 3}) EXPECT_FALSE(test_bit(peer.control().touched, chunk)) << chunk;
  EXPECT_EQ(peer.control().length, kMib + 10);
  EXPECT_EQ(peer.control().file_end, 5);
  EXPECT_EQ(peer.data()[kMib + 9], std::byte{3});
  EXPECT_EQ(peer.data()[kMib + 10], std::byte{0});
}

TEST_F(MemoryStoreTest, APeerOfAnotherUserGetsOnlySealedMemoryForWriting) {
  ASSERT_THAT(write(0, 100 * kKib, 3), IsOk());  // memory for this user, since nobody has asked for it
  const auto shared = store_->share(kMemoryId, true, 0, Peers::kOthers);
  ASSERT_THAT(shared, IsOk());
  const int seals = fcntl(share().descriptor, F_GET_SEALS);
  EXPECT_EQ(shared->has_value(), (seals & F_SEAL_SHRINK) != 0);
  const Peer reader{share(kMemoryId, false, Peers::kOthers), PROT_READ};
  ASSERT_TRUE(reader.is_mapped());
  EXPECT_EQ(reader.data()[99], std::byte{3});
  EXPECT_NE(ftruncate(reader.descriptor(), 10), 0);
}

TEST_F(MemoryStoreTest, RoomThatIsTakenHasNoPagesBeforeSomebodyWrites) {
  ASSERT_THAT(Blocking(*store_).truncate(kMemoryId, 32 * kMib, 0), IsOk());
  for (Offset at = 0; at < 32 * kMib; at += 4 * kMib) {
    ASSERT_THAT(write(at, 100, 1), IsOk());
    ASSERT_THAT(Blocking(*store_).reserve(kMemoryId, at + kMib, at + 2 * kMib), IsOk());
  }
  EXPECT_EQ(Blocking(*store_).usage()->used_bytes, 8 * (kMib + kPageBytes) + kControlRoom);
  EXPECT_LE(Blocking(*store_).info(kMemoryId)->stored_bytes, 8 * kPageBytes + kControlRoom);
  EXPECT_GE(Blocking(*store_).info(kMemoryId)->stored_bytes, 8 * kPageBytes);
  EXPECT_THAT(read(0, 4 * kMib), Contains(std::byte{1}).Times(100));
}

TEST_F(MemoryStoreTest, LongRangesTakeTheRoomThatTheyHaveWhateverTheirPages) {
  ASSERT_THAT(write(0, 16 * kMib, 3), IsOk());
  EXPECT_THAT(Blocking(*store_).info(kMemoryId)->stored_bytes, IsRoomOf(share().descriptor));
  EXPECT_THAT(read(0, 16 * kMib), Each(std::byte{3}));
}

TEST_F(MemoryStoreTest, APeerOfAnotherUserCannotShrinkOrSealTheMemory) {
  const Peer peer{share(kMemoryId, true, Peers::kOthers)};
  EXPECT_NE(ftruncate(peer.descriptor(), 10), 0);
  EXPECT_EQ(errno, EPERM);
  EXPECT_NE(fcntl(peer.descriptor(), F_ADD_SEALS, F_SEAL_GROW), 0);
  // Nor stop it from growing by making it longer than it should be.
  ASSERT_EQ(ftruncate(peer.descriptor(), 100 * kMib), 0);
  EXPECT_THAT(write(3 * kMib, 100, 3), IsOk());
  EXPECT_THAT(read(3 * kMib, 100), Each(std::byte{3}));
}

TEST_F(MemoryStoreTest, AReaderCannotWrite) {
  ASSERT_THAT(write(0, 100, 3), IsOk());
  const SharedMemory memory = share(kMemoryId, false);
  EXPECT_FALSE(Peer(memory).is_mapped());
  const Peer reader{memory, PROT_READ};
  ASSERT_TRUE(reader.is_mapped());
  EXPECT_EQ(reader.data()[99], std::byte{3});
}

class VerifiedMemoryTest : public MemoryStoreTest {
 protected:
  void SetUp() override { make({.capacity_bytes = 64 * kMib, .pool_regions = 0, .verifies = true}); }
  Status status_of_read(Offset offset, Offset count) {
    std::vector<std::byte> bytes = bytes_of(count, 0);
    const std::array pieces{ReadPiece{offset, bytes}};
    return Blocking(*store_).read(kMemoryId, pieces);
  }
};

TEST_F(VerifiedMemoryTest, WhatAPeerChangesWithoutDeclaringItIsNotRead) {
  ASSERT_THAT(write(0, kMib + 100, 7), IsOk());
  const Peer peer{share()};  // seals all of it
  EXPECT_THAT(status_of_read(0, kMib + 100), IsOk());
  peer.data()[kMib + 50] = std::byte{9};
  const auto is_told = StatusIs(ErrorCode::kCorrupt,
                                AllOf(HasSubstr("subfile 1.0: bytes 1048576 to 1114112"), HasSubstr("wild pointer")));
  EXPECT_THAT(status_of_read(kMib, 1), is_told);
  EXPECT_THAT(store_->map(kMemoryId, 0, kMib + 1, false), is_told);
  EXPECT_THAT(store_->begin_write(kMemoryId, kMib, kMib + 10, true), is_told);
  EXPECT_THAT(write(kMib + 60, 10, 1), is_told);
  EXPECT_THAT(Blocking(*store_).truncate(kMemoryId, kMib + 60, 0), is_told);
  EXPECT_THAT(status_of_read(0, kMib), IsOk());
  EXPECT_EQ(store_->damaged_blocks(), 1U);
  ASSERT_THAT(write(kMib, 64 * kKib, 1), IsOk()) << "the whole block";
  ASSERT_THAT(Blocking(*store_).sync(kMemoryId), IsOk());
  EXPECT_THAT(status_of_read(0, 2 * kMib), IsOk());
}

TEST_F(VerifiedMemoryTest, MemoryThatIsWrittenThroughAMapIsSealedWhenThatIsOver) {
  const Peer peer{share()};
  ASSERT_THAT(store_->map(kMemoryId, 0, kMib, true), IsOk());
  const Peer all{share()};
  ASSERT_THAT(store_->begin_write(kMemoryId, 0, kMib, true), IsOk());
  std::memset(all.data(), 1, static_cast<std::size_t>(kMib));
  ASSERT_THAT(Blocking(*store_).sync(kMemoryId), IsOk());
  all.data()[5] = std::byte{2};
  EXPECT_THAT(status_of_read(0, kMib), IsOk()) << "still being written";
  store_->note_written(kMemoryId, kMib, kMib);
  ASSERT_THAT(Blocking(*store_).sync(kMemoryId), IsOk());
  all.data()[5] = std::byte{3};
  EXPECT_THAT(status_of_read(0, kMib), StatusIs(ErrorCode::kCorrupt));
}

TEST_F(VerifiedMemoryTest, SparseSubfilesStaySparse) {
  const Peer peer{share()};
  for (Offset at = 0; at < 8 * kMib; at += 128 * kKib) ASSERT_THAT(write(at, 100, 1), IsOk());
  const Offset before = real_bytes(peer.descriptor());
  ASSERT_THAT(Blocking(*store_).sync(kMemoryId), IsOk());
  EXPECT_LE(real_bytes(peer.descriptor()), before + 64 * kKib + kPageBytes);
}

TEST_F(MemoryStoreTest, NonsenseFromAPeerHurtsNobodyElse) {
  ASSERT_THAT(write(0, 3 * kMib, 3), IsOk());
  ASSERT_THAT(write(0, 200 * kKib, 4, {2, 0}), IsOk());
  const Offset used = Blocking(*store_).usage()->used_bytes;
  const Peer peer{share()};
  for (const int nonsense : {0xFF, 0x7F, 0x00}) {
    std::memset(static_cast<void*>(&peer.control()), nonsense, sizeof(Control));
    const SubfileInfo info = *Blocking(*store_).info(kMemoryId);
    EXPECT_GE(info.length, 3 * kMib);
    EXPECT_LE(info.length, 64 * kMib);
    EXPECT_GE(info.file_end, 0);
    EXPECT_LE(info.file_end, kMaxBytes);
    EXPECT_THAT(read(3 * kMib - 10, 10), Each(std::byte{3}));
    EXPECT_THAT(write(0, 3 * kMib, 3), IsOk());
    EXPECT_EQ(Blocking(*store_).usage()->used_bytes, used);
  }
  ASSERT_THAT(Blocking(*store_).truncate(kMemoryId, 0, 0), IsOk());
  ASSERT_THAT(write(6 * kMib, 10, 5), IsOk());
  EXPECT_THAT(read(6 * kMib, 10), Each(std::byte{5}));
  EXPECT_EQ(Blocking(*store_).info(kMemoryId)->length, 6 * kMib + 10);
  EXPECT_THAT(read(0, 200 * kKib, {2, 0}), Each(std::byte{4}));
}

TEST_F(MemoryStoreTest, PeersThatStillMapRemovedMemorySeeThatItIsGone) {
  ASSERT_THAT(write(0, 100, 3), IsOk());
  const Peer peer{share()};
  ASSERT_THAT(Blocking(*store_).remove(kMemoryId), IsOk());
  EXPECT_EQ(peer.control().state, Control::kGone);
  EXPECT_EQ(peer.data()[50], std::byte{3});  // a read under way is not disturbed
  const Peer next{share()};
  EXPECT_EQ(next.control().state, Control::kServing);
  EXPECT_EQ(next.control().length, 0);
}

TEST_F(MemoryStoreTest, CountsWhatTheSystemTakes) {
  std::mt19937_64 random{1};
  for (int i = 0; i < 100; ++i) ASSERT_THAT(write(static_cast<Offset>(random() % (40 * kMib)), 5000, 1), IsOk());
  // Reading holes takes nothing.
  read(0, 40 * kMib);
  EXPECT_THAT(store_->map(kMemoryId, 0, 40 * kMib, false), IsOkAndHolds(Eq(std::nullopt)));
  const Offset stored = Blocking(*store_).info(kMemoryId)->stored_bytes;
  EXPECT_GE(Blocking(*store_).usage()->used_bytes, stored);
  EXPECT_LT(Blocking(*store_).usage()->used_bytes, stored + kControlRoom);
  EXPECT_THAT(stored, IsRoomOf(share().descriptor));
  ASSERT_THAT(Blocking(*store_).truncate(kMemoryId, 11 * kMib, 0), IsOk());
  EXPECT_LT(Blocking(*store_).info(kMemoryId)->stored_bytes, stored / 2);
  EXPECT_THAT(Blocking(*store_).info(kMemoryId)->stored_bytes, IsRoomOf(share().descriptor));
}

TEST_F(MemoryStoreTest, WithoutDescriptorsItWorksButDoesNotShare) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few = before;
  few.rlim_cur = static_cast<rlim_t>(4 * open_descriptors() + 16);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  std::uint64_t shared = 0;
  while (shared < few.rlim_cur && store_->share({100 + shared, 0}, true, 0, Peers::kOwn).value().has_value()) ++shared;
  EXPECT_GT(shared, few.rlim_cur / 2);
  EXPECT_LT(shared, few.rlim_cur - 2);  // some are left for files and connections
  EXPECT_THAT(write(kMib, 3 * kMib, 6), IsOk());
  EXPECT_THAT(Blocking(*store_).reserve(kMemoryId, 0, 6 * kMib), IsOk());
  EXPECT_THAT(Blocking(*store_).truncate(kMemoryId, 2 * kMib, 0), IsOk());
  EXPECT_THAT(store_->share(kMemoryId, true, 0, Peers::kOwn), IsOkAndHolds(Eq(std::nullopt)));
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_THAT(read(kMib, kMib), Each(std::byte{6}));
  EXPECT_THAT(read(2 * kMib, 3 * kMib), Each(std::byte{0}));
}

TEST_F(MemoryStoreTest, NoSpaceNamesAllThatMatters) {
  make({.capacity_bytes = kMib, .pool_regions = 0});
  ASSERT_THAT(write(0, 1000, 1), IsOk());
  const Status status = write(0, 2 * kMib, 1);
  EXPECT_THAT(status, StatusIs(ErrorCode::kNoSpace, HasSubstr("write of subfile 1.0")));
  EXPECT_THAT(status.message(), HasSubstr("free of 1048576; raise --capacity"));
  EXPECT_THAT(read(0, 1000), Each(std::byte{1}));
  // Where there is no room for all, plans do not get memory.
  EXPECT_THAT(store_->map(kMemoryId, 0, 2 * kMib, true), IsOkAndHolds(Eq(std::nullopt)));
}

TEST(MemoryStoreOptionsTest, NonsenseIsRefused) {
  EXPECT_THAT(make_memory_store({.capacity_bytes = -1}).status(), StatusIs(ErrorCode::kInvalidArgument));
  EXPECT_THAT(make_memory_store({.pool_regions = -1}).status(), StatusIs(ErrorCode::kInvalidArgument));
  EXPECT_THAT(make_memory_store({.pool_region_bytes = kMaxBytes}).status(), StatusIs(ErrorCode::kInvalidArgument));
  EXPECT_GT(Blocking(**make_memory_store({})).usage()->capacity_bytes, 0);
}

TEST(MemoryPoolTest, KeepsRegionsReadyWithinItsLimit) {
  Pool pool{{.regions = 3, .region_bytes = 2 * kMib}};
  pool.start();
  EXPECT_EQ(pool.take(kMib), nullptr);  // nothing was allowed yet
  pool.keep_at_most(5 * kMib);
  pool.wait_until_idle();
  EXPECT_EQ(pool.take(kMib), nullptr) << "too large";
  const std::unique_ptr<Region> first = pool.take(2 * kMib);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->mapped_bytes(), 2 * kMib);
  EXPECT_GE(real_bytes(first->descriptor()), 2 * kMib);
  pool.wait_until_idle();  // makes up for it
  const Offset descriptors = open_descriptors();
  pool.keep_at_most(kMib);
  EXPECT_EQ(open_descriptors(), descriptors - 2);
  EXPECT_EQ(pool.take(kMib), nullptr);
}

TEST(MemoryStoreOptionsTest, PoolsTakeNoMoreThanTheyMay) {
  EXPECT_EQ(pool_regions_for(164 * kMib, kMib), 2);
  EXPECT_EQ(pool_regions_for(63 * kMib - 1, kMib), 0);
  EXPECT_EQ(pool_regions_for(0, kMib), 0);
  EXPECT_EQ(pool_regions_for(kMib, 0), 0);
}

TEST(MemorySubfileTest, HolesTakeNoMemoryThatIsReady) {
  internal::MemorySource source{internal::Room(1024 * kMib), Pool{{.regions = 1, .region_bytes = kMib}}};
  source.pool.start();
  source.note_room();
  source.pool.wait_until_idle();
  const std::vector<std::byte> bytes(static_cast<std::size_t>(kMib), std::byte{1});
  internal::MemorySubfile sparse(source);
  ASSERT_THAT(sparse.write(15 * kMib, bytes), IsOk());
  EXPECT_LE(sparse.info().stored_bytes, 4 * kMib);
  EXPECT_LE(source.room.used_bytes(), 4 * kMib);
  // The same length without a hole: the region was there, and still is.
  internal::MemorySubfile dense(source);
  ASSERT_THAT(dense.reserve(0, 16 * kMib), IsOk());
  EXPECT_GE(dense.info().stored_bytes, 16 * kMib);
}

TEST(MemoryPoolTest, GivesTheSizeThatSuits) {
  Pool pool{{.regions = 1, .region_bytes = kMib}};
  pool.start();
  pool.keep_at_most(64 * kMib);
  const auto take = [&pool](Offset bytes) {
    pool.wait_until_idle();
    return pool.take(bytes)->mapped_bytes();
  };
  EXPECT_EQ(take(kMib - 1), kMib);
  EXPECT_EQ(pool.take(kMib / 2), nullptr) << "small files take no whole chunk";
  EXPECT_EQ(take(kMib), kMib);
  EXPECT_EQ(take(4 * kMib - 1), 4 * kMib);
  EXPECT_EQ(take(15 * kMib), 8 * kMib);  // the rest is made when it is written
  EXPECT_EQ(take(100 * kMib), 32 * kMib);
  pool.wait_until_idle();
  const auto large = pool.take(5 * kMib);
  const auto medium = pool.take(5 * kMib);
  const auto small = pool.take(5 * kMib);
  EXPECT_EQ(small->mapped_bytes(), kMib);
  EXPECT_EQ(pool.take(5 * kMib), nullptr);  // what is left is more than a file of that length should take
}

TEST(MemoryPoolTest, SubfilesTakeNoMoreMemoryThanTheyHaveBytes) {
  MemorySource source{Room{256 * kMib}, Pool{{.regions = 2, .region_bytes = kMib}}};
  source.pool.start();
  source.pool.keep_at_most(64 * kMib);
  source.pool.wait_until_idle();
  MemorySubfile large{source};
  ASSERT_THAT(large.write(5, bytes_of(5 * kMib, 2)), IsOk());
  EXPECT_LE(large.info().stored_bytes, 6 * kMib + kControlRoom);
  EXPECT_EQ(large.info().length, 5 * kMib + 5);

  for (Offset at = 5 * kMib; at < 40 * kMib; at += kMib) ASSERT_THAT(large.write(at, bytes_of(kMib, 2)), IsOk());
  EXPECT_LE(large.info().stored_bytes, 42 * kMib + kControlRoom);
  EXPECT_GT(source.room.used_bytes(), 41 * kMib) << "those that grow take room ahead";
  EXPECT_LT(source.room.used_bytes(), 56 * kMib);
  ASSERT_THAT(large.truncate(39 * kMib, 0), IsOk());
  EXPECT_EQ(source.room.used_bytes(), 39 * kMib + kControlRoom);
  EXPECT_THAT(large.info().stored_bytes, IsRoomOf((*large.shared_region(0, Peers::kOwn))->descriptor()));
}

TEST(MemoryPoolTest, SubfilesThatAreNotCutKeepTheirRoom) {
  MemorySource source{Room{256 * kMib}, Pool{{.regions = 1, .region_bytes = kMib}}};
  MemorySubfile subfile{source};
  ASSERT_THAT(subfile.write(0, bytes_of(5 * kMib, 2)), IsOk());
  const Offset used = source.room.used_bytes();
  ASSERT_THAT(subfile.truncate(5 * kMib, 5 * kMib), IsOk());
  EXPECT_EQ(source.room.used_bytes(), used);
  ASSERT_THAT(subfile.truncate(6 * kMib, 6 * kMib), IsOk());
  EXPECT_EQ(source.room.used_bytes(), used);
  ASSERT_THAT(subfile.truncate(kMib, kMib), IsOk());
  EXPECT_EQ(source.room.used_bytes(), kMib + kControlRoom);
}

TEST(MemoryPoolTest, SharedSubfilesBeginWithMemoryThatIsReady) {
  MemorySource source{Room{256 * kMib}, Pool{{.regions = 1, .region_bytes = kMib}}};
  source.pool.start();
  source.pool.keep_at_most(64 * kMib);
  source.pool.wait_until_idle();
  MemorySubfile first{source};
  ASSERT_THAT(first.shared_region(12 * kMib, Peers::kOwn), IsOk());
  const Control& control = (**first.shared_region(0, Peers::kOwn)).control();
  for (Offset chunk = 0; chunk < 12; ++chunk) {
    EXPECT_EQ(test_bit(control.full, chunk), chunk < 8) << chunk;
    EXPECT_EQ(is_made(control, chunk), chunk < 8) << chunk;
  }
  EXPECT_EQ(first.info().length, 0);
  EXPECT_EQ(source.room.used_bytes(), 8 * kMib + kControlRoom);
}

TEST(MemoryPoolTest, SubfilesComeAndGoWhileItWorks) {
  MemorySource source{Room{64 * kMib}, Pool{{.regions = 3, .region_bytes = kMib}}};
  for (int i = 0; i < 40; ++i) {
    MemorySubfile subfile{source};
    const Offset bytes = (1 + i % 9) * kMib;
    for (Offset at = 0; at < bytes; at += kMib) ASSERT_THAT(subfile.write(at, bytes_of(kMib, i + 1)), IsOk());
    const Offset kept = i % 3 == 0 ? bytes / 2 : bytes;
    ASSERT_THAT(subfile.truncate(kept, 0), IsOk());
    std::vector<std::byte> seen = bytes_of(bytes, 0xAA);
    subfile.read(0, seen);
    ASSERT_EQ(std::ranges::count(seen, static_cast<std::byte>(i + 1)), kept);
  }
  EXPECT_EQ(source.room.used_bytes(), 0);
}

}  // namespace
}  // namespace weir::storage::internal
