// SPDX-License-Identifier: Apache-2.0
// Movers: the fabrics that this build and this machine have, by name, best first, and of those that cannot be
// used why not and how to get them. Used by whoever chooses: the server what to offer, the client what to
// take, `doctor` what to tell. Thread-safe: constant after construction.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "fabric/fabric.h"

namespace forebay::fabric {

/// A mover as such, whether it is here or not.
struct MoverKind {
  std::string_view name;
  std::string_view what;  // for people
  bool automatic;         // taken without being asked for by name
  bool network;           // its addresses are "host:port", and reach other machines
};
/// All that this version knows, best first.
std::span<const MoverKind> MoverKinds();
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

class Movers {
 public:
  /// Looks at the machine, and makes what can be made. `random` is borrowed, thread-safe, and makes keys.
  explicit Movers(base::Random& random);
  ~Movers();

  /// Null when it cannot be used here.
  Fabric* Find(std::string_view name) const;
  /// Those to be taken without being asked for, best first.
  std::vector<Fabric*> automatic() const;
  /// One for each kind, best first.
  const std::vector<MoverReport>& reports() const { return reports_; }
  /// Why a mover that Find does not know cannot be used, and what to do.
  Status WhyNot(std::string_view name) const;

 private:
  struct Found {
    std::unique_ptr<Fabric> fabric;
    std::string detail;
    std::string remedy;
  };
  static Found Look(std::string_view name, base::Random& random);

  std::vector<std::unique_ptr<Fabric>> fabrics_;  // of the kinds; null where it cannot be used
  std::vector<MoverReport> reports_;
};

}  // namespace forebay::fabric
