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

#include "auth/credentials.h"
#include "auth/policy.h"
#include "base/status.h"
#include "control/grpc_status.h"
#include "rt/task.h"
#include "store/object_store.h"

namespace forebay::control {

/// Who calls. Borrowed for the call.
struct Caller {
  auth::Credentials credentials;  // empty id for an anonymous call of a public method
  auth::RightSet rights;
};

class Method {
 public:
  virtual ~Method() = default;
  /// InvalidArgument when the bytes are not the request's message.
  virtual Status Parse(grpc::ByteBuffer* request) = 0;
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

using MethodTable = std::map<std::string, std::function<std::unique_ptr<Method>()>, std::less<>>;

/// Adds the method `name` ("/package.Service/Method") to `table`.
template <typename Request, typename Response>
void AddMethod(MethodTable* table, std::string name,
               typename TypedMethod<Request, Response>::Handler handler) {
  auto kept = std::make_shared<typename TypedMethod<Request, Response>::Handler>(
      std::move(handler));  // by a copyable function
  table->emplace(std::move(name), [kept] { return std::make_unique<TypedMethod<Request, Response>>(*kept); });
}

}  // namespace forebay::control
