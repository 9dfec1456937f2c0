// SPDX-License-Identifier: Apache-2.0
#include "control/control_suite.h"

#include <future>

#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>

#include "control/grpc_status.h"

namespace forebay::control {

Status ControlTest::Call(const std::string& method, const std::vector<std::string>& proofs,
                         const std::string& request, bool compressed) {
  grpc::GenericStub stub(grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + 30s);
  if (compressed) context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
  for (const std::string& proof : proofs) context.AddMetadata(std::string(auth::kRpcAuthKey), proof);
  const grpc::Slice slice(request);
  const grpc::ByteBuffer bytes(&slice, 1);
  grpc::ByteBuffer response;
  std::promise<grpc::Status> done;
  stub.UnaryCall(&context, method, grpc::StubOptions(), &bytes, &response,
                 [&](grpc::Status status) { done.set_value(std::move(status)); });
  return FromGrpc(done.get_future().get());
}

}  // namespace forebay::control
