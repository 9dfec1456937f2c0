// SPDX-License-Identifier: Apache-2.0
#include "app/store_devices.h"

#include <utility>

namespace forebay::app {

rt::Task<Status> StoreDevices::Replace(rt::Reactor& reactor, std::string lost, std::string replacement) {
  co_return co_await rt::Offload(reactor, pool_, [this, &lost, &replacement] {
    Status status = store_.ReplaceSide(lost, replacement);
    if (status.ok()) log_.Info("{} takes the place of {}, and is brought up to date", replacement, lost);
    return status;
  });
}

rt::Task<Status> StoreDevices::Add(rt::Reactor& reactor, std::string path, std::string mirror, uint64_t size_bytes) {
  co_return co_await rt::Offload(reactor, pool_, [this, &path, &mirror, size_bytes] {
    Status status = store_.AddDevice(path, mirror, size_bytes);
    if (status.ok()) log_.Info("the store is on {} too", path);
    return status;
  });
}

rt::Task<Status> StoreDevices::Drain(rt::Reactor& reactor, std::string path, bool stop) {
  co_return co_await rt::Offload(reactor, pool_, [this, &path, stop] {
    Status status = store_.SetLeaving(path, !stop);
    if (status.ok()) log_.Info("{} {}", path, stop ? "stays" : "is being emptied");
    return status;
  });
}

rt::Task<Status> StoreDevices::Remove(rt::Reactor& reactor, std::string path) {
  co_return co_await rt::Offload(reactor, pool_, [this, &path] {
    Status status = store_.RemoveDevice(path);
    if (status.ok()) log_.Info("{} is not a device of the store any more", path);
    return status;
  });
}

}  // namespace forebay::app
