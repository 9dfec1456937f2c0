// SPDX-License-Identifier: Apache-2.0
// What the ofi fabric does before a connection is an endpoint: preambles travel inside of the connection
// request and its answer, so that a stranger is refused before anything is spent on it. Thread-safe: what it
// works on is handed in.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "base/random.h"
#include "base/status.h"
#include "fabric/fabric.h"
#include "fabric/ofi_connection.h"
#include "fabric/ofi_domain.h"
#include "fabric/ofi_frames.h"
#include "fabric/ofi_library.h"
#include "rt/address.h"
#include "rt/operation.h"
#include "rt/reactor.h"
#include "rt/task.h"

namespace forebay::fabric {

/// Where endpoints get their protection domain from: a new one for each, or one for all.
class OfiDomains {
 public:
  OfiDomains(std::shared_ptr<OfiLibrary> library, bool share)
      : library_(std::move(library)), arenas_(std::make_shared<OfiArenas>()), share_(share) {}
  Result<std::shared_ptr<OfiDomain>> For(const fi_info& info);

  const std::shared_ptr<OfiLibrary>& library() const { return library_; }
  OfiArenas& arenas() { return *arenas_; }
  bool shared() const { return share_; }

 private:
  const std::shared_ptr<OfiLibrary> library_;  // shared with endpoints, which outlive the fabric
  const std::shared_ptr<OfiArenas> arenas_;    // the same
  const bool share_;
  base::Mutex mutex_;
  std::map<std::string, std::shared_ptr<OfiDomain>> shared_ FB_GUARDED_BY(mutex_);  // by libfabric's name
};

OfiPreamble OfiPreambleOf(const EndpointOptions& options, Role role);

/// On a thread that may block: looks for a route and asks for a connection. Unavailable when there is no way.
Result<std::unique_ptr<OfiLink>> StartDial(OfiDomains& domains, const rt::SocketAddress& address,
                                           const EndpointOptions& options);
/// Waits for the answer. Unavailable when nobody listens there, DeadlineExceeded, FailedPrecondition for
/// another version.
rt::Task<Result<OfiGreeted>> FinishDial(rt::Reactor& reactor, std::unique_ptr<OfiLink> link, std::string peer,
                                        EndpointOptions options, bool offers, base::TimePoint deadline);
/// The listener's part, for a connection request whose preamble was good: opens an endpoint and sends the
/// answer. The request is used up only when this succeeds; otherwise it must be refused.
Result<std::unique_ptr<OfiLink>> AcceptOfi(OfiDomains& domains, const fi_info& request,
                                           const EndpointOptions& options);
/// Waits until the connector is there.
rt::Task<Result<OfiGreeted>> FinishAccept(rt::Reactor& reactor, std::unique_ptr<OfiLink> link,
                                          OfiPreamble theirs, EndpointOptions options, bool offers,
                                          rt::OpOptions until);

}  // namespace forebay::fabric
