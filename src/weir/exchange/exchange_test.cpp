// Streams between all pairs of ranks, of any lengths: by message, through shared memory, direct or packed.

#include <weir/exchange/exchange.h>

#include <chrono>
#include <cstring>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/base/text.h>

namespace weir::exchange {
namespace {

using Group = mpi::Communicator;
using weir::testing::IsOk;
using weir::testing::StatusIs;

constexpr Offset kLeastDirect = 64;  // shorter ranges are packed, so that some segments of a stream are and others not

std::byte content(int from, int to, Offset at) {
  return static_cast<std::byte>(
      (static_cast<std::uint64_t>(at) * 0x9E3779B97F4A7C15u + static_cast<std::uint64_t>(from * 131 + to)) >> 33);
}

struct Case {
  Offset messages = 1;
  Offset bytes_per_stream = 0;
  bool is_shared = false;
  bool is_placed = false;       // ends have places for long ranges
  std::vector<Offset> lengths;  // from * ranks + to
};

// Memory of one rank, and streams on it.
class Mesh {
 public:
  Mesh(Group& group, const Case& the_case) : group_(group), case_(the_case) {
    for (int peer = 0; peer < group.size(); ++peer) {
      outgoing_.push_back(filled(group.rank(), peer));
      incoming_.emplace_back(outgoing(peer, group.rank()));
    }
  }

  [[nodiscard]] Streams streams() {
    Streams streams;
    for (int peer = 0; peer < group_.size(); ++peer) {
      if (peer == group_.rank()) continue;
      if (length(group_.rank(), peer) > 0) streams.sends.push_back(stream(peer, true));
      if (length(peer, group_.rank()) > 0) streams.receives.push_back(stream(peer, false));
    }
    streams.local = {7, [this](Offset portion) { EXPECT_EQ(portion, portions_run_++); }};
    return streams;
  }

  void expect_received(Offset portions) {
    for (int peer = 0; peer < group_.size(); ++peer) {
      if (peer == group_.rank()) continue;
      EXPECT_EQ(incoming_[static_cast<std::size_t>(peer)], filled(peer, group_.rank())) << "from rank " << peer;
      std::fill(incoming_[static_cast<std::size_t>(peer)].begin(), incoming_[static_cast<std::size_t>(peer)].end(),
                std::byte{0});
    }
    EXPECT_EQ(std::exchange(portions_run_, 0), portions);
  }

 private:
  [[nodiscard]] Offset length(int from, int to) const {
    return case_.lengths[static_cast<std::size_t>(from * group_.size() + to)];
  }
  [[nodiscard]] std::size_t outgoing(int from, int to) const {
    return static_cast<std::size_t>(length(from, to) * case_.messages);
  }
  [[nodiscard]] std::vector<std::byte> filled(int from, int to) const {
    std::vector<std::byte> bytes(outgoing(from, to));
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = content(from, to, static_cast<Offset>(i));
    return bytes;
  }

  Stream stream(int peer, bool is_send) {
    std::byte* const memory = (is_send ? outgoing_ : incoming_)[static_cast<std::size_t>(peer)].data();
    Stream stream;
    stream.peer = peer;
    stream.bytes = is_send ? length(group_.rank(), peer) : length(peer, group_.rank());
    if (case_.is_placed) {
      stream.place = [memory](Range range) {
        return range.to - range.from >= kLeastDirect ? memory + range.from : nullptr;
      };
    }
    if (is_send) {
      stream.pack = [memory](Range range, std::byte* buffer) {
        std::memcpy(buffer, memory + range.from, static_cast<std::size_t>(range.to - range.from));
      };
    } else {
      stream.unpack = [memory](Range range, const std::byte* buffer) {
        std::memcpy(memory + range.from, buffer, static_cast<std::size_t>(range.to - range.from));
      };
    }
    return stream;
  }

