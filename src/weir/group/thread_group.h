#pragma once

#include <memory>
#include <vector>

#include <weir/group/group.h>

namespace weir::group {

/// Ranks that are threads of one process.  Each thread uses its own member; all members share what ranks tell each
/// other.
class ThreadGroup final : public Group {
 public:
  /// One member for each rank, in the order of ranks.
  /// \pre ranks >= 1
  static std::vector<std::unique_ptr<ThreadGroup>> create(int ranks, const Limit& limit = {});
  ~ThreadGroup() override;

  Status greatest(std::string_view call, std::span<std::uint64_t> words) override;
  Result<Offset> sum_below(std::string_view call, Offset value) override;
  Result<Offset> value_of(std::string_view call, int root, Offset value) override;
  Result<std::string> bytes_of(std::string_view call, int root, std::string mine) override;
  Result<std::vector<std::string>> gather(std::string_view call, const std::string& mine) override;
  Result<std::vector<Offset>> gather(std::string_view call, std::span<const Offset> mine) override;
  Status exchange(std::string_view call, const RankBuffers& out, const RankBuffers& in) override;
  /// Members hold nothing that outlives them: waits for nobody.
  void leave(std::string_view call) override;

 private:
  class Board;

  explicit ThreadGroup(std::shared_ptr<Board> board, int rank, int size);
  /// Shows `mine` to all ranks, and calls read(rank, theirs) for each rank when all have come.  Nobody looks at `mine`
  /// any more when this returns.
  template <typename Shown, typename Read>
  Status show(std::string_view call, const Shown& mine, Read read);

  std::shared_ptr<Board> board_;
};

}  // namespace weir::group
