// SPDX-License-Identifier: Apache-2.0
#include "auth/session_exchange.h"

#include "base/codec.h"

namespace forebay::auth {

std::string ClientShareText(const SessionNonce& client_nonce, const PublicKey& client_share) {
  std::string text;
  base::Encoder encoder(&text);
  encoder.Raw("forebay session v1 client\n");
  encoder.Raw(client_nonce);
  encoder.Raw(client_share);
  return text;
}

std::string ServerShareText(const ServerShare& share) {
  std::string text;
  base::Encoder encoder(&text);
  encoder.Raw("forebay session v1 server\n");
  encoder.Raw(share.client_nonce);
  encoder.Raw(share.client_share);
  encoder.Raw(share.server_nonce);
  encoder.Raw(share.server_share);
  encoder.U64(share.session_id);
  encoder.U64(static_cast<uint64_t>(share.tenant));
  return text;
}

}  // namespace forebay::auth
