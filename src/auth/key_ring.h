// SPDX-License-Identifier: Apache-2.0
// KeyRing: the server's signing keys. The newest signs new capabilities; older ones stay good for what they signed until that
// must have expired, so that a rotation interrupts nobody, or are dropped at once when one may have leaked. They live in
// a file that only its owner reads (docs/formats/capability.md). Thread-safe. Open and Rotate block on the file system.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "auth/curve25519.h"
#include "auth/secret.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/random.h"
#include "base/status.h"

namespace forebay::auth {

constexpr size_t kMaxSigningKeys = 16;

class KeyRing {
 public:
  /// Reads the ring in `path`, or makes one of one key when there is no such file. PermissionDenied when others can read
  /// it; InvalidArgument naming the line when its content is not right. `clock` and `random` are borrowed for the ring's life.
  static Result<std::unique_ptr<KeyRing>> Open(std::string path, const base::Clock& clock, base::Random& random);

  /// The key that signs.
  PublicKey current() const;
  /// True for a key whose signatures are still good.
  bool Holds(const PublicKey& key) const;
  /// Signs with a key of the ring; NotFound when it is not there any more.
  Result<Signature> SignWith(const PublicKey& key, ByteView message) const;

  /// A new key signs from now on. Older keys stay, but with `drop_old` none does. ResourceExhausted when too many keys are
  /// waiting for what they signed to expire. On an error the keys in use are as before.
  Status Rotate(bool drop_old);
  size_t size() const;

 private:
  struct Key {
    base::WallTime made;
    Secret seed;
    PublicKey key;
  };

  KeyRing(std::string path, const base::Clock& clock, base::Random& random)
      : path_(std::move(path)), clock_(clock), random_(random) {}
  Result<std::vector<Key>> Load() const;
  Status Save(const std::vector<Key>& keys);
  Key Make() const;

  const std::string path_;
  const base::Clock& clock_;  // borrowed
  base::Random& random_;      // borrowed
  base::Mutex rotating_;
  mutable base::Mutex mutex_;
  std::vector<Key> keys_ FB_GUARDED_BY(mutex_);  // oldest first, never empty
};

}  // namespace forebay::auth
