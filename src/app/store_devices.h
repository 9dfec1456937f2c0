// SPDX-License-Identifier: Apache-2.0
// StoreDevices: lets a server's administrator change the devices of its store while it serves. What blocks on disks runs on
// one thread, so changes take turns.
// Thread-safe.
#pragma once

#include <string>

#include "control/store_devices.h"
#include "engine/store_directory.h"
#include "rt/thread_pool.h"

namespace forebay::app {

class StoreDevices final : public control::StoreDevices {
 public:
  /// Both are borrowed.
  StoreDevices(engine::StoreDirectory& store, base::Log& log) : store_(store), log_(log) {}

  rt::Task<Status> Replace(rt::Reactor& reactor, std::string lost, std::string replacement) override;
  rt::Task<Status> Add(rt::Reactor& reactor, std::string path, std::string mirror, uint64_t size_bytes) override;
  rt::Task<Status> Drain(rt::Reactor& reactor, std::string path, bool stop) override;
  rt::Task<Status> Remove(rt::Reactor& reactor, std::string path) override;

 private:
  engine::StoreDirectory& store_;
  base::Log& log_;
  rt::ThreadPool pool_{1, "fb-devices"};
};

}  // namespace forebay::app