  Group& group_;
  const Case& case_;
  std::vector<std::vector<std::byte>> outgoing_;
  std::vector<std::vector<std::byte>> incoming_;
  Offset portions_run_ = 0;
};

Status run_to_end(Exchange& exchange, Offset messages, bool may_block) {
  WEIR_RETURN_IF_ERROR(exchange.reserve(messages));
  WEIR_RETURN_IF_ERROR(exchange.begin(messages));
  for (;;) {
    WEIR_TRY(const bool is_done, exchange.advance(may_block));
    if (is_done) return Status::ok();
  }
}

TEST(ExchangeTest, MovesStreamsOfAnyLengthsInAnyWay) {
  Group group = Group::duplicate(MPI_COMM_WORLD, "test").value();
  BufferPool pool(std::size_t{1} << 20);
  std::mt19937 random(11);  // the same on all ranks
  for (int trial = 0; trial < 60; ++trial) {
    Case some;
    some.messages = 1 + static_cast<Offset>(random() % 4);
    some.bytes_per_stream = random() % 2 == 0 ? 0 : 1 + static_cast<Offset>(random() % 3000);
    some.is_shared = random() % 2 == 0;
    some.is_placed = random() % 2 == 0;
    for (int i = 0; i < group.size() * group.size(); ++i) {
      some.lengths.push_back(random() % 5 == 0 ? 0 : static_cast<Offset>(random() % 20000));
    }
    SCOPED_TRACE(concat("trial ", trial, ", rank ", group.rank()));
    Mesh mesh(group, some);
    Exchange exchange(group, "test", pool, mesh.streams(), pace_of(some.bytes_per_stream));
    if (some.is_shared) {
      ASSERT_THAT(exchange.share_memory({.is_on = true, .host = "one"}), IsOk());
      for (std::size_t i = 0; i < exchange.streams().sends.size(); ++i) EXPECT_TRUE(exchange.is_shared(i, true));
    }
    for (int repeat = 0; repeat < 3; ++repeat) {
      ASSERT_THAT(run_to_end(exchange, some.messages, repeat != 1), IsOk());
      mesh.expect_received(7 * some.messages);
      if (repeat == 0) exchange.release();  // the next takes buffers again
    }
    ASSERT_FALSE(exchange.is_active());
    std::array<std::uint64_t, 1> failed{HasFailure() ? 1U : 0U};
    ASSERT_THAT(group.greatest("test", failed), IsOk());
    ASSERT_EQ(failed[0], 0U) << "on some rank";
  }
}

TEST(ExchangeTest, BuffersComeFromThePool) {
  Group group = Group::duplicate(MPI_COMM_WORLD, "test").value();
  if (group.size() == 1) GTEST_SKIP() << "needs two ranks";
  BufferPool pool(std::size_t{64} << 20);
  Case some;
  some.lengths.assign(static_cast<std::size_t>(group.size() * group.size()), 100000);
  Mesh mesh(group, some);
  Exchange exchange(group, "test", pool, mesh.streams(), pace_of(0));
  ASSERT_THAT(run_to_end(exchange, 1, true), IsOk());
  mesh.expect_received(7);
  EXPECT_EQ(pool.kept_bytes(), 0U);
  exchange.release();
  EXPECT_EQ(pool.kept_bytes(), BufferPool::capacity_for(static_cast<std::size_t>(exchange.buffer_bytes(1))));
  ASSERT_THAT(run_to_end(exchange, 1, true), IsOk());
  mesh.expect_received(7);
  EXPECT_EQ(pool.kept_bytes(), 0U) << "the same again";
}

// Through rings, so that no message stays under way.
TEST(ExchangeTest, AMissingRankIsNamedInTime) {
  constexpr std::chrono::seconds kLimit{3};
  Group group =
      Group::duplicate(MPI_COMM_WORLD, "test",
                       {.limit = {.time = kLimit, .name = "WEIR_LIMIT"}, .quiet = std::chrono::milliseconds(50)})
          .value();
  if (group.size() > 1) {
    BufferPool pool(std::size_t{1} << 20);
    Case some;
    some.lengths.assign(static_cast<std::size_t>(group.size() * group.size()), 1000);
    Mesh mesh(group, some);
    Exchange exchange(group, "call", pool, mesh.streams(), pace_of(0));
    ASSERT_THAT(exchange.share_memory({.is_on = true, .host = "one"}), IsOk());
    MPI_Barrier(MPI_COMM_WORLD);
    if (group.rank() != 1) {
      EXPECT_THAT(
          run_to_end(exchange, 1, true),
          StatusIs(ErrorCode::kTimedOut, "call: rank 1 did not come to this collective call within 3 s (WEIR_LIMIT)"));
      EXPECT_TRUE(exchange.is_broken());
      EXPECT_TRUE(group.is_broken());
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
  group.leave("test");  // ranks other than 1 do not come any more
}

}  // namespace
}  // namespace weir::exchange
