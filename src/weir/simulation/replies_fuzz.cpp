// Servers whose answers to a client are damaged, replaced, drawn at random, those to other requests, or lost.
// Whatever comes, each operation of the client ends, and touches no memory but what it was given.
//
// Input: for each operation one byte that says which, and what it takes; for each answer one byte that says what
// becomes of it, and what that takes.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <weir/base/testing/fuzz_input.h>
#include <weir/base/text.h>
#include <weir/client/connection_file.h>
#include <weir/client/counter.h>
#include <weir/client/file_system.h>
#include <weir/layout/language.h>
#include <weir/log/log.h>
#include <weir/server/server.h>
#include <weir/simulation/network.h>
#include <weir/simulation/simulation.h>
#include <weir/storage/memory_store.h>
#include <weir/wire/testing/drawn_messages.h>
#include <weir/wire/wire.h>

namespace {

using namespace weir;
using testing::FuzzInput;
using testing::require;
using wire::testing::Drawer;
using wire::testing::Known;

constexpr std::size_t kServers = 2;
constexpr int kMostOperations = 24;
constexpr std::size_t kBytes = 3000;

/// What becomes of answers.
class Tampering {
 public:
  explicit Tampering(FuzzInput& in) : in_(in) {}

  void begin() { is_on_ = true; }

  [[nodiscard]] Result<net::Reply> change(Result<net::Reply> reply, std::span<std::byte> sink) {
    if (!reply.is_ok()) return reply;
    const auto decoded = wire::decode_reply(reply->head);
    if (decoded.is_ok()) known_.learn(*decoded);
    const net::Bytes real = reply->head;
    if (is_on_ && !in_.empty()) reply = changed(std::move(reply), sink);
    earlier_ = real;
    return reply;
  }

 private:
  Result<net::Reply> changed(Result<net::Reply> reply, std::span<std::byte> sink) {
    switch (in_.below(12)) {
      case 0: reply->head = wire::encode(Drawer(in_, known_).reply()); break;
      case 1: reply->head = wire::encode(mutated(*reply)); break;
      case 2: reply->head[in_.u16() % reply->head.size()] ^= std::byte{in_.byte()}; break;
      case 3: reply->head.resize(in_.u16() % (reply->head.size() + 1)); break;
      case 4: {
        const std::vector<std::uint8_t> any = in_.bytes(300);
        const auto bytes = std::as_bytes(std::span(any));
        reply->head.assign(bytes.begin(), bytes.end());
        break;
      }
      case 5: reply->body_bytes = std::min<std::size_t>(sink.size(), in_.u16()); break;
      case 6:
        if (!earlier_.empty()) reply->head = earlier_;
        break;
      case 7: {
        constexpr ErrorCode kCodes[] = {ErrorCode::kUnavailable, ErrorCode::kTimedOut, ErrorCode::kInvalidArgument};
        return Status(in_.one_of(kCodes), "no answer");
      }
      default: break;
    }
    return reply;
  }
  // The answer that it is, with something else about the file.
  wire::ReplyHeadT mutated(const net::Reply& reply) {
    auto decoded = wire::decode_reply(reply.head);
    require(decoded.is_ok(), "servers answer what can be decoded");
    if (in_.flag()) decoded->boot = in_.u64();
    if (decoded->answer.AsAttributes() != nullptr) {
      *decoded->answer.AsAttributes() = Drawer(in_, known_).attributes();
    }
    if (auto* listing = decoded->answer.AsListing()) {
      for (auto& entry : listing->entries) {
        if (in_.flag()) entry->name = in_.text(300);
        if (in_.flag()) entry->attributes = std::make_unique<wire::AttributesT>(Drawer(in_, known_).attributes());
      }
      if (in_.flag()) listing->is_complete = !listing->is_complete;
    }
    if (auto* info = decoded->answer.AsSubfileInfo()) {
      info->length = Drawer(in_, known_).length();
      info->file_end = Drawer(in_, known_).length();
    }
    if (auto* members = decoded->answer.AsMembers()) {
      if (in_.flag()) members->epoch = in_.u64();
      for (auto& target : members->targets) {
        if (in_.flag()) target->server = static_cast<std::uint32_t>(in_.number());
        if (in_.flag()) target->store_id = in_.u64();
      }
    }
    return std::move(*decoded);
  }

