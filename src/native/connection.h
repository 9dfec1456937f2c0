// SPDX-License-Identifier: Apache-2.0
// Connection: one client's endpoint on the server, from its Hello to its fence. It verifies each message
// (MAC, counter), starts a coroutine per request, bounded in number, and signs the replies. What breaks the
// protocol fences; what is merely wrong gets a reply. Reactor-local. Lives until Run has returned.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "auth/audit.h"
#include "auth/mac.h"
#include "auth/policy.h"
#include "auth/rate_limits.h"
#include "auth/session_table.h"
#include "base/log.h"
#include "fabric/fabric.h"
#include "native/admission.h"
#include "native/allowance.h"
#include "native/options.h"
#include "native/open_readers.h"
#include "native/put_stream.h"
#include "native/request.h"
#include "rt/gate.h"
#include "rt/sync.h"
#include "rt/timer.h"
#include "store/object_store.h"
#include "wire/message.h"

namespace forebay::native {

/// What all connections of one reactor share. Borrowed from the server, which outlives them.
struct Services {
  rt::Reactor& reactor;
  store::ObjectStore& store;
  auth::SessionTable& sessions;
  const ServerOptions& options;
  base::Log& log;
  auth::Audit& audit;
  auth::RateLimits& rates;
  Admission& admission;         // to the bytes of store buffers that requests may hold
  size_t request_window_bytes;  // of them, one request
  rt::WaitGroup& busy;          // requests and streams in progress
};

class Connection {
 public:
  Connection(Services services, std::unique_ptr<fabric::Endpoint> endpoint);
  ~Connection();

  /// Serves until the connection ends, and then until nothing of it runs any more.
  rt::Task<void> Run();
  /// From now on new work is answered Unavailable; what runs, and streams that are open, may finish.
  void Drain() { draining_ = true; }
  /// Makes Run end soon.
  void Fence(Status reason);

  // ---- for the request handlers ----

  Services& services() { return services_; }
  fabric::Endpoint& endpoint() { return *endpoint_; }
  PutStreams& streams() { return streams_; }
  OpenReaders& readers() { return readers_; }
  Allowance& allowance() { return *allowance_; }
  /// Ok when the session's grant allows a request of `type` on that object; PermissionDenied, audited, when not. A handler asks for
  /// each object that its request names, before it does anything for it.
  Status CheckAllowed(wire::Type type, std::string_view bucket, std::string_view key);

  /// Signs and sends the reply; await it in the same expression, because the counter is taken here. Failures
  /// are the receive loop's to notice.
  template <typename Body>
  rt::Task<Status> Reply(const Request& request, const Body& body, std::vector<base::Buffer> payload = {}) {
    size_t payload_bytes = 0;
    for (const base::Buffer& buffer : payload) payload_bytes += buffer.size();
    return Transmit(wire::EncodeHead(ReplyTo(request.header, Code::kOk), body, payload_bytes),
                    std::move(payload));
  }
  rt::Task<Status> ReplyError(const wire::Header& request, const Status& error);

 private:
  rt::Task<Status> Serve();
  rt::Task<Status> Greet();
  /// Fences when the session is closed or revoked, wherever that happens, and when its grant expires.
  Status WatchSession(uint64_t session);
  Result<wire::MessageView> Verify(Bytes& message, const auth::MessageMac& mac, uint64_t session);
  Status CheckAdmissible(const wire::Header& header);
  Status Start(Bytes message, const wire::MessageView& view);
  rt::Task<void> Handle(std::unique_ptr<Request> request);
  rt::Task<void> HandleCancel(Request& request);
  /// Takes the next counter: what is made of it must be sent before anything else.
  wire::Header ReplyTo(const wire::Header& request, Code status);
  rt::Task<Status> Transmit(Bytes head, std::vector<base::Buffer> payload);

  Services services_;
  const std::unique_ptr<fabric::Endpoint> endpoint_;
  std::optional<auth::SessionGrant> grant_;  // after Hello
  std::optional<auth::MessageMac> mac_;
  std::optional<Allowance> allowance_;
  struct Watch;                   // what a session's end is told to
  std::shared_ptr<Watch> watch_;  // shared with the session table's callback, which may come late
  rt::Timer expiry_;
  uint64_t received_ = 0;
  uint64_t sent_ = 0;
  bool draining_ = false;
  rt::Gate gate_;
  std::unordered_map<uint64_t, Request*> running_;  // by request number; owned by their coroutines
  PutStreams streams_;
  OpenReaders readers_;
};

/// Version 0 is the current one.
rt::Task<Result<std::unique_ptr<store::ObjectReader>>> OpenReader(store::ObjectStore& store,
                                                                  const store::Context& context,
                                                                  std::string_view bucket, std::string_view key,
                                                                  uint64_t version, std::string_view if_match);
/// FailedPrecondition unless the object is what `if_match` names, if anything.
Status CheckETag(std::string_view bucket, std::string_view if_match, const store::ObjectInfo& object);

// The handlers, each in its own file. They decode the body, do the work and reply, errors included.
rt::Task<void> HandleGet(Connection& connection, Request& request);
rt::Task<void> HandlePut(Connection& connection, Request& request);
rt::Task<void> HandleExists(Connection& connection, Request& request);
rt::Task<void> HandleStat(Connection& connection, Request& request);
rt::Task<void> HandleOpen(Connection& connection, Request& request);
rt::Task<void> HandleRead(Connection& connection, Request& request);
rt::Task<void> HandleClose(Connection& connection, Request& request);
rt::Task<void> HandlePutBegin(Connection& connection, Request& request);
rt::Task<void> HandleOverwriteBegin(Connection& connection, Request& request);
rt::Task<void> HandlePartBegin(Connection& connection, Request& request);
rt::Task<void> HandlePutData(Connection& connection, Request& request);
rt::Task<void> HandlePutCommit(Connection& connection, Request& request);
rt::Task<void> HandlePutAbort(Connection& connection, Request& request);

}  // namespace forebay::native
