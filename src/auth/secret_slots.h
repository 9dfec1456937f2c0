// SPDX-License-Identifier: Apache-2.0
// SecretSlots: memory for Secrets that no core file holds: pages of their own, left out by MADV_DONTDUMP, in slots that are handed
// out and taken back, wiped. One for the process, as the heap is: values know of no owner to ask. Private to Secret. Thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <memory>

namespace forebay::auth {

using SecretSlot = std::array<std::byte, 32>;

struct FreeSecretSlot {
  void operator()(SecretSlot* slot) const;
};
using SecretSlotPtr = std::unique_ptr<SecretSlot, FreeSecretSlot>;

/// All zero. When the system gives no pages of their own it is from the heap: a secret in a core file is better than none at all.
SecretSlotPtr NewSecretSlot();

}  // namespace forebay::auth