  FuzzInput& in_;
  bool is_on_ = false;
  Known known_;
  net::Bytes earlier_;
};

class TamperedConnection final : public net::Connection {
 public:
  TamperedConnection(std::unique_ptr<net::Connection> with, Tampering& tampering)
      : with_(std::move(with)), tampering_(tampering) {}
  void call(net::Call call) override {
    call.done = [sink = call.sink, done = std::move(call.done), &tampering = tampering_](Result<net::Reply> reply) {
      done(tampering.change(std::move(reply), sink));
    };
    with_->call(std::move(call));
  }
  [[nodiscard]] bool is_open() const override { return with_->is_open(); }
  [[nodiscard]] const net::Address& address() const override { return with_->address(); }

 private:
  std::unique_ptr<net::Connection> with_;
  Tampering& tampering_;
};

class TamperedCaller final : public net::Caller {
 public:
  TamperedCaller(std::unique_ptr<net::Caller> with, Tampering& tampering)
      : with_(std::move(with)), tampering_(tampering) {}
  std::unique_ptr<net::Connection> connect(const net::Address& address, const net::Key& key,
                                           net::Deadline deadline) override {
    return std::make_unique<TamperedConnection>(with_->connect(address, key, deadline), tampering_);
  }
  void progress() override { with_->progress(); }
  void wait(net::Deadline deadline) override { with_->wait(deadline); }
  void wake() override { with_->wake(); }

 private:
  std::unique_ptr<net::Caller> with_;
  Tampering& tampering_;
};

class TamperedNetwork final : public net::Network {
 public:
  TamperedNetwork(net::Network& with, Tampering& tampering) : with_(with), tampering_(tampering) {}
  Result<std::unique_ptr<net::Caller>> make_caller(const net::Address& address,
                                                   const runtime::Runtime& runtime) override {
    WEIR_TRY(std::unique_ptr<net::Caller> caller, with_.make_caller(address, runtime));
    return std::unique_ptr<net::Caller>(std::make_unique<TamperedCaller>(std::move(caller), tampering_));
  }
  Result<std::unique_ptr<net::Listener>> listen(const net::Address& address, const net::Key& secret,
                                                net::Handler& handler, const net::ListenOptions& options) override {
    return with_.listen(address, secret, handler, options);
  }

 private:
  net::Network& with_;
  Tampering& tampering_;
};

/// Errors are expected everywhere.
class Client {
 public:
  Client(client::FileSystem fs, FuzzInput& in) : fs_(std::move(fs)), in_(in) {}

  void step() {
    switch (in_.below(24)) {
      case 0: {
        const std::string name = path();
        const layout::Partition layout = partition();
        return keep(fs_.create(name, layout, {.exclusive = in_.flag()}));
      }
      case 1:
      case 2: return keep(fs_.open(path()));
      case 3: return (void)fs_.stat(path());
      case 4: return (void)fs_.remove(path());
      case 5: return (void)fs_.make_directory(path());
      case 6: {
        const std::string from = path();
        return (void)fs_.rename(from, path());
      }
      case 7: return list();
      case 8: return (void)fs_.set_mode(path(), 0600);
      case 9:
      case 10: {
        const std::string name = path();
        const layout::Partition layout = partition();
        return in_.flag() ? (void)fs_.set_layout(name, layout) : (void)fs_.relayout(name, layout);
      }
      case 11: return (void)fs_.sync();
      case 12: return (void)fs_.usage(in_.flag());
      case 13: return (void)fs_.server_status();
      case 14: {
        client::CheckOptions options;
        options.repair = in_.flag();
        options.read_data = in_.flag();
        return (void)fs_.check(options);
      }
      case 15: return (void)fs_.target_hosts();
      case 16: return use_counter();
      default: return use_file();
    }
  }

