#pragma once

// Step 1 of the protocol (shared_memory.h): how the memory of a subfile gets from a server to a client on the same host.
//
//   client ── Share{subfile} ──────────────> server     on the authenticated connection
//          <── Handover{process, descriptors}           a client of the same user opens them below /proc
//
// or, where that is not allowed (a server that runs for another user, in a namespace of its own):
//
//   client ── Share{subfile} ──────────────> server
//          <── Handover{socket, token} ────
//          ── token ───────────────────────> socket     abstract Unix socket of the server, SOCK_SEQPACKET
//          <── one byte, two descriptors ───            SCM_RIGHTS; without them if the token is not good
//
// A token is good once, for some seconds, and only for the user who asked: the kernel tells who is at the other end.  A
// descriptor that was asked for reading cannot be mapped for writing; readers need no write to the control page.  The
// second descriptor is the server's lifeline (lifeline.h): memory stays mapped when the server is gone, and what is
// written there then is lost.
//
// A crash of the client leaves an offer, which expires; a crash of the server leaves a socket that nobody answers.

#include <cstdint>
#include <span>
#include <string>

#include <weir/base/descriptor.h>
#include <weir/base/result.h>
#include <weir/runtime/runtime.h>

namespace weir::share {

struct Handed {
  Descriptor memory;
  Descriptor lifeline;
};

/// A descriptor of another process, and the file that it must be of.
struct Shown {
  int number = -1;
  std::uint64_t device = 0;
  std::uint64_t file = 0;

  /// \error kIoError
  static Result<Shown> of(int descriptor);
};

/// The server's end, for readers: the same file, read-only for good; a duplicate would keep the right to write.  Not open
/// if that fails, with errno.
Descriptor reopen_for_reading(int descriptor);

/// The client's end: opens what the process shows, the memory for reading and writing, the lifeline for reading.
/// \error kPermission if that is not allowed; kUnavailable if it is not there any more
Result<Handed> open_memory(int process, const Shown& memory, const Shown& lifeline);

/// The client's end: fetches what the server keeps for `token` from the abstract socket `socket`.
/// \error kPermission if the server does not accept the token, kUnavailable if it does not answer by the deadline
Result<Handed> fetch_memory(const std::string& socket, std::span<const std::uint8_t> token,
                            runtime::TimePoint deadline);

}  // namespace weir::share
