// SPDX-License-Identifier: Apache-2.0
// StoreCopier: copies a store as of one moment: first the rows of a snapshot into other metadata, then, as
// these rows say, the content of each extent to the same place of other devices. Every row and block is
// compared with its checksum on the way. It knows devices and metadata only; directory_copy.h makes a store
// directory of them. Reactor-local: it blocks on the metadata, so on a reactor and a thread of its own.
// Invariant: what it copied without an error is right.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "engine/devices.h"
#include "engine/epochs.h"
#include "meta/meta_store.h"
#include "rt/reactor.h"
#include "rt/task.h"

namespace forebay::engine {

/// A store as of one moment. While it is kept, space that is freed is not written again. Goes before the
/// engine.
struct CopySource {
  Devices& devices;                        // borrowed from the engine
  std::optional<EpochSet::Guard> guard;    // entered before the snapshot; none when nobody writes
  std::unique_ptr<meta::Snapshot> moment;  // let go when the rows are copied
};

struct CopyProgress {
  uint64_t copied_bytes = 0;  // of extents
  uint64_t total_bytes = 0;   // 0 until all rows are copied
};

struct CopyOptions {
  bool new_directory = false;     // nothing may be at the target's name; else an empty directory may
  bool sparse = true;             // files of devices take room for what they hold only
  uint64_t bytes_per_second = 0;  // 0: no limit. Of content and rows, by the average over 4 MiB
  /// Called between pieces of work and several times a second while it waits for its rate; an error ends the
  /// copy. May be null.
  std::function<Status(const CopyProgress&)> watch = nullptr;
};

class StoreCopier {
 public:
  /// `reactor` is borrowed.
  StoreCopier(rt::Reactor& reactor, CopyOptions options) : reactor_(reactor), options_(std::move(options)) {}

  /// Copies the rows into `target`, which is empty, as those of store `store`. DataLoss for a damaged row;
  /// errors of both sides.
  rt::Task<Status> CopyRows(meta::Snapshot& moment, meta::MetaStore& target, Uuid store);
  /// Copies what the extents in `rows` hold, and flushes. DataLoss that names the object whose block is
  /// damaged; errors of both sides.
  rt::Task<Status> CopyContent(meta::MetaStore& rows, Devices& from, Devices& to);

  const CopyProgress& progress() const { return progress_; }

 private:
  struct Chunk;

  rt::Task<Status> CopyChunks(std::vector<Chunk>& chunks, meta::MetaStore& rows, Devices& from, Devices& to);
  rt::Task<Status> CopyChunk(Chunk& chunk, Devices& from, Devices& to);
  Status Watch() const { return options_.watch == nullptr ? Status() : options_.watch(progress_); }
  /// After `bytes` were copied: waits as the rate wants it.
  rt::Task<Status> Pace(uint64_t bytes);

  rt::Reactor& reactor_;
  const CopyOptions options_;
  CopyProgress progress_;
  base::TimePoint next_{};  // when the rate allows to go on
};

}  // namespace forebay::engine
