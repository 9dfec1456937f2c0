// SPDX-License-Identifier: Apache-2.0
// The changes of the store, as transactions for the committer: each looks at the state with the earlier
// members of its group, decides, and writes all rows of the change at once. Prepare first reads everything,
// so that nothing has happened when it fails. Done makes the outcome visible: cache, bucket table, freed
// units. Belongs to the committer's thread between Commit and its answer.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/core.h"
#include "engine/loader.h"
#include "meta/meta_store.h"

namespace forebay::engine {

/// A run that a writer filled. Its units are reserved.
struct NewExtent {
  UnitRun run;
  uint64_t length_bytes = 0;
  std::vector<uint32_t> checksums;
};

struct PutRequest {
  std::string bucket_name;
  uint64_t bucket = 0;
  std::string key;
  store::Condition condition;
  store::UserMetadata metadata;
  std::string etag;  // empty: the store's own
  uint64_t size_bytes = 0;
  uint32_t crc32c = 0;
  std::string inline_content{};      // when there are no extents
  std::vector<NewExtent> extents{};  // none crosses the border of a segment
};

/// What became of a put. Borrowed by the transaction; the committing coroutine holds it.
struct PutOutcome {
  bool prepared = false;  // its rows may be in the metadata: the units are not free whatever Commit answers
  store::ObjectInfo info;
};

std::unique_ptr<meta::Transaction> MakePut(Core& core, PutRequest request, PutOutcome* outcome);
std::unique_ptr<meta::Transaction> MakeDelete(Core& core, std::string bucket_name, uint64_t bucket,
                                              std::string key, store::Condition condition);
std::unique_ptr<meta::Transaction> MakeCreateBucket(Core& core, store::BucketInfo info);
std::unique_ptr<meta::Transaction> MakeDeleteBucket(Core& core, TenantId tenant, std::string name);

}  // namespace forebay::engine
