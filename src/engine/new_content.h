// SPDX-License-Identifier: Apache-2.0
// NewContent: content that stands where it stays, but that no row refers to yet: small content in memory, for the
// metadata; larger content in extents on the devices, whose units are reserved until a commit takes them over.
// Reactor-local, and handed to the committer's thread as a whole.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/allocator.h"

namespace forebay::engine {

/// Units that are given back in the end, unless they became part of extents.
class ReservedUnits {
 public:
  /// `allocator` is borrowed.
  explicit ReservedUnits(Allocator& allocator) : allocator_(allocator) {}
  ~ReservedUnits() {
    if (kept_) return;
    for (const UnitRun& run : runs_) allocator_.Release(run);
  }
  ReservedUnits(const ReservedUnits&) = delete;
  ReservedUnits& operator=(const ReservedUnits&) = delete;

  void Add(const UnitRun& run) { runs_.push_back(run); }
  /// Gives back what the last run has beyond `units`.
  void TrimLast(uint32_t units) {
    UnitRun& last = runs_.back();
    allocator_.Release(
        {.device = last.device, .first_unit = last.first_unit + units, .units = last.units - units});
    last.units = units;
  }
  /// Rows may refer to them.
  void Keep() {
    kept_ = true;
    for (const auto& more : included_) more->Keep();
  }
  /// `more` is kept as these are.
  void Include(std::shared_ptr<ReservedUnits> more) { included_.push_back(std::move(more)); }

 private:
  Allocator& allocator_;
  std::vector<UnitRun> runs_;
  std::vector<std::shared_ptr<ReservedUnits>> included_;  // shared with the content whose they are
  bool kept_ = false;
};

/// A run that was filled.
struct NewExtent {
  UnitRun run;
  uint64_t length_bytes = 0;
  std::vector<uint32_t> checksums;
};

struct NewContent {
  uint64_t size_bytes = 0;
  uint32_t crc32c = 0;
  std::string inline_content{};      // all of it, when there are no extents
  std::vector<NewExtent> extents{};  // one after the other
  std::shared_ptr<ReservedUnits> units{};  // of the extents; shared with device writes that go on after an error
};

}  // namespace forebay::engine
