// SPDX-License-Identifier: Apache-2.0
// Movers: the fabrics that this build and this machine have, by name, best first, and of those that cannot be
// used why not and how to get them. Used by whoever chooses: the server what to offer, the client what to
// take, `doctor` what to tell. A mover is looked for when it is first asked for, since that may take a while.
// Thread-safe.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/arena.h"
#include "base/random.h"
#include "base/secure_channel.h"
#include "fabric/fabric.h"

namespace forebay::fabric {

/// A mover as such, whether it is here or not.
struct MoverKind {
  std::string_view name;
  std::string_view what;  // for people
  bool automatic;         // taken without being asked for by name
  bool network;           // its addresses are "host:port", and reach other machines
  bool encrypted = false;
};
constexpr size_t kMoverKinds = 6;
/// All that this version knows, best first.
std::span<const MoverKind, kMoverKinds> MoverKinds();
/// `name` is one of them.
const MoverKind& KindOf(std::string_view name);
/// InvalidArgument, naming all, for a name that is none of them. `ofi:verbs` is `ofi;verbs`, for shells.
Result<std::string> ParseMoverName(std::string_view text);

struct MoverReport {
  std::string name;
  std::string what;
  bool usable = false;
  std::string found;   // what it would use here; when it cannot be used, why not
  std::string remedy;  // what to do to get it; empty when it is usable
};

/// Which end of connections the movers are for.
enum class Side : uint8_t {
  kClient,  // offers memory: each connection keeps its registrations to itself
  kServer,  // offers none, has many connections: they share one registration of each arena
};

class Movers {
 public:
  /// `random` is borrowed, thread-safe, and makes keys. `secure`, borrowed as well, is of the same side: without it there is no
  /// `tcp;tls`. A server lends up to `lend_bytes` of payload to clients over shm (LentBlocks); 0: none.
  Movers(base::Random& random, Side side, base::SecureChannels* secure = nullptr, size_t lend_bytes = 0)
      : random_(random), side_(side), secure_(secure), lend_bytes_(lend_bytes) {}

  /// Null when it cannot be used here.
  Fabric* Find(std::string_view name) const;
  /// Those to be taken without being asked for, best first.
  std::vector<Fabric*> automatic() const;
  /// One for each kind, best first.
  std::vector<MoverReport> reports() const;
  /// What it would use here; when it cannot be used, why not.
  const std::string& Detail(std::string_view name) const;
  /// Why a mover that Find does not know cannot be used, and what to do.
  Status WhyNot(std::string_view name) const;
  /// The addresses of this machine that it can listen at, without ports: devices have their own. Empty: any.
  const std::vector<std::string>& HostsOf(std::string_view name) const;
  /// Who must know the arenas that payload comes from and goes to; null when the mover has no use for them.
  base::ArenaRegistrar* ArenasOf(std::string_view name) const;

 private:
  struct Found {
    std::unique_ptr<Fabric> fabric;  // null: it cannot be used
    std::string detail;
    std::string remedy;
    std::vector<std::string> hosts;  // where it can listen; none: anywhere
    base::ArenaRegistrar* arenas = nullptr;
  };
  struct Slot {
    std::once_flag looked;
    Found found;
  };

  const Found& Look(size_t kind) const;
  Found LookFor(std::string_view name) const;
  Found LookForOfi(const std::string& provider) const;
  Found LookForUcx() const;

  base::Random& random_;
  const Side side_;
  base::SecureChannels* const secure_;
  const size_t lend_bytes_;
  mutable std::array<Slot, kMoverKinds> slots_;
};

}  // namespace forebay::fabric
