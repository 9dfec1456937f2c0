// SPDX-License-Identifier: Apache-2.0
// Method: one RPC as the door sees it, whatever its messages are. A method table maps full names to
// factories; the door makes one Method for each call, lets it parse the request, run on a reactor, and
// serialize the response. Private to src/control: it includes gRPC. A Method is used by one thread at a time.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/proto_buffer_reader.h>
#include <grpcpp/support/proto_buffer_writer.h>

#include "auth/grant.h"
#include "auth/rpc_auth.h"
#include "base/status.h"
#include "control/grpc_status.h"
#include "control/targets.h"
#include "rt/task.h"
#include "store/object_store.h"

namespace forebay::control {

/// Who calls, as it proved; nothing for a call of a public method.
using Caller = auth::Proven;

class Method {
 public:
  virtual ~Method() = default;
  /// InvalidArgument when the bytes are not the request's message.
  virtual Status Parse(grpc::ByteBuffer* request) = 0;
  /// What the parsed request names; views of it.
  virtual auth::Target target() const = 0;
  /// What else it must be allowed to do; views of it.
  virtual std::vector<Requirement> also() const = 0;
  /// Objects and runs of objects that the call changed, after Run: what it has cost beyond one operation.
  virtual uint64_t work() const = 0;
  /// On a reactor, once.
  virtual rt::Task<Status> Run(const Caller& caller, store::Context& context) = 0;
  virtual Status Serialize(grpc::ByteBuffer* response) = 0;
};

template <typename Request, typename Response>
class TypedMethod final : public Method {
 public:
  using Handler = std::function<rt::Task<Status>(const Caller&, store::Context&, const Request&, Response&)>;

  /// `handler` is borrowed from the method table, which outlives every call.
  explicit TypedMethod(const Handler& handler) : handler_(handler) {}

  Status Parse(grpc::ByteBuffer* request) override {
    if (grpc::SerializationTraits<Request>::Deserialize(request, &request_).ok()) return {};
    return Status::InvalidArgument("the request is not a valid {} (strings must be UTF-8)",
                                   Request::descriptor()->full_name());
  }
  auth::Target target() const override { return TargetOf(request_); }
  std::vector<Requirement> also() const override { return AlsoOf(request_); }
  uint64_t work() const override { return WorkOf(request_, response_); }
  rt::Task<Status> Run(const Caller& caller, store::Context& context) override {
    return handler_(caller, context, request_, response_);
  }
  Status Serialize(grpc::ByteBuffer* response) override {
    bool own_buffer = false;
    return FromGrpc(grpc::SerializationTraits<Response>::Serialize(response_, response, &own_buffer));
  }

 private:
  const Handler& handler_;
  Request request_;
  Response response_;
};

/// The name of a method that the policy has a row for: one without does not compile.
class MethodName {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor)
  consteval MethodName(const char* name) : name_(name) {
    if (auth::FindPolicy(name) == nullptr) throw "the method has no row in auth/policy.h";
  }
  std::string_view view() const { return name_; }

 private:
  std::string_view name_;
};

using MethodTable = std::map<std::string, std::function<std::unique_ptr<Method>()>, std::less<>>;

/// Adds the method `name` to `table`.
template <typename Request, typename Response>
void AddMethod(MethodTable* table, MethodName name,
               typename TypedMethod<Request, Response>::Handler handler) {
  auto kept = std::make_shared<typename TypedMethod<Request, Response>::Handler>(
      std::move(handler));  // by a copyable function
  table->emplace(name.view(), [kept] { return std::make_unique<TypedMethod<Request, Response>>(*kept); });
}

}  // namespace forebay::control
