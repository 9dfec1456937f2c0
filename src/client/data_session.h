// SPDX-License-Identifier: Apache-2.0
// DataSession: one authenticated data connection, seen from the client: it signs and numbers requests,
// matches replies, and keeps the promise about buffers: when a call has returned, whatever the outcome, the
// server neither reads nor writes the memory it was given. A call that ends early first withdraws the memory,
// then asks the server to stop (Cancel), and fences the connection when no answer comes within a second. It
// knows no gRPC: whoever opens the session hands the key over. Reactor-local. Close has returned before it is
// destroyed.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "auth/mac.h"
#include "auth/secret.h"
#include "base/clock.h"
#include "base/status.h"
#include "fabric/fabric.h"
#include "rt/cancel.h"
#include "rt/forked.h"
#include "rt/gate.h"
#include "rt/sync.h"
#include "rt/task.h"
#include "wire/message.h"

namespace forebay::client {

/// How long the server may take to confirm that it has stopped.
constexpr base::Duration kCancelWithin = std::chrono::seconds(1);

/// What opening a session on the control plane gave.
struct SessionKey {
  uint64_t id = 0;
  TenantId tenant = TenantId::kNone;
  auth::Secret key;
};

/// A reply whose header says ok. `body` and `payload` are views of `message`.
struct Reply {
  Bytes message;
  ByteView body;
  ByteView payload;
};

/// What a call is given beside its body.
struct CallTerms {
  base::TimePoint deadline = base::kNever;
  OperationId operation;
  std::optional<fabric::RegionToken> region;  // withdrawn when the call returns
};

class DataSession {
 public:
  /// Takes over the endpoint, says Hello and gives the session, whose life it ends on an error.
  static rt::Task<Result<std::unique_ptr<DataSession>>> Open(std::unique_ptr<fabric::Endpoint> endpoint,
                                                             SessionKey key, base::TimePoint deadline);
  ~DataSession();
  DataSession(const DataSession&) = delete;
  DataSession& operator=(const DataSession&) = delete;

  /// Ends the connection: calls in progress fail with Unavailable(reason); returns when none is left.
  rt::Task<void> Close(Status reason);
  /// Ok while requests can be sent.
  const Status& state() const { return state_; }
  /// Keeps Close from returning; fails once the session has ended.
  Result<rt::Gate::Holder> Hold();

  /// One request and its reply; waits for a free place among those in flight first. The server's error,
  /// Unavailable when the connection is lost, DeadlineExceeded; InvalidArgument when the message would be too
  /// long. `body` and `payload` are the caller's until this returns.
  template <typename Body>
  rt::Task<Result<Reply>> Call(wire::Type type, const Body& body, ByteView payload, CallTerms terms);

  /// Offers `memory` for the call that follows without a suspension in between; empty memory gives an absent
  /// region.
  Result<fabric::RegionToken> Offer(MutableByteView memory, fabric::Direction direction,
                                    base::TimePoint deadline);

  /// A place among the streams that the server lets this connection have; waits for one. Of whoever does not care to be
  /// refused when there are too many.
  rt::Task<Result<rt::Units>> StreamPlace(base::TimePoint deadline);

  /// The server broke the protocol in what `call` found in its reply: ends the connection and gives the
  /// error.
  Status Distrust(const Status& why);

  rt::Reactor& reactor() const { return endpoint_->reactor(); }
  uint32_t max_inline_bytes() const { return max_inline_bytes_; }
  /// "127.0.0.1:7401".
  std::string peer() const { return endpoint_->peer(); }

 private:
  struct Pending {
    Pending(rt::Reactor& reactor, wire::Type of) : type(of), done(reactor) {}
    const wire::Type type;
    rt::Event done;
    Result<Reply> reply = Status::Internal("no reply yet");
  };

  DataSession(std::unique_ptr<fabric::Endpoint> endpoint, SessionKey key);

  rt::Task<Status> Hello(base::TimePoint deadline);
  rt::Task<void> ReceiveLoop();
  Status Accept(Bytes message);
  template <typename Body>
  Result<Bytes> Encode(wire::Type type, uint64_t request, const Body& body, ByteView payload,
                       const CallTerms& terms);
  rt::Forked Transmit(Bytes message);
  rt::Task<Result<Reply>> Await(Pending& pending, uint64_t request, rt::Units slot, CallTerms& terms);
  rt::Task<void> Withdraw(CallTerms& terms);
  rt::Task<void> CancelRemote(uint64_t request);
  rt::Task<void> End(Status why);

  const std::unique_ptr<fabric::Endpoint> endpoint_;
  const uint64_t id_;
  const TenantId tenant_;
  const auth::MessageMac mac_;
  Status state_;
  uint64_t sent_ = 0;
  uint64_t received_ = 0;
  uint64_t last_request_ = 0;
  uint32_t max_inline_bytes_ = 0;
  std::unordered_map<uint64_t, Pending*> pending_;  // in the frames of their calls
  std::unordered_map<uint64_t, rt::Units>
      abandoned_;  // calls that ended early; the server still owes a reply
  rt::CancelToken life_;
  rt::Gate gate_;
  rt::Semaphore slots_;  // requests in flight; one until Hello told how many
  rt::Semaphore streams_;
};

}  // namespace forebay::client
