// SPDX-License-Identifier: Apache-2.0
// OfiListener: takes connection requests, refuses strangers, and greets the others, many at a time, so that a
// connection that dawdles holds up nobody; what is greeted waits in a bounded queue for Accept. When all
// places are taken, the longest ungreeted one has to go. Reactor-local. Destroyed after Close was awaited.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <string>

#include "base/random.h"
#include "fabric/fabric.h"
#include "fabric/ofi_greeting.h"
#include "rt/cancel.h"
#include "rt/channel.h"
#include "rt/gate.h"
#include "rt/sync.h"

namespace forebay::fabric {

class OfiListener final : public Listener {
 public:
  /// Connections that are being greeted or wait for Accept.
  static constexpr size_t kMaxWaiting = 256;

  /// `domains` and `random` are the fabric's, which outlives its listeners.
  static Result<std::unique_ptr<Listener>> Open(rt::Reactor& reactor, const rt::SocketAddress& address,
                                                EndpointOptions options, OfiDomains& domains,
                                                base::Random& random);
  ~OfiListener() override;

  std::string address() const override { return address_; }
  rt::Task<Result<std::unique_ptr<Endpoint>>> Accept(rt::Reactor& home) override;
  rt::Task<void> Close() override;

 private:
  struct Request {
    InfoHandle info;
    Bytes hello;
  };
  OfiListener(rt::Reactor& reactor, EndpointOptions options, OfiDomains& domains, base::Random& random);
  Status Listen(const rt::SocketAddress& address);
  rt::Task<void> RequestLoop();
  /// The next connection request that is there.
  std::optional<Request> NextRequest();
  rt::Task<void> Take(Request request);
  rt::Task<void> Greet(InfoHandle info, OfiPreamble theirs);
  void Refuse(const fi_info& info);

  rt::Reactor& reactor_;
  const EndpointOptions options_;
  OfiDomains& domains_;
  base::Random& random_;
  std::string address_;
  fid_fabric* fabric_ = nullptr;  // the library's
  FidHandle<fid_eq> events_;
  FidHandle<fid_pep> endpoint_;  // until Close
  int events_fd_ = -1;           // of libfabric's

  rt::CancelToken life_;  // cancelled by Close
  rt::Semaphore places_;
  std::list<rt::CancelToken> greeting_;  // oldest first
  rt::Channel<OfiGreeted> greeted_;
  rt::Gate accepting_;  // calls of Accept
  rt::Gate gate_;       // our coroutines
};

}  // namespace forebay::fabric
