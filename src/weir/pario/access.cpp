#include <weir/pario/access.h>

namespace weir::pario {

client::AccessReport cost_between(const client::AccessReport& before, const client::AccessReport& after) {
  client::AccessReport cost;
  cost.messages = after.messages - before.messages;
  cost.index_bytes = after.index_bytes - before.index_bytes;
  cost.moved_bytes = after.moved_bytes - before.moved_bytes;
  cost.direct_bytes = after.direct_bytes - before.direct_bytes;
  cost.gathered_bytes = after.gathered_bytes - before.gathered_bytes;
  return cost;
}

}  // namespace weir::pario
