// SPDX-License-Identifier: Apache-2.0
// MoverChoice: which fabrics a client may use, and the ways to one server that they make of what it offers,
// best first, with the reasons why not others. Pure: connecting is DataPool's. Thread-safe: values.
#pragma once

#include <string>
#include <vector>

#include "control/data_plane.h"
#include "fabric/fabric.h"
#include "fabric/movers.h"

namespace forebay::client {

struct MoverChoice {
  /// `name` is empty for whatever is best, or the name of the only one to use: FailedPrecondition with the
  /// reason when it cannot be used here, InvalidArgument when there is none of that name. The fabrics are
  /// borrowed from `movers`.
  static Result<MoverChoice> Of(const fabric::Movers& movers, const std::string& name);
  /// Just this one; borrowed.
  static MoverChoice Only(fabric::Fabric& fabric) {
    return {.fabrics = {&fabric}, .notes = {}, .forced = true};
  }

  std::vector<fabric::Fabric*> fabrics;  // best first
  std::vector<std::string> notes;        // why not others, "ofi;verbs: no RDMA device"
  bool forced = false;                   // asked for by name
};

/// A way to a server.
struct Way {
  fabric::Fabric* fabric = nullptr;
  std::string address;
};

/// The ways that `choice` makes of `offered`, best first; notes which of its fabrics the server does not
/// offer. Unavailable, saying what either side has, when there is none.
Result<std::vector<Way>> WaysTo(const MoverChoice& choice, const std::vector<control::DataEndpoint>& offered,
                                std::vector<std::string>& notes);

/// Why payload goes the way it goes: a sentence without its full stop.
std::string ReasonOf(const MoverChoice& choice, std::string_view taken,
                     const std::vector<std::string>& notes);

}  // namespace forebay::client
