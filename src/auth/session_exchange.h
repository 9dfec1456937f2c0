// SPDX-License-Identifier: Apache-2.0
// How a client with a capability and a server agree on a session's key: X25519, each share signed, the client's by the capability's
// holder, the server's by the key that issued the capability. So both know whom they talk to, and the key is secret also from
// who reads everything that was said. docs/security.md describes it. Thread-safe: holds no state.
#pragma once

#include "auth/capability.h"
#include "auth/curve25519.h"
#include "auth/hkdf.h"
#include "base/bytes.h"
#include "base/ids.h"

namespace forebay::auth {

/// What the client's signature covers.
std::string ClientShareText(const SessionNonce& client_nonce, const PublicKey& client_share);

/// What the server's signature covers: the client's share again, so that an answer fits one question.
struct ServerShare {
  SessionNonce client_nonce;
  PublicKey client_share;
  SessionNonce server_nonce;
  PublicKey server_share;
  uint64_t session_id = 0;
  TenantId tenant = TenantId::kNone;
};
std::string ServerShareText(const ServerShare& share);

}  // namespace forebay::auth
