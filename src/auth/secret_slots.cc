// SPDX-License-Identifier: Apache-2.0
#include "auth/secret_slots.h"

#include <sys/mman.h>

#include <new>
#include <vector>

#include "auth/secret.h"
#include "base/mutex.h"

namespace forebay::auth {
namespace {

constexpr size_t kPagesBytes = size_t{64} * 1024;  // taken from the system at once, and kept

class Slots {
 public:
  SecretSlot* Take() {
    const base::MutexLock lock(mutex_);
    if (free_.empty() && !Grow()) return new SecretSlot{};
    SecretSlot* const slot = free_.back();
    free_.pop_back();
    return slot;
  }
  void Give(SecretSlot* slot) {
    Wipe(*slot);
    const base::MutexLock lock(mutex_);
    if (!IsOurs(slot)) return delete slot;
    free_.push_back(slot);  // has room for all there are
  }

 private:
  bool Grow() FB_REQUIRES(mutex_) {
    void* const pages = mmap(nullptr, kPagesBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) return false;
    if (madvise(pages, kPagesBytes, MADV_DONTDUMP) != 0) {
      munmap(pages, kPagesBytes);
      return false;
    }
    auto* const slots = static_cast<SecretSlot*>(pages);
    pages_.push_back(slots);
    constexpr size_t kCount = kPagesBytes / sizeof(SecretSlot);
    free_.reserve(pages_.size() * kCount);
    for (size_t i = 0; i < kCount; ++i) free_.push_back(new (slots + i) SecretSlot{});
    return true;
  }
  bool IsOurs(const SecretSlot* slot) const FB_REQUIRES(mutex_) {
    for (const SecretSlot* const first : pages_) {
      if (slot >= first && slot < first + kPagesBytes / sizeof(SecretSlot)) return true;
    }
    return false;
  }

  base::Mutex mutex_;
  std::vector<SecretSlot*> pages_ FB_GUARDED_BY(mutex_);
  std::vector<SecretSlot*> free_ FB_GUARDED_BY(mutex_);
};

Slots& TheSlots() {
  // Never destroyed: secrets of static storage may go after it would.
  static auto* const slots = new Slots;
  return *slots;
}

}  // namespace

void FreeSecretSlot::operator()(SecretSlot* slot) const { TheSlots().Give(slot); }

SecretSlotPtr NewSecretSlot() { return SecretSlotPtr(TheSlots().Take()); }

}  // namespace forebay::auth
