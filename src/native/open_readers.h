// SPDX-License-Identifier: Apache-2.0
// OpenReaders: the versions that one connection has opened and not closed. Each stays readable whatever becomes of its name,
// and pins the space that it takes: so they are few, one that nobody reads for a while is let go, each after some time, and all with
// their connection: the client goes on by number then. Reactor-local.
#pragma once

#include <algorithm>
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
  /// A version goes after `idle` without a read, and after `most` in any case.
  OpenReaders(rt::Reactor& reactor, base::Duration idle, base::Duration most, uint32_t limit)
      : reactor_(reactor), idle_(idle), most_(most), limit_(limit) {}

  /// The handle of the version, or 0 when there are as many as may be.
  uint64_t Add(std::shared_ptr<OpenVersion> version) {
    if (held_.size() >= limit_) return 0;
    const uint64_t handle = next_handle_++;
    Held& held = *held_.emplace(handle, std::make_unique<Held>(reactor_, std::move(version),
                                                                base::DeadlineAfter(reactor_.Now(), most_))).first->second;
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
    Held(rt::Reactor& reactor, std::shared_ptr<OpenVersion> opened, base::TimePoint at_most)
        : version(std::move(opened)), until(at_most), idle(reactor) {}
    std::shared_ptr<OpenVersion> version;
    const base::TimePoint until;
    rt::Timer idle;
  };
  void Touch(uint64_t handle, Held& held) {
    held.idle.Arm(std::min(base::DeadlineAfter(reactor_.Now(), idle_), held.until), [this, handle] { Close(handle); });
  }

  rt::Reactor& reactor_;
  const base::Duration idle_;
  const base::Duration most_;
  const uint32_t limit_;
  uint64_t next_handle_ = 1;
  std::unordered_map<uint64_t, std::unique_ptr<Held>> held_;
};

}  // namespace forebay::native
