#include <weir/redist/internal/array_exchange.h>

// Exchanges through shared memory, by messages, and through both at once: ranks that pass different names of hosts do
// not find each other's memory.

#include <cstdlib>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/base/text.h>
#include <weir/layout/language.h>
#include <weir/layout/testing/generate.h>
#include <weir/redist/internal/agreement.h>
#include <weir/redist/internal/routing.h>
#include <weir/redist/redistribution.h>

namespace weir::redist::internal {
namespace {

using layout::Partition;
using layout::oracle::Random;
using ::testing::HasSubstr;
using weir::testing::IsOk;

constexpr std::byte kSharedUntouched{0xA5};
constexpr std::size_t kSharedGuard = 64;

Partition parsed_layout(const std::string& text) {
  auto partition = layout::parse(text);
  EXPECT_THAT(partition, IsOk()) << text;
  return std::move(partition).value();
}

std::byte shared_content(Offset x, std::size_t array) {
  return static_cast<std::byte>((static_cast<std::uint64_t>(x) * 0x9E3779B97F4A7C15u + array * 0x1234567u) >> 40);
}

// File offsets of a rank's element, one by one; nothing for ranks beyond the elements.
layout::oracle::Bytes listed_element(const Partition& partition, int rank) {
  if (rank >= partition.element_count()) return {};
  return layout::oracle::expand(partition.element(rank)->falls());
}

struct SharedArrays {
  SharedArrays(const layout::oracle::Bytes& from, const layout::oracle::Bytes& to, std::size_t array)
      : source(from.size()), target(to.size() + 2 * kSharedGuard, kSharedUntouched), expected(target) {
    for (std::size_t i = 0; i < from.size(); ++i) source[i] = shared_content(from[i], array);
    for (std::size_t i = 0; i < to.size(); ++i) expected[kSharedGuard + i] = shared_content(to[i], array);
  }
  [[nodiscard]] Arrays arrays() { return {source.data(), target.data() + kSharedGuard}; }

  std::vector<std::byte> source;
  std::vector<std::byte> target;
  std::vector<std::byte> expected;
};

// Sets or unsets the variable while it lives.
class Environment {
 public:
  explicit Environment(const char* value) {
    if (const char* before = std::getenv(kName)) before_ = before;
    value != nullptr ? ::setenv(kName, value, 1) : ::unsetenv(kName);
  }
  ~Environment() { before_ ? ::setenv(kName, before_->c_str(), 1) : ::unsetenv(kName); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  static constexpr const char* kName = "WEIR_REDIST_SHARED";
  std::optional<std::string> before_;
};

class SharedExchangeTest : public ::testing::Test {
 protected:
  SharedExchangeTest() : group_(Group::duplicate(MPI_COMM_WORLD, kOperation).value()) {}

  [[nodiscard]] int rank() const { return group_.rank(); }
  [[nodiscard]] int ranks() const { return group_.size(); }

  // True on all ranks or on none.
  bool holds_everywhere(bool mine) {
    const Result<std::int64_t> all = least(group_, mine ? 1 : 0);
    return all.is_ok() && *all == 1;
  }

  std::unique_ptr<ArrayExchange> make(const Partition& from, const Partition& to, Offset bytes_per_route) {
    const Labels labels = same_labels(static_cast<int>(to.element_count()), ranks());
    auto traffic = route(from, to, shares_of(from, to, rank()).value(), labels, rank(), ranks());
    EXPECT_THAT(traffic, IsOk());
    return std::make_unique<ArrayExchange>(group_, pool_, *std::move(traffic), exchange::pace_of(bytes_per_route));
  }

  // Executes several times: rings go on where they ended.
  void expect_right(ArrayExchange& exchange, const Partition& from, const Partition& to, std::size_t count) {
    const auto source = listed_element(from, rank());
    const auto target = listed_element(to, rank());
    for (int repeat = 0; repeat < 3; ++repeat) {
      std::vector<SharedArrays> memories;
      std::vector<Arrays> arrays;
      for (std::size_t i = 0; i < count; ++i) memories.emplace_back(source, target, i);
      for (SharedArrays& memory : memories) arrays.push_back(memory.arrays());
      ASSERT_THAT(exchange.reserve(count), IsOk());
      ASSERT_THAT(exchange.begin(arrays), IsOk());
      for (bool is_done = false; !is_done;) {
        const Result<bool> result = exchange.advance(repeat != 1);
        ASSERT_THAT(result, IsOk());
        is_done = *result;
      }
      for (const SharedArrays& memory : memories) EXPECT_EQ(memory.target, memory.expected);
    }
  }

