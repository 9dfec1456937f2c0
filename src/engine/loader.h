// SPDX-License-Identifier: Apache-2.0
// Reading objects out of the metadata: the newest version of a key, its content map resolved, a page of a
// listing. All but FindObject may block on the disk: they run on the engine's thread pool. Thread-safe: functions
// over a thread-safe store. Errors are DataLoss that names the row, and the store's own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/devices.h"
#include "engine/object_state.h"
#include "engine/rows.h"
#include "meta/meta_store.h"
#include "rt/task.h"
#include "store/object_store.h"

namespace forebay::engine {

struct Core;

struct NewestVersion {
  uint64_t version = 0;
  ObjectRecord record;
};

/// Those that have expired.
using HiddenVersions = std::function<bool(const NewestVersion&)>;
HiddenVersions ExpiredOf(const Core& core, uint64_t bucket);

/// Decodes an object row that stands under `row_key`.
Result<NewestVersion> DecodeVersion(std::string_view row_key, std::string_view value);

/// The newest version of a key; nothing when there is none, or when it is a delete marker.
Result<std::optional<NewestVersion>> FindNewest(meta::MetaStore& meta, uint64_t bucket,
                                                const std::string& key);

/// The same as of a moment.
Result<std::optional<NewestVersion>> FindNewest(meta::Snapshot& moment, uint64_t bucket, const std::string& key);
/// The pieces of the segments first to last, which the object has. NotFound when a row is missing.
Result<std::vector<Piece>> LoadSegments(meta::Snapshot& moment, const NewestVersion& newest, uint64_t first,
                                        uint64_t last);
/// Appends the extents that the pieces name to those of `state`. NotFound when a row is missing.
Status LoadExtents(meta::Snapshot& moment, const Devices& devices, const std::vector<Piece>& pieces,
                   ObjectState& state);
/// What a version says of itself, without a map.
std::shared_ptr<ObjectState> StateOf(uint64_t bucket, const std::string& key, const NewestVersion& newest);
/// DataLoss: `why` is what is missing of the object.
Status Damaged(const std::string& key, const Status& why);

/// The newest version with everything that a read needs; null when there is none. Extents were checked to lie
/// inside of the devices and to hold what is referred to.
Result<ObjectStatePtr> LoadObject(meta::MetaStore& meta, const Devices& devices, uint64_t bucket,
                                  const std::string& key);

/// One version, current or not; null when there is none, or it is a delete marker.
Result<ObjectStatePtr> LoadVersion(meta::MetaStore& meta, const Devices& devices, uint64_t bucket,
                                   const std::string& key, uint64_t version);
Result<std::optional<store::VersionInfo>> StatVersion(meta::MetaStore& meta, uint64_t bucket, const std::string& key,
                                                      uint64_t version);
Result<store::VersionPage> ListVersions(meta::MetaStore& meta, uint64_t bucket, const HiddenVersions& hidden,
                                        const store::VersionListOptions& options);

/// The current version, from the cache or from the metadata by way of a lookup thread; null when there is none. The
/// caller has entered an epoch before.
rt::Task<Result<ObjectStatePtr>> FindObject(Core& core, const store::Context& context, uint64_t bucket,
                                            const std::string& key);

/// Appends `pieces`, which begin at `begin` of the object, to the map of `state`, whose extents are complete already.
/// DataLoss when they do not fit.
Status MapPieces(ObjectState& state, uint64_t begin, const std::vector<Piece>& pieces);

/// OutOfRange is never given: DataLoss when the extent does not lie in the data area of a device.
Status CheckPlace(uint64_t extent, const ExtentRecord& record, const Devices& devices);

/// `hidden` says which versions are not there to callers.
Result<store::ListPage> ListObjects(meta::MetaStore& meta, uint64_t bucket, const HiddenVersions& hidden,
                                    const store::ListOptions& options);

}  // namespace forebay::engine
