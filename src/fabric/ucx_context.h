// SPDX-License-Identifier: Apache-2.0
// UcxContext: the UCX library as Forebay lets it run. It decides which transports may carry a connection
// (only those whose hardware checks a memory key), turns UCX's caches, keep-alives and signal handlers off,
// and registers memory: exactly the given range, and no longer than until Unmap. One protection domain for
// all endpoints of a context. Thread-safe. Shared by a fabric and everything made from it: the last one
// closes the library.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <ucp/api/ucp.h>

#include "base/bytes.h"
#include "base/status.h"

namespace forebay::fabric {

/// What a status of UCX's means to a caller; adds the last thing that UCX logged on this thread, which names
/// the cause.
Status UcxError(ucs_status_t status, std::string_view what);

/// Ok for a comma-separated list of transports that check memory keys: rc, rc_verbs, rc_mlx5.
/// PermissionDenied with the reason for those that do not, InvalidArgument for anything else.
Status CheckUcxTransports(std::string_view transports);

class UcxContext {
 public:
  /// FailedPrecondition, with the way out, when no device of this machine speaks one of `transports`.
  static Result<std::shared_ptr<UcxContext>> Open(std::string_view transports);
  ~UcxContext();
  UcxContext(const UcxContext&) = delete;
  UcxContext& operator=(const UcxContext&) = delete;

  ucp_context_h handle() const { return handle_; }

  struct Mapping {
    ucp_mem_h handle = nullptr;  // null when unmapped, and for an empty range
    Bytes packed;                // the remote key, for the peer
  };
  /// ResourceExhausted with the way out when the memory cannot be pinned.
  Result<Mapping> Map(MutableByteView memory);
  /// When it has returned nothing of a peer's reaches the memory by this mapping. Twice is once.
  void Unmap(Mapping& mapping);

 private:
  explicit UcxContext(ucp_context_h handle) : handle_(handle) {}
  static Status CheckNoCache(UcxContext& context);
  ucp_context_h handle_;
};

/// The transports that `endpoint` really uses; PermissionDenied when one of them checks no key.
Result<std::string> VerifyUcxLanes(ucp_ep_h endpoint);

}  // namespace forebay::fabric
