// SPDX-License-Identifier: Apache-2.0
// OpenReaders: the versions that one connection has opened and not closed. Each stays readable whatever becomes of its name,
// and pins the space that it takes: so they are few, and one that nobody reads for a while is let go, as are all with their
// connection. Reactor-local.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/clock.h"
#include "rt/reactor.h"
#include "rt/timer.h"
#include "store/object_store.h"

namespace forebay::native {

/// Shared by the table and the reads in progress, which may outlive its place there.
struct OpenVersion {
  std::string bucket;
  std::unique_ptr<store::ObjectReader> reader;
};

class OpenReaders {
 public:
  OpenReaders(rt::Reactor& reactor, base::Duration idle, uint32_t limit)
      : reactor_(reactor), idle_(idle), limit_(limit) {}

  /// The handle of the version, or 0 when there are as many as may be.
  uint64_t Add(std::shared_ptr<OpenVersion> version) {
    if (held_.size() >= limit_) return 0;
    const uint64_t handle = next_handle_++;
    Held& held = *held_.emplace(handle, std::make_unique<Held>(reactor_, std::move(version))).first->second;
    Touch(handle, held);
    return handle;
  }
  /// Null when there is none; otherwise its idle time starts anew.
  std::shared_ptr<OpenVersion> Find(uint64_t handle) {
    const auto found = held_.find(handle);
    if (found == held_.end()) return nullptr;
    Touch(handle, *found->second);
    return found->second->version;
  }
  /// One that is not there is fine: it was let go.
  void Close(uint64_t handle) { held_.erase(handle); }
  void Clear() { held_.clear(); }

 private:
  struct Held {
    Held(rt::Reactor& reactor, std::shared_ptr<OpenVersion> opened) : version(std::move(opened)), idle(reactor) {}
    std::shared_ptr<OpenVersion> version;
    rt::Timer idle;
  };
  void Touch(uint64_t handle, Held& held) {
    held.idle.Arm(base::DeadlineAfter(reactor_.Now(), idle_), [this, handle] { Close(handle); });
  }

  rt::Reactor& reactor_;
  const base::Duration idle_;
  const uint32_t limit_;
  uint64_t next_handle_ = 1;
  std::unordered_map<uint64_t, std::unique_ptr<Held>> held_;
};

}  // namespace forebay::native
