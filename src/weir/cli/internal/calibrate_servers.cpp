#include <weir/cli/internal/calibrate_servers.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include <unistd.h>

#include <weir/base/text.h>
#include <weir/embedded/embedded.h>
#include <weir/layout/language.h>

namespace weir::cli::internal {
namespace {

using MeasureClock = std::chrono::steady_clock;
using Bytes = std::vector<std::byte>;

constexpr std::size_t kTiny = 64;
constexpr std::size_t kMedium = std::size_t{64} << 10;
constexpr std::size_t kLarge = std::size_t{4} << 20;
constexpr double kLeastCost = 1e-12;  // seconds: a cost of nothing would decide everything

Result<client::File> make_file(const client::FileSystem& fs, const std::string& path) {
  WEIR_TRY(const layout::Partition one, layout::parse("stripe(unit=1M, over=1)"));
  return fs.create(path, one);
}

Result<double> write_seconds(const client::View& view, std::span<const std::byte> bytes, int times = 1) {
  const MeasureClock::time_point start = MeasureClock::now();
  for (int i = 0; i < times; ++i) WEIR_RETURN_IF_ERROR(view.write(0, bytes));
  return std::chrono::duration<double>(MeasureClock::now() - start).count() / times;
}

Result<model::Requests> measure_requests(const client::View& view, const Bytes& bytes, const model::Effort& effort) {
  constexpr int kTimes = 64;
  const std::span<const std::byte> all(bytes);
  WEIR_RETURN_IF_ERROR(view.write(0, all));  // connects, and makes room
  WEIR_TRY(const double tiny,
           model::median_seconds(effort, [&] { return write_seconds(view, all.first(kTiny), kTimes); }));
  WEIR_TRY(const double large, model::median_seconds(effort, [&] { return write_seconds(view, all); }));
  return model::Requests{std::max(tiny, kLeastCost),
                         std::max((large - tiny) / static_cast<double>(all.size()), kLeastCost)};
}

// The same bytes by message, in one and in many pieces.
Result<double> measure_piece(const client::File& file, const Bytes& bytes, const model::Effort& effort) {
  constexpr double kPieces = static_cast<double>(kMedium) / 8;
  const std::span<const std::byte> some = std::span(bytes).first(kMedium);
  WEIR_TRY(const layout::Element strided, layout::Element::create({{0, 7, 0, 1, {}}}, {.disp = 0, .period = 16}));
  WEIR_TRY(const client::View scattered, file.view(strided));
  WEIR_TRY(const client::View whole, file.linear());
  WEIR_RETURN_IF_ERROR(scattered.write(0, some));
  WEIR_TRY(const double many, model::median_seconds(effort, [&] { return write_seconds(scattered, some, 4); }));
  WEIR_TRY(const double one, model::median_seconds(effort, [&] { return write_seconds(whole, some, 4); }));
  return std::max((many - one) / kPieces, kLeastCost);
}

// Files of which nothing is mapped yet, written for the first and for the second time.
class FreshFiles {
 public:
  FreshFiles(const client::FileSystem& fs, const Bytes& bytes) : fs_(fs), bytes_(bytes) {}

  Result<double> write(std::size_t bytes, bool is_second) {
    const std::string path = concat("/fresh-", ++number_);
    WEIR_TRY(const client::File file, make_file(fs_, path));
    WEIR_TRY(const client::View view, file.linear());
    const std::span<const std::byte> some = std::span(bytes_).first(bytes);
    WEIR_TRY(const double first, write_seconds(view, some));
    double second = 0;
    if (is_second) {
      WEIR_TRY(second, write_seconds(view, some));
    }
    WEIR_RETURN_IF_ERROR(fs_.remove(path));
    return is_second ? second : first;
  }

 private:
  const client::FileSystem& fs_;
  const Bytes& bytes_;
  int number_ = 0;
};

Status measure_mapping(const Bytes& bytes, const model::Effort& effort, model::Memory& memory) {
  WEIR_TRY(const Embedded servers, embedded());
  FreshFiles files(servers.file_system(), bytes);
  WEIR_RETURN_IF_ERROR(files.write(kLarge, false).status());  // the first of all makes more than that
  WEIR_TRY(const double medium, model::median_seconds(effort, [&] { return files.write(kMedium, false); }));
  WEIR_TRY(const double large, model::median_seconds(effort, [&] { return files.write(kLarge, false); }));
  WEIR_TRY(const double warm, model::median_seconds(effort, [&] { return files.write(kLarge, true); }));
  const double new_byte = std::max((large - medium) / static_cast<double>(kLarge - kMedium), kLeastCost);
  memory.warm_byte_seconds = std::max(warm / static_cast<double>(kLarge), kLeastCost);
  memory.first_touch_byte_seconds = std::max(new_byte - memory.warm_byte_seconds, 0.0);
  memory.map_seconds = std::max(medium - static_cast<double>(kMedium) * new_byte, kLeastCost);
  return Status::ok();
}

}  // namespace

Status calibrate_servers(const model::Effort& effort, model::Io& io) {
  const Bytes bytes(kLarge, std::byte{1});
  {
    EmbeddedOptions by_message;
    by_message.direct = false;
    WEIR_TRY(const Embedded servers, embedded(by_message));
    WEIR_TRY(const client::File file, make_file(servers.file_system(), "/messages"));
    WEIR_TRY(const client::View view, file.linear());
    WEIR_TRY(io.server, measure_requests(view, bytes, effort));
    WEIR_TRY(io.memory.piece_seconds, measure_piece(file, bytes, effort));
  }
  WEIR_RETURN_IF_ERROR(measure_mapping(bytes, effort, io.memory));
  // Not a time that passes: room that nobody uses, as dear in comparison with messages as the built-in costs have it.
  const model::Io built_in;
  io.memory.idle_byte_seconds =
      io.server.byte_seconds * built_in.memory.idle_byte_seconds / built_in.server.byte_seconds;
  return Status::ok();
}

Result<model::Requests> calibrate_remote(const std::string& file_system, const model::Effort& effort) {
  client::ConnectOptions how;
  how.file_system = file_system;
  how.direct = false;
  WEIR_TRY(const client::FileSystem fs, client::FileSystem::connect(how));
  const std::string path = concat("/.weir-model-", ::getpid());
  const auto measure = [&]() -> Result<model::Requests> {
    WEIR_TRY(const client::File file, make_file(fs, path));
    WEIR_TRY(const client::View view, file.linear());
    return measure_requests(view, Bytes(kLarge, std::byte{1}), effort);
  };
  Result<model::Requests> requests = measure();
  const Status removed = fs.remove(path);
  if (requests.is_ok()) WEIR_RETURN_IF_ERROR(removed);
  return requests;
}

}  // namespace weir::cli::internal
