// SPDX-License-Identifier: Apache-2.0
// The mapping between Status and grpc::Status (the codes are the same numbers; messages are cut to what fits
// a header), and the switch that keeps the logs of gRPC and protobuf out of the program's output. Private to
// src/control: it includes gRPC. Thread-safe.
#pragma once

#include <grpcpp/support/status.h>

#include "base/status.h"

namespace forebay::control {

/// HTTP/2 headers are limited to 8 KiB by most peers, and a message may grow threefold when it is escaped.
constexpr size_t kMaxErrorMessageBytes = 2048;

grpc::Status ToGrpc(const Status& status);
Status FromGrpc(const grpc::Status& status);

/// gRPC and protobuf write to stderr on their own account (each failed connect, each string that is no
/// UTF-8). Ours says what matters in a Status, so this turns them off, once for the process, unless
/// GRPC_VERBOSITY is set in the environment.
void QuietLibraryLogs();

}  // namespace forebay::control
