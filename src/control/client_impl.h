// SPDX-License-Identifier: Apache-2.0
// ControlClient::Impl: the channel, the stubs, and one signed call. Private to src/control: it includes gRPC. Thread-safe.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <grpcpp/create_channel.h>

#include "auth/tls_context.h"
#include "control/client.h"
#include "control/convert.h"
#include "control/grpc_status.h"
#include "control/tls.h"
#include "wire/control.grpc.pb.h"

namespace forebay::control {

class ControlClient::Impl {
 public:
  Impl(Options options, const std::string& target, auth::Identity identity, std::unique_ptr<auth::TlsContext> tls,
       const base::Clock& clock, base::Random& random);

  /// One signed call of `name` ("Buckets/List") through its stub's function.
  template <typename Stub, typename Request, typename Response>
  Status Call(std::string_view name, const std::unique_ptr<Stub>& stub,
              grpc::Status (Stub::*function)(grpc::ClientContext*, const Request&, Response*),
              const std::type_identity_t<Request>& request, std::type_identity_t<Response>* response,
              base::Duration timeout) {
    const std::string path = "/forebay.control.v1." + std::string(name);
    const base::Duration limit =
        std::min(timeout > base::Duration::zero() ? timeout : options_.call_timeout, base::kMaxWait);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::duration_cast<std::chrono::system_clock::duration>(limit));
    const std::string proof = auth::SignRpc(identity_, path, clock_.WallNow(), random_);
    if (!proof.empty()) context.AddMetadata(std::string(auth::kRpcAuthKey), proof);
    const base::TimePoint deadline = base::DeadlineAfter(clock_.Now(), limit);
    return Explain(((*stub).*function)(&context, request, response), limit, deadline);
  }

  Result<ClientSession> OpenSession(base::Duration timeout);
  const std::string& server() const { return options_.server; }

  std::unique_ptr<pb::Sessions::Stub> sessions;
  std::unique_ptr<pb::Buckets::Stub> buckets;
  std::unique_ptr<pb::Namespace::Stub> objects;
  std::unique_ptr<pb::Uploads::Stub> uploads;
  std::unique_ptr<pb::Tenants::Stub> tenants;
  std::unique_ptr<pb::Keys::Stub> keys;
  std::unique_ptr<pb::Capabilities::Stub> capabilities;
  std::unique_ptr<pb::Admin::Stub> admin;

 private:
  Result<auth::Secret> SharedSecret(const auth::Secret& mine, const auth::SessionNonce& client_nonce,
                                    const auth::SessionNonce& server_nonce,
                                    const pb::OpenSessionResponse& response) const;
  /// The server's errors as they are; what gRPC itself says about connections in words that help.
  Status Explain(const grpc::Status& status, base::Duration limit, base::TimePoint deadline) const;

  const Options options_;
  const auth::Identity identity_;
  const std::unique_ptr<auth::TlsContext> tls_;  // to find out what is wrong; null without TLS
  const base::Clock& clock_;
  base::Random& random_;
  std::shared_ptr<grpc::Channel> channel_;  // shared with the stubs, as gRPC wants it
};

}  // namespace forebay::control
