// SPDX-License-Identifier: Apache-2.0
#include "auth/hkdf.h"

#include <algorithm>
#include <string>

#include "auth/mac.h"
#include "base/check.h"
#include "base/codec.h"

namespace forebay::auth {

void HkdfSha256(ByteView input_key, ByteView salt, ByteView info, MutableByteView out) {
  FB_CHECK(out.size() <= kMaxHkdfBytes);
  MessageMac::Tag extracted = MessageMac(salt).Compute(input_key);
  const MessageMac mac(extracted);
  Wipe(extracted);
  MessageMac::Tag block;
  size_t previous = 0;  // bytes of `block` that are the block before
  for (uint8_t counter = 1; !out.empty(); ++counter) {
    const std::byte count{counter};
    block = mac.Compute(ByteView(block).first(previous), info, std::span(&count, 1));
    previous = block.size();
    const size_t take = std::min(out.size(), block.size());
    std::memcpy(out.data(), block.data(), take);
    out = out.subspan(take);
  }
  Wipe(block);
}

Secret SessionKeyOf(const Secret& secret, const SessionNonce& client_nonce, const SessionNonce& server_nonce,
                    uint64_t session_id, TenantId tenant) {
  std::string salt;
  base::Encoder salt_encoder(&salt);
  salt_encoder.Raw(client_nonce);
  salt_encoder.Raw(server_nonce);
  std::string info;
  base::Encoder info_encoder(&info);
  info_encoder.Raw("forebay session v1");
  info_encoder.U64(session_id);
  info_encoder.U64(static_cast<uint64_t>(tenant));
  Secret key;
  HkdfSha256(secret.view(), AsBytes(salt), AsBytes(info), key.mutable_view());
  return key;
}

}  // namespace forebay::auth
