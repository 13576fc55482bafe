#pragma once

// UCX, loaded when it is first needed: programs whose servers are on their own host never do.  Loading takes 5 ms, and
// changes the program: UCX handles its crashes, and puts its own code in front of mmap and others.

#include <ucp/api/ucp.h>

#include <weir/base/result.h>

namespace weir::net::internal {

#define WEIR_UCX_CALLS(CALL)           \
  CALL(ucp_am_recv_data_nbx)           \
  CALL(ucp_am_send_nbx)                \
  CALL(ucp_cleanup)                    \
  CALL(ucp_config_modify)              \
  CALL(ucp_config_read)                \
  CALL(ucp_config_release)             \
  CALL(ucp_ep_close_nbx)               \
  CALL(ucp_ep_create)                  \
  CALL(ucp_init_version)               \
  CALL(ucp_listener_create)            \
  CALL(ucp_listener_destroy)           \
  CALL(ucp_listener_query)             \
  CALL(ucp_listener_reject)            \
  CALL(ucp_request_check_status)       \
  CALL(ucp_request_free)               \
  CALL(ucp_worker_arm)                 \
  CALL(ucp_worker_create)              \
  CALL(ucp_worker_destroy)             \
  CALL(ucp_worker_flush_nbx)           \
  CALL(ucp_worker_get_efd)             \
  CALL(ucp_worker_progress)            \
  CALL(ucp_worker_set_am_recv_handler) \
  CALL(ucs_status_string)

struct Ucx {
#define WEIR_UCX_MEMBER(name) decltype(&::name) name = nullptr;
  WEIR_UCX_CALLS(WEIR_UCX_MEMBER)
#undef WEIR_UCX_MEMBER
};

/// \error kUnavailable if UCX is not installed, or too old.  \threadsafety Safe.
Status load_ucx();

/// \pre load_ucx() was OK
const Ucx& ucx_calls() noexcept;

}  // namespace weir::net::internal
