// SPDX-License-Identifier: Apache-2.0
// What the shm fabric does with a Unix socket before it is an endpoint: addresses, listening, whom to talk
// to, and the exchange of hellos and shared memory. Each step has a deadline and a token; of the descriptors
// that a peer sends, one is taken and none is left open. Reactor-local.
#pragma once

#include <sys/types.h>
#include <sys/un.h>

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "fabric/byte_stream.h"
#include "fabric/fabric.h"
#include "fabric/socket.h"
#include "fabric/stream_listener.h"
#include "rt/operation.h"
#include "rt/reactor.h"
#include "rt/task.h"

namespace forebay::fabric {

struct ShmOptions {
  size_t ring_bytes = 2 * base::kMiB;  ///< of this side's ring: a power of two from 4 KiB to 16 MiB
  std::vector<uid_t> allowed_users;    ///< besides the one that this process runs as, and root
  bool borrows = false;                ///< takes payload that a peer lends instead of sending it
  std::shared_ptr<LentBlocks> lent{};  ///< what is lent to peers that borrow; null: nothing
};

/// "/path/of/socket", or "@name" in the kernel's table of names ("@" alone: let it choose).
class ShmAddress {
 public:
  /// InvalidArgument for anything else, or what is too long for a socket.
  static Result<ShmAddress> Parse(const std::string& text);
  static ShmAddress Of(const sockaddr_un& address, socklen_t size);

  const std::string& text() const { return text_; }
  /// Empty for a name.
  std::string path() const { return text_.starts_with('/') ? text_ : std::string(); }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address_); }
  socklen_t size() const { return size_; }

 private:
  std::string text_;
  sockaddr_un address_{};
  socklen_t size_ = 0;
};

/// FailedPrecondition when somebody listens there. A socket that a dead process left behind is replaced.
Result<std::unique_ptr<ListeningSocket>> ListenShm(const ShmAddress& address, ShmOptions shm);

/// Connects and greets. Unavailable when nobody listens there, PermissionDenied when it is a user that is not
/// allowed, DeadlineExceeded, FailedPrecondition for another version.
rt::Task<Result<Greeted>> DialShm(rt::Reactor& reactor, ShmAddress address, EndpointOptions options,
                                  ShmOptions shm, base::TimePoint deadline);

}  // namespace forebay::fabric
