// SPDX-License-Identifier: Apache-2.0
#include "control/grpc_status.h"

#include <cstdlib>
#include <mutex>

#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>

#include "control/handshake_log.h"

namespace forebay::control {

namespace {

/// Cuts at a character's border, so that what is left is UTF-8 still.
std::string_view Cut(std::string_view text) {
  if (text.size() <= kMaxErrorMessageBytes) return text;
  size_t size = kMaxErrorMessageBytes;
  while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xc0) == 0x80) --size;
  return text.substr(0, size);
}

}  // namespace

grpc::Status ToGrpc(const Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return {static_cast<grpc::StatusCode>(status.code()), std::string(Cut(status.message()))};
}

Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return {};
  return {CodeFromNumber(static_cast<uint64_t>(status.error_code())), status.error_message()};
}

void QuietLibraryLogs() {
  static std::once_flag once;  // the log functions are globals of the libraries
  std::call_once(once, [] {
    if (getenv("GRPC_VERBOSITY") != nullptr) return;
    gpr_set_log_function([](gpr_log_func_args* line) { TellHandshakeLog(line->message); });
    google::protobuf::SetLogHandler(nullptr);
  });
}

}  // namespace forebay::control
