// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "auth/capability.h"
#include "auth/capability_fuzz.h"
#include "base/check.h"

namespace forebay::auth {

bool FuzzCapability(ByteView input) {
  (void)HeldCapability::Parse(AsText(input));
  const Result<Capability> read = Capability::Decode(input);
  if (!read.ok()) return false;
  FB_CHECK(std::ranges::equal(read->encoded(), input));
  FB_CHECK(!read->blocks().empty() && read->blocks().size() <= kMaxCapabilityBlocks);
  for (size_t i = 0; i < read->blocks().size(); ++i) {
    const CapabilityBlock& block = read->blocks()[i];
    FB_CHECK(block.expires > block.issued && block.expires - block.issued <= kMaxCapabilityLifetime);
    if (i == 0) continue;
    const CapabilityBlock& parent = read->blocks()[i - 1];
    FB_CHECK(block.issuer == parent.holder && parent.rights.Contains(block.rights) && block.expires <= parent.expires);
  }
  (void)read->CheckSignatures();
  (void)read->ToGrant();
  return true;
}

}  // namespace forebay::auth
