// SPDX-License-Identifier: Apache-2.0
// Curve25519: signatures (Ed25519, RFC 8032) and key agreement (X25519, RFC 7748). A private key is a Secret, a
// public one 32 plain bytes. About 13,000 verifications a second and core: sign sessions, MAC requests.
// Thread-safe: holds no state.
#pragma once

#include <array>

#include "auth/secret.h"
#include "base/bytes.h"
#include "base/status.h"

namespace forebay::auth {

using PublicKey = std::array<std::byte, 32>;
using Signature = std::array<std::byte, 64>;

/// The Ed25519 key that belongs to `seed`.
PublicKey SigningKeyOf(const Secret& seed);
Signature Sign(const Secret& seed, ByteView message);
/// False for a wrong signature, a `key` that is no point of the curve, or a signature of another length.
bool IsSignedBy(const PublicKey& key, ByteView message, ByteView signature);

/// The X25519 key that belongs to `secret`: what one side of an agreement sends.
PublicKey KeyShareOf(const Secret& secret);
/// What both sides compute. InvalidArgument when `theirs` is one of the few points that would make it known to all.
Result<Secret> Agree(const Secret& mine, const PublicKey& theirs);

}  // namespace forebay::auth
