#pragma once

// What every store has to do, as one suite of tests (store_conformance_test.cpp).  A store joins it from its own
// *_test.cpp:
//
//   class DiskHome final : public StoreHome {  // a temporary directory, removed by the destructor
//    public:
//     Result<std::unique_ptr<Store>> open(Offset capacity_bytes) override { return open_disk_store({...}); }
//   };
//   INSTANTIATE_TEST_SUITE_P(Disk, StoreConformance,
//                            ::testing::Values(StoreCase{.name = "plain", .make_home = [] { return std::make_unique<DiskHome>(); },
//                                                        .is_durable = true}),
//                            StoreCaseName{});
//
// Each test makes a home of its own and opens it; if the store is durable, the store is closed and the home opened
// again, and everything must still be there.  What a store cannot do is said by a flag of its case, never by a test of
// its own.

#include <functional>
#include <memory>
#include <ostream>
#include <string>

#include <gtest/gtest.h>

#include <weir/base/checked.h>
#include <weir/base/result.h>
#include <weir/storage/store.h>

namespace weir::storage::internal {

/// Where a store keeps what it keeps.
class StoreHome {
 public:
  virtual ~StoreHome() = default;
  /// `capacity_bytes`: room that the store may take; 0: plenty.  Not called while a store opened before is alive.
  virtual Result<std::unique_ptr<Store>> open(Offset capacity_bytes) = 0;
};

struct StoreCase {
  std::string name;
  std::function<std::unique_ptr<StoreHome>()> make_home;
  bool is_durable = false;              ///< Opening the home again gives what was there.
  bool has_capacity = true;             ///< open() can limit the room.
  Offset far_offset = Offset{1} << 50;  ///< The farthest that is written and read.
  Offset many_subfiles = 20000;
};

struct StoreCaseName {
  std::string operator()(const ::testing::TestParamInfo<StoreCase>& info) const { return info.param.name; }
};

inline void PrintTo(const StoreCase& store_case, std::ostream* out) { *out << store_case.name; }

class StoreConformance : public ::testing::TestWithParam<StoreCase> {
 protected:
  void SetUp() override;
  void open(Offset capacity_bytes = 0);
  /// Closes and opens a durable store; does nothing to others.
  void reopen();

  std::unique_ptr<StoreHome> home_;
  std::unique_ptr<Store> store_;
};

}  // namespace weir::storage::internal
