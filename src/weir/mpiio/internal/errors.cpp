#include <weir/mpiio/internal/errors.h>

#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

#include <weir/mpiio/internal/running.h>

namespace weir::mpiio::internal {

namespace {

constexpr std::size_t kCodesPerClass = 16;

class Codes {
 public:
  int give(int error_class, const std::string& message) {
    const std::lock_guard lock(mutex_);
    Turn& turn = turns_[error_class];
    if (turn.codes.size() < kCodesPerClass) {
      int code = MPI_SUCCESS;
      if (PMPI_Add_error_code(error_class, &code) != MPI_SUCCESS) return error_class;
      PMPI_Add_error_string(code, message.substr(0, MPI_MAX_ERROR_STRING - 1).c_str());
      turn.codes.push_back(code);
    }
    const int code = turn.codes[turn.next++ % kCodesPerClass];
    messages_[code] = message;
    return code;
  }

  std::optional<std::string> message(int code) {
    const std::lock_guard lock(mutex_);
    const auto found = messages_.find(code);
    if (found == messages_.end()) return std::nullopt;
    return found->second;
  }

 private:
  struct Turn {
    std::vector<int> codes;
    std::size_t next = 0;
  };
  std::mutex mutex_;
  std::map<int, Turn> turns_;
  std::unordered_map<int, std::string> messages_;
};

// Never destroyed: programs may ask for a message while they end.
Codes& codes() {
  static auto* const all = new Codes;
  return *all;
}

}  // namespace

int error_code(const Outcome& outcome) {
  if (outcome.is_ok() || !is_mpi_running()) return outcome.error_class();
  return codes().give(outcome.error_class(), outcome.message());
}

std::optional<std::string> message_of(int code) { return codes().message(code); }

}  // namespace weir::mpiio::internal