  Group group_;
  BufferPool pool_{std::size_t{1} << 20};
  Environment unset_{nullptr};  // whatever the tests are run with
};

using HostOf = std::function<std::string(int rank)>;

const HostOf kOneHost = [](int) { return std::string("one"); };
const HostOf kTwoHosts = [](int rank) { return concat("host", rank % 2); };
const HostOf kHostEach = [](int rank) { return concat("host", rank); };

void expect_shared_where_together(const ArrayExchange& exchange, const HostOf& host_of, int rank) {
  const Traffic& traffic = exchange.traffic();
  for (std::size_t i = 0; i < traffic.sends.size(); ++i) {
    EXPECT_EQ(exchange.engine().is_shared(i, true), host_of(traffic.sends[i].peer) == host_of(rank)) << "send " << i;
  }
  for (std::size_t i = 0; i < traffic.receives.size(); ++i) {
    EXPECT_EQ(exchange.engine().is_shared(i, false), host_of(traffic.receives[i].peer) == host_of(rank))
        << "receive " << i;
  }
}

TEST_F(SharedExchangeTest, MovesAllBytesWhateverIsShared) {
  Random random(20240607);  // the same on all ranks
  for (int trial = 0; trial < 40; ++trial) {
    const Offset extent = random.between(1, 3000);
    const Offset elem = random.between(1, 9);
    const auto layout = [&] {
      const std::string dist = random.chance(30) ? "BLOCK" : concat("CYCLIC(", random.between(1, 40), ')');
      return concat("hpf(shape=[", extent, "], elem=", elem, ", dist=(", dist, "), grid=[", random.between(1, ranks()),
                    "])");
    };
    const std::string from = layout();
    const std::string to = layout();
    const Offset room = random.chance(50) ? 0 : random.between(1, 5000);
    const auto arrays = static_cast<std::size_t>(random.between(1, 4));
    const HostOf& host_of = trial % 4 == 0 ? kHostEach : trial % 4 == 1 ? kOneHost : kTwoHosts;
    SCOPED_TRACE(concat("trial ", trial, ": ", from, " to ", to, ", room ", room, ", arrays ", arrays));
    const auto exchange = make(parsed_layout(from), parsed_layout(to), room);
    ASSERT_THAT(exchange->share_memory(runtime::system_runtime(), host_of(rank())), IsOk());
    expect_shared_where_together(*exchange, host_of, rank());
    if (room > 0) {
      const auto routes = exchange->traffic().sends.size() + exchange->traffic().receives.size();
      EXPECT_LE(exchange->engine().buffer_bytes(1), room * static_cast<Offset>(routes));
    }
    expect_right(*exchange, parsed_layout(from), parsed_layout(to), arrays);
    ASSERT_TRUE(holds_everywhere(!HasFailure()));
  }
}

// More than a ring holds, in every direction, so that ends wait for each other.  Many arrays are more than a cache
// holds, so that targets are written around it.
TEST_F(SharedExchangeTest, LongStreamsGoRoundTheRing) {
  const Offset per_rank = Offset{40000} * ranks() + 7;
  const auto layout = [&](const char* dist) {
    return parsed_layout(
        concat("hpf(shape=[", per_rank * ranks(), "], elem=8, dist=(", dist, "), grid=[", ranks(), "])"));
  };
  const Partition from = layout("CYCLIC(64)");
  const Partition to = layout("CYCLIC(48)");
  const auto many = static_cast<std::size_t>((Offset{20} << 20) / (per_rank * 8));
  for (const HostOf& host_of : {kOneHost, kTwoHosts}) {
    for (const std::size_t arrays : {std::size_t{1}, many}) {
      const auto exchange = make(from, to, 20000);
      ASSERT_THAT(exchange->share_memory(runtime::system_runtime(), host_of(rank())), IsOk());
      expect_right(*exchange, from, to, arrays);
      ASSERT_TRUE(holds_everywhere(!HasFailure()));
    }
  }
}

// A rank that is through has its bytes in the ring and need not wait for the receiver, which may come much later.
TEST_F(SharedExchangeTest, AnEarlyRankGoesOnWithoutTheOthers) {
  if (ranks() < 2) GTEST_SKIP() << "needs 2 ranks";
  const Partition from = parsed_layout("hpf(shape=[1024], elem=1, dist=(BLOCK), grid=[1])");
  const Partition to = parsed_layout("hpf(shape=[1024], elem=1, dist=(BLOCK), grid=[2])");
  const auto exchange = make(from, to, 0);
  ASSERT_THAT(exchange->share_memory(runtime::system_runtime()), IsOk());
  SharedArrays memory(listed_element(from, rank()), listed_element(to, rank()), 0);
  const std::vector<Arrays> arrays{memory.arrays()};
  ASSERT_THAT(exchange->reserve(1), IsOk());
  const auto finish = [&] {
    ASSERT_THAT(exchange->begin(arrays), IsOk());
    for (bool is_done = false; !is_done;) is_done = exchange->advance(true).value();
    EXPECT_EQ(memory.target, memory.expected);
  };
  if (rank() == 0) finish();
  ASSERT_TRUE(holds_everywhere(true));  // rank 0 comes here before the others begin
  if (rank() != 0) finish();
}

// The peer reaches the exchange only after a message that its receiver, waiting in the exchange, has to take part in.
TEST_F(SharedExchangeTest, WaitingKeepsMessagesOfTheCallerMoving) {
  if (ranks() < 2) GTEST_SKIP() << "needs 2 ranks";
  const Partition from = parsed_layout("hpf(shape=[1024], elem=1, dist=(BLOCK), grid=[1])");
  const Partition to = parsed_layout("hpf(shape=[1024], elem=1, dist=(BLOCK), grid=[2])");
  const auto exchange = make(from, to, 0);
  ASSERT_THAT(exchange->share_memory(runtime::system_runtime()), IsOk());
  std::vector<std::byte> large(std::size_t{1} << 23);
  MPI_Request request = MPI_REQUEST_NULL;
  if (rank() == 1) {
    ASSERT_EQ(MPI_Irecv(large.data(), static_cast<int>(large.size()), MPI_BYTE, 0, 5, MPI_COMM_WORLD, &request), 0);
  }
  if (rank() == 0) {
    ASSERT_EQ(MPI_Send(large.data(), static_cast<int>(large.size()), MPI_BYTE, 1, 5, MPI_COMM_WORLD), 0);
  }
  expect_right(*exchange, from, to, 1);
  EXPECT_THAT(mpi::await("MPI_Irecv", MPI_SUCCESS, request), IsOk());
  ASSERT_TRUE(holds_everywhere(!HasFailure()));
}

class SharedOptionTest : public SharedExchangeTest {
 protected:
  // Transfers of a redistribution among all ranks, and how many of them go through shared memory.
  struct Count {
    Offset all = 0;
    Offset shared = 0;
  };
  Count count(const Options& options) {
    const auto layout = [&](const char* dist) {
      return parsed_layout(concat("hpf(shape=[", ranks() * 16, "], elem=8, dist=(", dist, "), grid=[", ranks(), "])"));
    };
    auto redistribution = Redistribution::create(MPI_COMM_WORLD, layout("BLOCK"), layout("CYCLIC"), options);
    EXPECT_THAT(redistribution, IsOk());
    if (!redistribution.is_ok()) return {};
    Count result;
    for (const auto* transfers : {&redistribution->report().sends, &redistribution->report().receives}) {
      for (const Transfer& transfer : *transfers) {
        ++result.all;
        result.shared += transfer.is_shared ? 1 : 0;
      }
    }
    EXPECT_THAT(redistribution->explain(),
                HasSubstr(concat(result.shared, " of ", result.all, " transfers through shared memory")));
    return result;
  }
};

TEST_F(SharedOptionTest, OptionAndEnvironmentSwitchItOff) {
  const Count on = count({});
  EXPECT_EQ(on.all, 2 * (ranks() - 1));
  EXPECT_EQ(on.shared, on.all);
  EXPECT_EQ(count({.share_memory = false}).shared, 0);
  const Environment off("0");
  EXPECT_EQ(count({}).shared, 0);
}

TEST_F(SharedOptionTest, OneRankCanKeepToMessages) {
  const Environment off_on_rank_0(rank() == 0 ? "0" : nullptr);
  const Count shared = count({});
  EXPECT_EQ(shared.all, 2 * (ranks() - 1));
  EXPECT_EQ(shared.shared, rank() == 0 ? 0 : 2 * (ranks() - 2));
}

}  // namespace
}  // namespace weir::redist::internal
