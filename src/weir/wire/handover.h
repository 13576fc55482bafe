#pragma once

// How the memory of a subfile gets from a server to a client on the same host.
//
//   client ── Share{subfile} ──────────────> server     on the authenticated connection
//          <── Handover{process, descriptors}             a client of the same user opens them below /proc
//
// or, where that is not allowed (a server that runs for another user, in a namespace of its own):
//
//   client ── Share{subfile} ──────────────> server
//          <── Handover{socket, token} ────
//          ── token ───────────────────────> socket     abstract Unix socket of the server, SOCK_SEQPACKET
//          <── one byte, two descriptors ───            SCM_RIGHTS; without them if the token is not good
//
// A token is good once, for some seconds, and only for the user who asked: the kernel tells who is at the other end.  A
// descriptor that was asked for reading cannot be mapped for writing; readers need no write to Control.  The second is
// the server's lifeline (lifeline.h): memory stays mapped when the server is gone, and what is written there then is
// lost.

#include <chrono>
#include <cstdint>
#include <span>
#include <string>

#include <weir/base/result.h>

namespace weir::wire {

/// Descriptors, for the caller to close.
struct Handed {
  int memory = -1;
  int lifeline = -1;
};

/// A descriptor of another process, and the file that it must be of.
struct Shown {
  int number = -1;
  std::uint64_t device = 0;
  std::uint64_t file = 0;

  /// \error kIoError
  static Result<Shown> of(int descriptor);
};

/// The calling end: opens what the process shows, for reading and writing, and its lifeline for reading.
/// \error kPermission if that is not allowed; kUnavailable if it is not there any more
Result<Handed> open_memory(int process, const Shown& memory, const Shown& lifeline);

/// The calling end: what the server keeps for `token`, from the abstract socket `socket`.
/// \error kPermission if the server does not take the token, kUnavailable if it does not answer in time
Result<Handed> fetch_memory(const std::string& socket, std::span<const std::uint8_t> token,
                            std::chrono::milliseconds timeout = std::chrono::milliseconds(2000));

}  // namespace weir::wire
