// SPDX-License-Identifier: Apache-2.0
// The calls of a client, whole: a put of some content, a get of everything, a walk over all pages of a listing; and what is in
// a store, read completely and compared with the oracle.
// Reactor-local.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lab.h"
#include "oracle.h"
#include "store/object_store.h"

namespace forebay::crash {

struct Object {
  store::ObjectInfo info;
  std::string content;
};

/// `committing` (may be null) becomes true when the publishing begins: what fails earlier has no effect.
rt::Task<Result<store::ObjectInfo>> PutObject(Lab& lab, std::string key, std::string content, store::PutOptions options,
                                              std::optional<uint32_t> crc32c = std::nullopt, bool* committing = nullptr);
/// The ways in which content can come under a key.
enum class Way : uint8_t {
  kPut,
  kParts,    // an upload of up to three parts
  kRename,   // a put under `temporary`, which is renamed
  kCompose,  // a put under `temporary`, of which it is a copy
  kOverwrites,  // zeros under `temporary`, which are overwritten range by range and renamed
};
constexpr size_t kWays = 5;
/// As PutObject. What stays of the way when that ends early is an upload, or an object under `temporary`.
rt::Task<Result<store::ObjectInfo>> StoreObject(Lab& lab, Way way, std::string temporary, std::string key,
                                                std::string content, store::PutOptions options,
                                                std::optional<uint32_t> crc32c, bool* committing);
/// The metadata entry of an object that comes by overwrites.
constexpr const char* kOverwritesName = "overwrites";
/// Where the names of all temporary objects begin.
constexpr const char* kTemporaryPrefix = "temporary/";
/// Gives up the uploads that are in progress.
rt::Task<Status> AbortUploads(Lab& lab);
/// By reads of `step` bytes.
rt::Task<Result<Object>> GetObject(Lab& lab, std::string key, uint64_t step = base::kMaxChunkBytes);
/// In pages of `limit`.
rt::Task<Result<std::vector<store::ObjectInfo>>> ListAll(Lab& lab, uint32_t limit);

/// The objects of a store, by key.
using Contents = std::map<std::string, store::ObjectInfo>;

/// Reads everything that is there, and compares: each key of the oracle holds what it may, every object is whole, the
/// listing is exactly what can be read, the space in use is exactly what the objects and the parts of uploads need,
/// and the owner's account says exactly what is there, within its quota. What is wrong goes to `violations`. Nothing is settled.
Contents CheckContents(Lab& lab, const Oracle& oracle, uint32_t page, std::vector<std::string>& violations);
/// What was found is from now on what is expected.
void SettleContents(const Contents& contents, Oracle& oracle);

}  // namespace forebay::crash
