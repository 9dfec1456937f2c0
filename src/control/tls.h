// SPDX-License-Identifier: Apache-2.0
// What gRPC needs for TLS on the control plane, made of the directory that --tls names, and, where a client's
// connection does not come about, why: gRPC keeps the reason to itself. Private to control. Thread-safe:
// functions.
#pragma once

#include <memory>
#include <string>

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include "auth/tls_files.h"
#include "base/clock.h"
#include "base/secure_channel.h"
#include "base/status.h"

namespace forebay::control {

/// Every client needs a certificate of the directory's authority. The files are looked at again every ten
/// seconds, so that new ones are used without a restart.
std::shared_ptr<grpc::ServerCredentials> ServerTls(const std::string& directory);
/// Of the files as they are now; the server's certificate must name the host that the channel is made for.
std::shared_ptr<grpc::ChannelCredentials> ChannelTls(const auth::TlsFiles& files);

/// Connects to `server` once more, by hand, and says what is in the way; ok when nothing is. `channels` is
/// null for a client without TLS. Blocks, for `limit` at most, and never for more than a few seconds.
Status FindTrouble(const std::string& server, base::SecureChannels* channels, base::Duration limit);

}  // namespace forebay::control