 private:
  std::string path() {
    constexpr const char* kPaths[] = {"/x", "/y", "/d", "/d/z"};
    return in_.one_of(kPaths);
  }
  layout::Partition partition() {
    constexpr const char* kLayouts[] = {"stripe(unit=16, over=2)", "stripe(unit=4K, over=1)",
                                        "hpf(shape=[64,64], dist=(BLOCK,CYCLIC(2)), grid=[2,1])"};
    return *layout::parse(in_.one_of(kLayouts));
  }
  void keep(Result<client::File> file) {
    if (file.is_ok()) file_ = std::move(*file);
  }
  // Programs make local files of these names.
  void list() {
    const auto entries = fs_.list("/");
    if (!entries.is_ok()) return;
    for (const client::Entry& entry : *entries) {
      const bool is_one_name = !entry.name.empty() && entry.name != "." && entry.name != ".." &&
                               entry.name.find_first_of(std::string_view("/\0", 2)) == std::string::npos;
      require(is_one_name, "what is listed is a name");
    }
  }
  void use_counter() {
    const auto counter = fs_.make_counter(3);
    if (counter.is_ok()) (void)counter->fetch_add(2);
  }
  void use_file() {
    if (!file_) return keep(fs_.open("/x"));
    switch (in_.below(12)) {
      case 0: return (void)file_->size();
      case 1: return (void)file_->truncate(in_.u16());
      case 2: return (void)file_->preallocate(in_.u16());
      case 3: return (void)file_->sync();
      case 4: return (void)file_->refresh();
      case 5: return (void)file_->lock(0, 100, in_.flag());
      case 6: {
        // As another process would be told it.
        std::vector<std::byte> told = file_->describe();
        if (!told.empty() && in_.flag()) told[in_.u16() % told.size()] ^= std::byte{in_.byte()};
        return in_.flag() ? (void)file_->refresh(told) : keep(fs_.open_described("/x", told));
      }
      default: return access();
    }
  }
  void access() {
    const auto element = file_->layout().element(0);
    const auto view = in_.flag() && element.is_ok() ? file_->view(*element) : file_->linear();
    if (!view.is_ok()) return;
    // Of its own on the heap, so that a sanitizer sees a byte too much.
    std::vector<std::byte> memory(in_.u16() % kBytes, std::byte{1});
    const Offset from = in_.u16();
    switch (in_.below(4)) {
      case 0: return (void)view->write(from, memory);
      case 1: return (void)view->read(from, memory);
      case 2: return (void)view->start_read(from, memory).wait();
      default: {
        const std::span<std::byte> all(memory);
        const std::vector<client::ReadPart> parts{{from, all.first(all.size() / 2)},
                                                  {from + 5000, all.subspan(all.size() / 2)}};
        return (void)view->read(parts);
      }
    }
  }

  client::FileSystem fs_;
  FuzzInput& in_;
  std::optional<client::File> file_;
};

class Servers {
 public:
  Servers() : network(simulation) {
    for (std::size_t i = 0; i < kServers; ++i) addresses.push_back({concat("sim:server-", i)});
  }
  void start() {
    for (std::size_t i = 0; i < kServers; ++i) {
      server::Options options;
      options.index = static_cast<std::uint32_t>(i);
      options.address = addresses[i];
      options.key = key;
      options.share_memory = false;
      options.runtime = simulation.runtime();
      options.network = &network.of(concat("server-", i));
      auto store = storage::make_memory_store(
          {.capacity_bytes = Offset{256} << 20, .pool_regions = 0, .runtime = simulation.runtime()});
      auto started =
          server::Server::start(options, std::move(*store), i == 0 ? storage::make_memory_key_value() : nullptr);
      require(started.is_ok(), "start");
      servers_.push_back(std::move(*started));
    }
    for (const auto& server : servers_) require(server->set_members(addresses).is_ok(), "set_members");
  }
  void stop() { servers_.clear(); }

  simulation::Simulation simulation{1};
  simulation::Network network;
  net::Key key{std::vector<std::byte>(32, std::byte{7}), net::Key::Holder::kServers};
  std::vector<net::Address> addresses;

 private:
  std::vector<std::unique_ptr<server::Server>> servers_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  log::set_level(log::Level::kOff);
  FuzzInput in(data, size);
  Servers servers;
  Tampering tampering(in);
  TamperedNetwork network(servers.network.of("client"), tampering);
  servers.simulation.spawn("client", [&] {
    servers.start();
    if (in.flag()) tampering.begin();  // while it connects, too
    client::ConnectOptions options;
    options.direct = false;
    options.timeout = std::chrono::seconds(2);
    options.runtime = servers.simulation.runtime();
    options.network = &network;
    if (auto fs = client::FileSystem::connect(client::ConnectionFile{servers.key, servers.addresses}, options);
        fs.is_ok()) {
      tampering.begin();
      Client client(std::move(*fs), in);
      for (int i = 0; i < kMostOperations && !in.empty(); ++i) client.step();
    }
    servers.stop();
  });
  const Status ended = servers.simulation.run(std::chrono::hours(100'000));
  require(ended.is_ok(), concat("the client hangs: ", ended.message()));
  return 0;
}
