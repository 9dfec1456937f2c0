// SPDX-License-Identifier: Apache-2.0
// StoreDevices: changes which devices a server's store is on, for Admin/ReplaceDevice and
// its neighbours. Implemented by whoever knows the
// store's engine; a server without one has no such calls. Thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "rt/reactor.h"
#include "rt/task.h"

namespace forebay::control {

class StoreDevices {
 public:
  virtual ~StoreDevices() = default;
  /// Puts `replacement` in the place of `lost`, a side of a mirror that is lost, and does not wait until everything is on it.
  /// NotFound, FailedPrecondition, PermissionDenied (control.proto). Suspends on `reactor`.
  virtual rt::Task<Status> Replace(rt::Reactor& reactor, std::string lost, std::string replacement) = 0;
  /// Another device, with a mirror unless that is empty; files are made with `size_bytes`, 0: as large as the others. Errors as
  /// Replace, InvalidArgument, ResourceExhausted.
  virtual rt::Task<Status> Add(rt::Reactor& reactor, std::string path, std::string mirror, uint64_t size_bytes) = 0;
  /// Begins to empty a device, or with `stop` lets it stay, and does not wait. NotFound, FailedPrecondition.
  virtual rt::Task<Status> Drain(rt::Reactor& reactor, std::string path, bool stop) = 0;
  /// Takes an empty one out. NotFound, FailedPrecondition.
  virtual rt::Task<Status> Remove(rt::Reactor& reactor, std::string path) = 0;
};

}  // namespace forebay::control
