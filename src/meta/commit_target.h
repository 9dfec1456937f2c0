// SPDX-License-Identifier: Apache-2.0
// CommitTarget: committed state, and the way to change it: what a store gives its committer. Private to meta.
// Thread-safe in Get and First; Apply and RefusalForSpace are called by the committer's thread only.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "meta/meta_store.h"
#include "meta/overlay.h"

namespace forebay::meta {

class CommitTarget {
 public:
  virtual ~CommitTarget() = default;
  virtual Result<std::optional<std::string>> GetCommitted(Family family, std::string_view key) = 0;
  /// As View::First.
  virtual Result<std::optional<std::pair<std::string, std::string>>> FirstCommitted(Family family,
                                                                                    std::string_view from,
                                                                                    std::string_view end) = 0;
  /// Makes the writes visible, all or none, and with `durable` durable, together with all before. A failure leaves open
  /// which, until the store is opened again.
  virtual Status Apply(const Overlay& group, bool durable) = 0;
  /// Why only transactions that free space may go on, when `bytes` more are to be written; ok while there is room.
  virtual Status RefusalForSpace(uint64_t bytes) = 0;
};

}  // namespace forebay::meta
