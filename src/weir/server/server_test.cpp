// Whole servers over the channel inside the process, on every store: what clients may say, and what they should not.

#include <weir/server/server.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <thread>

#include <gtest/gtest.h>

#include <weir/base/descriptor.h>
#include <weir/layout/binary.h>
#include <weir/layout/testing/generate.h>
#include <weir/server/internal/peer_testing.h>
#include <weir/server/internal/testing.h>
#include <weir/share/handover.h>
#include <weir/transfer/route.h>

namespace weir::server {
namespace {

using internal::Answer;
using internal::Peer;
using internal::read_pieces;
using internal::subfile;
using internal::write_pieces;
using layout::Element;
using layout::FallsSet;
using layout::oracle::Random;
using testing::HasBytes;
using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;
using Bytes = std::vector<std::byte>;

std::unique_ptr<wire::Range> range(Offset from, Offset to) { return std::make_unique<wire::Range>(from, to); }

std::vector<std::uint8_t> falls_bytes(const FallsSet& set) {
  const Bytes bytes = layout::encode(set);
  const auto* begin = reinterpret_cast<const std::uint8_t*>(bytes.data());
  return {begin, begin + bytes.size()};
}

wire::RegisterViewT register_request(std::uint64_t view, std::uint64_t file, const transfer::Route& packing) {
  wire::RegisterViewT request;
  request.view = view;
  request.subfile = subfile(file);
  for (const auto& band : packing.bands()) {
    auto one = std::make_unique<wire::BandT>();
    one->view = falls_bytes(band.a.falls());
    one->view_disp = band.a.disp();
    one->view_period = band.a.period();
    one->subfile = falls_bytes(band.b.falls());
    one->subfile_disp = band.b.disp();
    one->subfile_period = band.b.period();
    request.bands.push_back(std::move(one));
  }
  return request;
}

wire::ReadViewT read_view(std::uint64_t view, Offset from, Offset to) {
  wire::ReadViewT request;
  request.view = view;
  request.range = range(from, to);
  return request;
}
wire::WriteViewT write_view(std::uint64_t view, Offset from, Offset to, Offset file_end = 0) {
  wire::WriteViewT request;
  request.view = view;
  request.range = range(from, to);
  request.file_end = file_end;
  return request;
}

Bytes random_bytes(Random& random, Offset count) {
  Bytes bytes(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < bytes.size(); i += sizeof(std::uint64_t)) {
    const std::uint64_t bits = random.bits();
    std::memcpy(&bytes[i], &bits, std::min(sizeof(bits), bytes.size() - i));
  }
  return bytes;
}

struct ServerTest : ::testing::TestWithParam<std::string> {
  void SetUp() override {
    options.address = {concat("local:server-test-", getpid(), "-", reinterpret_cast<std::uintptr_t>(this))};
    options.key = net::Key::random();
    options.store = GetParam() == "memory" ? "memory" : concat("disk:", directory.path());
    options.capacity_bytes = Offset{256} << 20;
    restart();
  }
  void restart() {
    server.reset();
    auto started = Server::start(options);
    ASSERT_THAT(started, IsOk());
    server = std::move(*started);
  }
  Peer peer() { return {server->address(), options.key}; }

