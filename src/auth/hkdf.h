// SPDX-License-Identifier: Apache-2.0
// HKDF-SHA256 (RFC 5869): turns a secret and public nonces into keys for one purpose each. SessionKeyOf is
// the one use of it so far; both ends of a session call it, so the key never travels. Thread-safe: holds no
// state.
#pragma once

#include <array>

#include "auth/secret.h"
#include "base/bytes.h"
#include "base/ids.h"

namespace forebay::auth {

/// The longest output that the RFC allows.
constexpr size_t kMaxHkdfBytes = 255 * size_t{32};

/// Fills `out`, at most kMaxHkdfBytes (checked).
void HkdfSha256(ByteView input_key, ByteView salt, ByteView info, MutableByteView out);

using SessionNonce = std::array<std::byte, 32>;

/// HKDF(secret, client_nonce || server_nonce, "forebay session v1" || session id || tenant), numbers 8 bytes
/// little-endian.
Secret SessionKeyOf(const Secret& secret, const SessionNonce& client_nonce, const SessionNonce& server_nonce,
                    uint64_t session_id, TenantId tenant);

}  // namespace forebay::auth
