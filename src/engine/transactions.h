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
#include "engine/new_content.h"
#include "meta/meta_store.h"

namespace forebay::engine {

/// A run of the content that is published: of one of its new extents, or of an extent that others refer to too.
struct ContentRun {
  bool is_new = false;
  uint64_t extent = 0;  // its place among the new ones, or its number
  uint64_t offset = 0;  // in the extent
  uint64_t length = 0;  // never 0
};

/// A version that must still be its key's current one.
struct SourceVersion {
  std::string bucket_name{};
  uint64_t bucket = 0;
  std::string key{};
  uint64_t version = 0;
};

/// A run of the current version that is replaced, as it was found.
struct ReplacedRange {
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t object_bytes = 0;  // of the version
  bool to_the_end = false;    // of the object, which gets another size
  uint64_t version = 0;       // not 0: it must be this one still
  std::vector<Piece> pieces{};  // else they must be the same still
  uint32_t crc32c = 0;
};

struct PublishRequest {
  std::string bucket_name{};
  uint64_t bucket = 0;
  std::string key{};
  store::Condition condition{};
  store::UserMetadata metadata{};
  store::UserMetadata attributes{};
  std::string etag{};  // empty: the store's own
  uint64_t size_bytes = 0;
  uint32_t crc32c = 0;
  NewContent content{};
  std::vector<ContentRun> runs{};  // in order, all of the object; empty: just the new content
  std::vector<SourceVersion> sources{};
  // Of the parts of an upload: which one this is, or which ones become the object.
  uint64_t upload = 0;
  uint32_t part = 0;
  std::vector<store::PartRef> parts{};
  std::optional<uint32_t> expected_crc32c{};  // of the object that they become
  // What the content takes the place of, when it is not that of a whole object.
  std::optional<ReplacedRange> replaces{};
};

/// What became of it. Borrowed by the transaction; the committing coroutine holds it.
struct PublishOutcome {
  bool prepared = false;  // its rows may be in the metadata: the units are not free whatever Commit answers
  store::ObjectInfo info;
};

/// Aborted when a source is not current any more; the errors of ObjectWriter::Commit.
std::unique_ptr<meta::Transaction> MakePublish(Core& core, PublishRequest request, PublishOutcome* outcome);
std::unique_ptr<meta::Transaction> MakeDelete(Core& core, std::string bucket_name, uint64_t bucket,
                                              std::string key, store::Condition condition);
/// `version` 0 is the current one.
std::unique_ptr<meta::Transaction> MakeSetAttributes(Core& core, std::string bucket_name, uint64_t bucket,
                                                     std::string key, uint64_t version, store::AttributeChange change);
std::unique_ptr<meta::Transaction> MakeDeleteVersion(Core& core, std::string bucket_name, uint64_t bucket,
                                                     std::string key, uint64_t version);
std::unique_ptr<meta::Transaction> MakeUpdateBucket(Core& core, TenantId tenant, std::string name,
                                                    store::BucketSettings settings);
std::unique_ptr<meta::Transaction> MakeRename(Core& core, std::string bucket_name, uint64_t bucket, std::string from,
                                              std::string to, store::RenameOptions options);
/// `renamed` is how many, as the version of an info; shared with whoever waits, maybe no longer than its deadline.
std::unique_ptr<meta::Transaction> MakeRenamePrefix(Core& core, std::string bucket_name, uint64_t bucket,
                                                    std::string from, std::string to,
                                                    std::shared_ptr<store::ObjectInfo> renamed);
std::unique_ptr<meta::Transaction> MakeCreateBucket(Core& core, store::BucketInfo info);
std::unique_ptr<meta::Transaction> MakeDeleteBucket(Core& core, TenantId tenant, std::string name);

std::unique_ptr<meta::Transaction> MakeSetQuota(Core& core, TenantId tenant, store::Quota quota);

}  // namespace forebay::engine