  internal::TemporaryDirectory directory;
  Options options;
  std::unique_ptr<Server> server;
};

INSTANTIATE_TEST_SUITE_P(Stores, ServerTest, ::testing::Values("memory", "disk"));

TEST_P(ServerTest, PiecesComeBackAsTheyWere) {
  layout::oracle::for_cases(30, [this, file = std::uint64_t{100}](Random& random) mutable {
    ++file;
    Peer client = peer();
    Bytes oracle(1'200'000);  // more than the largest sum of pieces and gaps
    for (int step = 0; step < 12; ++step) {
      std::vector<wire::Range> pieces;
      Offset bytes = 0;
      Offset at = random.between(0, 3000);
      for (Offset count = random.between(0, 12); count > 0; --count) {
        const Offset length = random.between(0, random.chance(20) ? 70000 : 300);
        pieces.emplace_back(at, at + length);
        at += length + random.between(0, random.chance(20) ? 20000 : 100);
        bytes += length;
      }
      random.shuffle(pieces);
      if (random.chance(60)) {
        const Bytes body = random_bytes(random, bytes);
        ASSERT_THAT(client.call(write_pieces(file, pieces, at), body).status, IsOk());
        std::size_t next = 0;
        for (const wire::Range& piece : pieces) {
          const auto size = static_cast<std::size_t>(piece.to() - piece.from());
          std::copy_n(body.begin() + static_cast<std::ptrdiff_t>(next), size, oracle.begin() + piece.from());
          next += size;
        }
      } else {
        Bytes body(static_cast<std::size_t>(bytes), std::byte{0xaa});
        ASSERT_THAT(client.call(read_pieces(file, pieces), {}, body).status, IsOk());
        std::size_t next = 0;
        for (const wire::Range& piece : pieces) {
          const auto size = static_cast<std::size_t>(piece.to() - piece.from());
          ASSERT_THAT(std::span(body).subspan(next, size),
                      HasBytes(std::span(oracle).subspan(static_cast<std::size_t>(piece.from()), size)))
              << "at " << piece.from();
          next += size;
        }
      }
    }
  });
}

TEST_P(ServerTest, ViewsMoveTheBytesThatTheyMean) {
  layout::oracle::for_cases(60, [this, file = std::uint64_t{1000}](Random& random) mutable {
    ++file;
    const auto x = layout::oracle::random_pattern(random);
    const auto y = layout::oracle::random_pattern(random);
    const auto view = Element::create(x.set, {x.disp, x.period});
    const auto element = Element::create(y.set, {y.disp, y.period});
    ASSERT_THAT(view, IsOk());
    ASSERT_THAT(element, IsOk());
    const auto mapping = layout::intersect(*view, *element);
    if (!mapping.is_ok()) return;
    const auto packing = transfer::Route::create(*mapping);
    if (!packing.is_ok() || packing->bands().empty()) return;
    Peer client = peer();
    ASSERT_THAT(client.call(register_request(5, file, *packing)).status, IsOk());
    std::map<Offset, std::byte> oracle;  // of the view
    for (int step = 0; step < 6; ++step) {
      const Offset from = random.between(0, 3000);
      const Offset to = from + random.between(0, 3000);
      const Offset bytes = packing->bytes({from, to});
      // The message as the view's side packs it, from and to a plain copy of the view.
      Bytes memory = random_bytes(random, to - from);
      Bytes message(static_cast<std::size_t>(bytes));
      if (step % 2 == 0) {
        packing->pack_a({memory.data(), from}, {from, to}, message.data());
        ASSERT_THAT(client.call(write_view(5, from, to, to), message).status, IsOk());
        for (Offset v = from; v < to; ++v) {
          if (layout::map_between(*view, v, *element)) oracle[v] = memory[static_cast<std::size_t>(v - from)];
        }
      } else {
        const Bytes before = memory;
        ASSERT_THAT(client.call(read_view(5, from, to), {}, message).status, IsOk());
        packing->unpack_a(message.data(), {from, to}, {memory.data(), from});
        for (Offset v = from; v < to; ++v) {
          const auto i = static_cast<std::size_t>(v - from);
          const std::byte expected = !layout::map_between(*view, v, *element) ? before[i]
                                     : oracle.contains(v)                     ? oracle[v]
                                                                              : std::byte{0};
          ASSERT_EQ(memory[i], expected) << v;
        }
      }
    }
  });
}

TEST_P(ServerTest, LargeStridedAndSparseViewsGoWell) {
  struct Case {
    Offset block, stride, count;
  };
  std::uint64_t file = 5000;
  for (const Case& one :
       {Case{8, 32, 400'000}, Case{8192, 16384, 700}, Case{64, Offset{1} << 20, 100}, Case{1, 3000, 3000}}) {
    SCOPED_TRACE(one.block);
    ++file;
    const Offset bytes = one.block * one.count;
    const auto dense = Element::create({{0, bytes - 1, 0, 1, {}}}, {0, kMaxBytes});
    const auto strided = Element::create({{7, 7 + one.block - 1, one.stride, one.count, {}}}, {0, kMaxBytes});
    const auto packing = transfer::Route::create({{*dense, *strided}});
    ASSERT_THAT(packing, IsOk());
    Peer client = peer();
    ASSERT_THAT(client.call(register_request(1, file, *packing)).status, IsOk());
    Random random(17);
    const Bytes body = random_bytes(random, bytes);
    ASSERT_THAT(client.call(write_view(1, 0, bytes, 99), body).status, IsOk());
    Bytes back(body.size());
    ASSERT_THAT(client.call(read_view(1, 0, bytes), {}, back).status, IsOk());
    EXPECT_TRUE(back == body);
    // Gaps are zero.
    Bytes gap(static_cast<std::size_t>(one.stride - one.block), std::byte{1});
    ASSERT_THAT(client.call(read_pieces(file, {{7 + one.block, 7 + one.stride}}), {}, gap).status, IsOk());
    EXPECT_TRUE(gap == Bytes(gap.size()));
    wire::InspectT inspect;
    inspect.subfile = subfile(file);
    const Answer info = client.call(std::move(inspect));
    EXPECT_EQ(info.head.answer.AsSubfileInfo()->length, 7 + (one.count - 1) * one.stride + one.block);
    EXPECT_EQ(info.head.answer.AsSubfileInfo()->file_end, 99);
  }
}

TEST_P(ServerTest, WritesWithoutBytesStillTellTheEndOfTheFile) {
  Peer client = peer();
  const auto file_end = [&] {
    wire::InspectT inspect;
    inspect.subfile = subfile(9);
    return client.call(std::move(inspect)).head.answer.AsSubfileInfo()->file_end;
  };
  EXPECT_THAT(client.call(write_pieces(9, {}, 1000)).status, IsOk());
  EXPECT_EQ(file_end(), 1000);
  EXPECT_THAT(client.call(write_pieces(9, {{7, 7}}, 2000)).status, IsOk());
  EXPECT_EQ(file_end(), 2000);
  EXPECT_THAT(client.call(write_pieces(9, {{7, 7}, {9, 9}}, 500)).status, IsOk());
  EXPECT_EQ(file_end(), 2000);
  EXPECT_THAT(client.call(write_pieces(9, {}, -1)).status, StatusIs(ErrorCode::kOutOfRange));
}

TEST_P(ServerTest, RemovedSubfilesStayRemoved) {
  Peer client = peer();
  const Bytes body(100, std::byte{1});
  ASSERT_THAT(client.call(write_pieces(9, {{0, 100}}), body).status, IsOk());
  for (int twice = 0; twice < 2; ++twice) {
    wire::RemoveSubfileT remove;
    remove.subfile = subfile(9);
    EXPECT_THAT(client.call(std::move(remove)).status, IsOk());
  }
  EXPECT_THAT(client.call(write_pieces(9, {{0, 100}}), body).status, StatusIs(ErrorCode::kStale));
  const Answer all = client.call(wire::ListSubfilesT{});
  EXPECT_TRUE(all.head.answer.AsSubfiles()->subfiles.empty());
}

TEST_P(ServerTest, HostileRequestsGetTypedErrors) {
  Peer client = peer();
  const Bytes body(100);
  const auto expect = [&](Answer answer, ErrorCode code) { EXPECT_THAT(answer.status, StatusIs(code)); };
  // Heads that are none.
  expect(client.finish(client.start(net::Bytes(50, std::byte{0x7f}))), ErrorCode::kCorrupt);
  // Bodies of another length, ranges that are none.
  expect(client.call(write_pieces(9, {{0, 99}}), body), ErrorCode::kInvalidArgument);
  expect(client.call(write_pieces(9, {{-1, 99}}), body), ErrorCode::kInvalidArgument);
  expect(client.call(write_pieces(9, {{100, 0}}), body), ErrorCode::kInvalidArgument);
  expect(client.call(write_pieces(9, {{0, 50}, {49, 99}}), body), ErrorCode::kInvalidArgument);
  expect(client.call(write_pieces(9, {{0, 100}}, -5), body), ErrorCode::kOutOfRange);
  expect(client.call(write_pieces(0, {{0, 100}}), body), ErrorCode::kInvalidArgument);
  expect(client.call(write_pieces(9, {{kMaxBytes - 1, kMaxBytes + 99}}), body), ErrorCode::kInvalidArgument);
  expect(client.call(read_pieces(9, {{0, Offset{1} << 40}, {0, 7}})), ErrorCode::kInvalidArgument);
  expect(client.call(read_pieces(9, {{0, kMaxBytes}, {0, kMaxBytes}, {0, kMaxBytes}})), ErrorCode::kOutOfRange);
  expect(client.call(read_view(77, 0, 1)), ErrorCode::kNotFound);
  expect(client.call(wire::LookupT{}), ErrorCode::kInvalidArgument);
  EXPECT_THAT(client.call(wire::StatisticsT{}).status, IsOk());
}

TEST_P(ServerTest, HostileViewsGetTypedErrors) {
  Peer client = peer();
  const auto with = [](FallsSet view, FallsSet sub, Offset period = kMaxBytes, std::size_t bands = 1) {
    wire::RegisterViewT request;
    request.view = 1;
    request.subfile = subfile(9);
    for (std::size_t i = 0; i < bands; ++i) {
      auto band = std::make_unique<wire::BandT>();
      band->view = falls_bytes(view);
      band->view_period = period;
      band->subfile = falls_bytes(sub);
      band->subfile_period = period;
      request.bands.push_back(std::move(band));
    }
    return request;
  };
  const FallsSet ten{{0, 9, 0, 1, {}}};
  EXPECT_THAT(client.call(with(ten, {{0, 8, 0, 1, {}}})).status, StatusIs(ErrorCode::kInvalidArgument));
  EXPECT_THAT(client.call(with(ten, {{0, 4, 2, 2, {}}})).status,
              StatusIs(ErrorCode::kInvalidArgument));  // twice the same
  EXPECT_THAT(client.call(with(ten, ten, 3)).status, StatusIs(ErrorCode::kInvalidArgument));
  EXPECT_THAT(client.call(with(ten, ten, -3)).status, StatusIs(ErrorCode::kInvalidArgument));
  EXPECT_THAT(client.call(with(ten, ten, kMaxBytes, 5000)).status,
              StatusIs(ErrorCode::kInvalidArgument, HasSubstr("5000 bands")));
  auto garbage = with(ten, ten);
  garbage.bands[0]->view = {9, 9, 9, 9};
  EXPECT_THAT(client.call(std::move(garbage)).status,
              StatusIs(ErrorCode::kInvalidArgument, HasSubstr("register view 1")));

  // Two bands that mean the same bytes: nonsense, but no byte of anybody else comes of it.
  Bytes secret(Offset{1} << 16, std::byte{0x5e});
  ASSERT_THAT(client.call(write_pieces(8, {{0, 30000}, {30000, 65536}}), secret).status, IsOk());
  const FallsSet sparse{{0, 0, 2, 10, {}}};
  ASSERT_THAT(client.call(with({{0, 9, 0, 1, {}}}, sparse, kMaxBytes, 2)).status, IsOk());
  const Bytes body(20, std::byte{1});
  (void)client.call(write_view(1, 0, 10), body);
  Bytes all(20, std::byte{7});
  ASSERT_THAT(client.call(read_pieces(9, {{0, 20}}), {}, all).status, IsOk());
  for (const std::byte byte : all) EXPECT_TRUE(byte == std::byte{0} || byte == std::byte{1});
  EXPECT_THAT(client.call(write_view(1, 0, 10), Bytes(19)).status, StatusIs(ErrorCode::kInvalidArgument));
  EXPECT_THAT(client.call(read_view(1, 0, kMaxBytes)).status, StatusIs(ErrorCode::kInvalidArgument));
}

TEST_P(ServerTest, ViewsEndWithTheirConnection) {
  Peer client = peer();
  const auto all = Element::create({{0, 9, 0, 1, {}}}, {0, kMaxBytes});
  const auto packing = transfer::Route::create({{*all, *all}});
  ASSERT_THAT(client.call(register_request(1, 9, *packing)).status, IsOk());
  Peer other = peer();
  EXPECT_EQ(other.call(wire::StatisticsT{}).head.answer.AsCounters()->views, 1u);
  EXPECT_THAT(other.call(read_view(1, 0, 10)).status, StatusIs(ErrorCode::kNotFound));
  client.disconnect();
  EXPECT_EQ(other.call(wire::StatisticsT{}).head.answer.AsCounters()->views, 0u);
}

TEST_P(ServerTest, LocksGoOnToTheNextWhenTheirHolderIsGone) {
  Peer holder = peer();
  Peer waiter = peer();
  const Answer made = holder.call(internal::create_request("/x", 0644, true, "stripe(unit=4, over=1)"));
  ASSERT_THAT(made.status, IsOk());
  const auto lock = [&](bool wait) {
    wire::LockT request;
    request.file = made.head.answer.AsAttributes()->file;
    request.range = range(0, 10);
    request.exclusive = true;
    request.wait = wait;
    return request;
  };
  ASSERT_THAT(holder.call(lock(false)).status, IsOk());
  EXPECT_THAT(waiter.call(lock(false)).status, StatusIs(ErrorCode::kTimedOut));
  EXPECT_THAT(waiter.finish(waiter.start(wire::encode_request(lock(true), 50))).status, StatusIs(ErrorCode::kTimedOut));
  const auto waiting = waiter.start(wire::encode_request(lock(true), 10'000));
  holder.disconnect();
  EXPECT_THAT(waiter.finish(waiting).status, IsOk());
}

TEST_P(ServerTest, StoppingAnswersThoseThatWaitForLocks) {
  Peer holder = peer();
  Peer waiter = peer();
  const Answer made = holder.call(internal::create_request("/x", 0644, true, "stripe(unit=4, over=1)"));
  const auto lock = [&] {
    wire::LockT request;
    request.file = made.head.answer.AsAttributes()->file;
    request.range = range(0, 10);
    request.exclusive = request.wait = true;
    return request;
  };
  ASSERT_THAT(holder.call(lock()).status, IsOk());
  const auto waiting = waiter.start(wire::encode_request(lock(), 10'000));
  server->stop();
  EXPECT_THAT(waiter.finish(waiting).status, StatusIs(ErrorCode::kUnavailable));
}

TEST_P(ServerTest, SharesMemoryWhereTheStoreHasSome) {
  Peer client = peer();
  const Bytes body(100000, std::byte{3});
  ASSERT_THAT(client.call(write_pieces(9, {{0, 100000}}), body).status, IsOk());
  wire::ShareT share;
  share.subfile = subfile(9);
  const Answer answer = client.call(std::move(share));
  ASSERT_THAT(answer.status, IsOk());
  const wire::HandoverT& handover = *answer.head.answer.AsHandover();
  EXPECT_EQ(handover.possible, GetParam() == "memory");
  if (!handover.possible) return;
  const auto fetched =
      share::fetch_memory(handover.socket, handover.token, std::chrono::steady_clock::now() + std::chrono::seconds(2));
  ASSERT_THAT(fetched, IsOk());
  const int memory = fetched->memory.get();
  std::byte seen{};
  ASSERT_EQ(pread(memory, &seen, 1, share::kDataStart + 99999), 1);
  EXPECT_EQ(seen, std::byte{3});
  EXPECT_EQ(pwrite(memory, &seen, 1, share::kDataStart), -1) << "asked for reading only";
}

TEST_P(ServerTest, MemoryWithChecksumsIsForThoseWhoDeclareWrites) {
  options.verifies_memory = true;
  restart();
  Peer client = peer();
  ASSERT_THAT(client.call(write_pieces(9, {{0, 100000}}), Bytes(100000, std::byte{3})).status, IsOk());
  for (const bool declares : {false, true}) {
    wire::ShareT share;
    share.subfile = subfile(9);
    share.for_writing = true;
    share.declares = declares;
    const Answer answer = client.call(std::move(share));
    ASSERT_THAT(answer.status, IsOk());
    EXPECT_EQ(answer.head.answer.AsHandover()->possible, declares && GetParam() == "memory");
    EXPECT_EQ(answer.head.answer.AsHandover()->verifies, declares && GetParam() == "memory");
  }
}

TEST_P(ServerTest, ShowsDescriptorsToThoseWhoOpenThemThemselves) {
  Peer client = peer();
  ASSERT_THAT(client.call(write_pieces(9, {{0, 100000}}), Bytes(100000, std::byte{3})).status, IsOk());
  const auto share = [&](bool for_writing) {
    wire::ShareT request;
    request.subfile = subfile(9);
    request.for_writing = for_writing;
    request.opens = true;
    const Answer answer = client.call(std::move(request));
    EXPECT_THAT(answer.status, IsOk());
    return *answer.head.answer.AsHandover();
  };
  const wire::HandoverT handover = share(true);
  EXPECT_EQ(handover.possible, GetParam() == "memory");
  if (!handover.possible) return;
  EXPECT_TRUE(handover.token.empty());
  const auto shown = [](const wire::Descriptor& it) { return share::Shown{it.number(), it.device(), it.file()}; };
  const auto opened = share::open_memory(handover.process, shown(*handover.memory), shown(*handover.lifeline));
  ASSERT_THAT(opened, IsOk());
  const int memory = opened->memory.get();
  std::byte seen{};
  ASSERT_EQ(pread(memory, &seen, 1, share::kDataStart + 99999), 1);
  EXPECT_EQ(seen, std::byte{3});
  EXPECT_TRUE(share(false).memory == nullptr) << "for reading there is a token only";
}

wire::FenceT fence_request(wire::FenceAction action, std::uint64_t token) {
  wire::FenceT request;
  request.action = action;
  request.subfile = subfile(9);
  request.token = token;
  return request;
}

TEST_P(ServerTest, FencedSubfilesAreReadAndNotWritten) {
  Peer mover = peer();
  Peer client = peer();
  const Bytes body(100, std::byte{3});
  const auto write = [&] { return client.call(write_pieces(9, {{0, 100}}), body).status; };
  ASSERT_THAT(write(), IsOk());
  ASSERT_THAT(mover.call(fence_request(wire::FenceAction::Raise, 1)).status, IsOk());
  EXPECT_THAT(write(), StatusIs(ErrorCode::kStale, HasSubstr("is being given a new layout")));
  EXPECT_THAT(client.call(write_pieces(9, {}, 77)).status, StatusIs(ErrorCode::kStale));
  Bytes back(100);
  EXPECT_THAT(client.call(read_pieces(9, {{0, 100}}), {}, back).status, IsOk());
  EXPECT_EQ(back, body);

  EXPECT_THAT(client.call(fence_request(wire::FenceAction::Raise, 2)).status,
              StatusIs(ErrorCode::kUnavailable, HasSubstr("another relayout")));
  EXPECT_THAT(client.call(fence_request(wire::FenceAction::Confirm, 2)).status, StatusIs(ErrorCode::kStale));
  EXPECT_THAT(client.call(fence_request(wire::FenceAction::Lower, 2)).status, IsOk());
  EXPECT_THAT(write(), StatusIs(ErrorCode::kStale)) << "the fence of another stays";
  EXPECT_THAT(mover.call(fence_request(wire::FenceAction::Confirm, 1)).status, IsOk());
  EXPECT_THAT(mover.call(fence_request(wire::FenceAction::Lower, 1)).status, IsOk());
  EXPECT_THAT(write(), IsOk());
  EXPECT_THAT(mover.call(fence_request(wire::FenceAction::Confirm, 1)).status, StatusIs(ErrorCode::kStale));
}

TEST_P(ServerTest, AFenceFallsWithItsClientUnlessItWasConfirmed) {
  options.fence_grace = std::chrono::milliseconds(0);
  restart();
  Peer client = peer();
  const Bytes body(100, std::byte{3});
  const auto write = [&] { return client.call(write_pieces(9, {{0, 100}}), body).status; };
  Peer first = peer();
  ASSERT_THAT(first.call(fence_request(wire::FenceAction::Raise, 1)).status, IsOk());
  EXPECT_THAT(write(), StatusIs(ErrorCode::kStale));
  first.disconnect();
  // Whether the server knows already is a matter of time, not of chance.
  while (write().code() == ErrorCode::kStale) std::this_thread::yield();
  EXPECT_THAT(write(), IsOk());

  Peer second = peer();
  ASSERT_THAT(second.call(fence_request(wire::FenceAction::Raise, 2)).status, IsOk());
  ASSERT_THAT(second.call(fence_request(wire::FenceAction::Confirm, 2)).status, IsOk());
  second.disconnect();
  Peer third = peer();
  Status raised;  // takes over once the second is known to be gone
  while (!(raised = third.call(fence_request(wire::FenceAction::Raise, 3)).status).is_ok()) {
    ASSERT_THAT(raised, StatusIs(ErrorCode::kUnavailable));
    EXPECT_THAT(write(), StatusIs(ErrorCode::kStale));
  }
  EXPECT_THAT(client.call(fence_request(wire::FenceAction::Lower, 0)).status, IsOk()) << "any, to repair";
  EXPECT_THAT(write(), IsOk());
}

TEST_P(ServerTest, AConfirmedFenceOutlivesTheServerAsTheBytesDo) {
  const bool is_kept = GetParam() == "disk";
  const Bytes body(100, std::byte{3});
  const auto write = [&] { return peer().call(write_pieces(9, {{0, 100}}), body).status; };
  const auto fence = [&](wire::FenceAction action, std::uint64_t token) {
    return peer().call(fence_request(action, token)).status;
  };
  ASSERT_THAT(write(), IsOk());
  Peer mover = peer();
  ASSERT_THAT(mover.call(fence_request(wire::FenceAction::Raise, 1)).status, IsOk());
  restart();
  EXPECT_THAT(write(), IsOk()) << "was not confirmed";
  ASSERT_THAT(fence(wire::FenceAction::Raise, 1), IsOk());
  ASSERT_THAT(fence(wire::FenceAction::Confirm, 1), IsOk());
  restart();
  EXPECT_EQ(write().code(), is_kept ? ErrorCode::kStale : ErrorCode::kOk);
  // The relayout goes on, or another one takes over.
  EXPECT_EQ(fence(wire::FenceAction::Confirm, 1).code(), is_kept ? ErrorCode::kOk : ErrorCode::kStale);
  restart();
  EXPECT_THAT(fence(wire::FenceAction::Raise, 2), IsOk());
  restart();
  EXPECT_THAT(write(), IsOk()) << "that of the other was replaced by one that was not confirmed";
  ASSERT_THAT(fence(wire::FenceAction::Raise, 3), IsOk());
  ASSERT_THAT(fence(wire::FenceAction::Confirm, 3), IsOk());
  wire::RemoveSubfileT remove;
  remove.subfile = subfile(9);
  ASSERT_THAT(peer().call(std::move(remove)).status, IsOk());
  restart();
  EXPECT_EQ(write().code(), is_kept ? ErrorCode::kStale : ErrorCode::kOk) << "replaced: not made again by late writers";
}

TEST_P(ServerTest, TellsItsLifeAndItsStore) {
  struct Seen {
    std::uint64_t boot;
    std::uint64_t store;
  };
  const auto look = [&] {
    Peer client = peer();
    const Answer answer = client.call(wire::MembershipT{});
    return Seen{answer.head.boot, answer.head.answer.AsMembers()->targets[0]->store_id};
  };
  const auto ask_for = [&](std::uint64_t store) {
    Peer client = peer();
    wire::InspectT inspect;
    inspect.subfile = subfile(9);
    return client.finish(client.start(wire::encode_request(std::move(inspect), 10'000, store))).status;
  };
  const Seen before = look();
  EXPECT_NE(before.boot, 0u);
  EXPECT_NE(before.store, 0u);
  EXPECT_EQ(look().boot, before.boot);
  EXPECT_THAT(ask_for(before.store), IsOk());
  restart();
  EXPECT_NE(look().boot, before.boot);
  EXPECT_EQ(look().store == before.store, GetParam() == "disk") << "memory is gone with its server";
  if (GetParam() == "disk") {
    EXPECT_THAT(ask_for(before.store), IsOk());
  } else {
    EXPECT_THAT(ask_for(before.store), StatusIs(ErrorCode::kIoError, HasSubstr("lost")));
  }
}

TEST_P(ServerTest, MembersAreAsTold) {
  ASSERT_THAT(server->set_members({server->address(), {"local:other"}}), IsOk());
  Peer client = peer();
  const Answer answer = client.call(wire::MembershipT{});
  const auto& servers = answer.head.answer.AsMembers()->servers;
  ASSERT_EQ(servers.size(), 2u);
  EXPECT_EQ(servers[1]->address, "local:other");
  const auto& targets = answer.head.answer.AsMembers()->targets;
  ASSERT_EQ(targets.size(), 2u);
  EXPECT_EQ(targets[0]->store, options.store);
  EXPECT_EQ(targets[1]->store, "") << "of another server";
  const Answer made = client.call(internal::create_request("/x"));
  EXPECT_EQ(made.head.answer.AsAttributes()->targets.size(), 2u);
}

TEST_P(ServerTest, SeveralTargetsMayBeOnAServer) {
  const auto members = [&] {
    Peer client = peer();
    return *client.call(wire::MembershipT{}).head.answer.AsMembers();
  };
  ASSERT_THAT(server->set_members({server->address()}), IsOk());
  const std::uint64_t before = members().epoch;
  ASSERT_THAT(server->set_members({server->address()}), IsOk());
  EXPECT_EQ(members().epoch, before) << "the same table";
  EXPECT_THAT(server->set_members({server->address()}, {0, 1}),
              StatusIs(ErrorCode::kInvalidArgument, HasSubstr("target 1: server index 1 is out of range (1 servers)")));
  ASSERT_THAT(server->set_members({server->address()}, {0, 0, 0}), IsOk());
  const wire::MembersT after = members();
  EXPECT_NE(after.epoch, before);
  ASSERT_EQ(after.targets.size(), 3u);
  EXPECT_EQ(after.targets[2]->server, 0u);
  EXPECT_EQ(after.targets[2]->store_id, after.targets[0]->store_id);
  Peer client = peer();
  const auto create = [&](std::uint64_t epoch) {
    wire::CreateT request = internal::create_request("/x", 0644, false);
    request.targets = {2, 1};
    return client.finish(client.start(wire::encode_request(std::move(request), 10'000, 0, epoch))).status;
  };
  EXPECT_THAT(create(before), StatusIs(ErrorCode::kStale, HasSubstr("table of targets")));
  EXPECT_THAT(create(after.epoch), IsOk());
}

TEST_P(ServerTest, ManyClientsAtOnce) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this, i] {
      Peer client = peer();
      for (int round = 0; round < 20; ++round) {
        const Bytes body(100'000, static_cast<std::byte>(i + 1));
        const Offset at = i * 100'000;
        ASSERT_THAT(client.call(write_pieces(9, {{at, at + 100'000}}), body).status, IsOk());
        Bytes back(body.size());
        ASSERT_THAT(client.call(read_pieces(9, {{at, at + 100'000}}), {}, back).status, IsOk());
        ASSERT_TRUE(back == body);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(ServerStartTest, RefusesStoresThatItDoesNotKnow) {
  Options options;
  options.store = "tape";
  EXPECT_THAT(Server::start(options), StatusIs(ErrorCode::kInvalidArgument, HasSubstr("tape")));
}

TEST(ServerStartTest, OnDiskEverythingIsThereAgain) {
  const internal::TemporaryDirectory directory;
  Options options;
  options.address = {concat("local:server-restart-", getpid())};
  options.key = net::Key::random();
  options.store = concat("disk:", directory.path());
  const Bytes body(5000, std::byte{4});
  for (int round = 0; round < 2; ++round) {
    auto server = Server::start(options);
    ASSERT_THAT(server, IsOk());
    Peer client((*server)->address(), options.key);
    if (round == 0) {
      ASSERT_THAT(client.call(internal::create_request("/x", 0644, true, "stripe(unit=4, over=1)")).status, IsOk());
      ASSERT_THAT(client.call(write_pieces(9, {{0, 5000}}), body).status, IsOk());
    } else {
      wire::LookupT lookup;
      lookup.path = "/x";
      EXPECT_THAT(client.call(std::move(lookup)).status, IsOk());
      Bytes back(body.size());
      ASSERT_THAT(client.call(read_pieces(9, {{0, 5000}}), {}, back).status, IsOk());
      EXPECT_TRUE(back == body);
    }
  }
}

TEST(ServerStartTest, ASlowStoreHasTheBytesOfItsDiskAndTakesItsTime) {
  const internal::TemporaryDirectory directory;
  Options options;
  options.address = {concat("local:server-slow-", getpid())};
  options.key = net::Key::random();
  const Bytes body(2, std::byte{4});
  for (const std::string& store :
       {concat("disk:", directory.path()), concat("slow:disk:", directory.path(), "?seek=30ms")}) {
    options.store = store;
    auto server = Server::start(options);
    ASSERT_THAT(server, IsOk());
    Peer client((*server)->address(), options.key);
    if (store.starts_with("disk")) {
      ASSERT_THAT(client.call(write_pieces(9, {{0, 1}, {1 << 20, (1 << 20) + 1}}), body).status, IsOk());
      continue;
    }
    Bytes back(body.size());
    const auto start = std::chrono::steady_clock::now();
    ASSERT_THAT(client.call(read_pieces(9, {{0, 1}, {1 << 20, (1 << 20) + 1}}), {}, back).status, IsOk());
    EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(60)) << "two pieces, two seeks";
    EXPECT_TRUE(back == body);
  }
}

TEST(ServerStartTest, OnlyServerZeroHasMetadata) {
  Options options;
  options.index = 1;
  options.address = {concat("local:server-one-", getpid())};
  options.key = net::Key::random();
  options.capacity_bytes = Offset{64} << 20;
  auto server = Server::start(options);
  ASSERT_THAT(server, IsOk());
  Peer client((*server)->address(), options.key);
  EXPECT_THAT(client.call(wire::LookupT{}).status, StatusIs(ErrorCode::kInvalidArgument, HasSubstr("server 0")));
}

}  // namespace
}  // namespace weir::server
