// SPDX-License-Identifier: Apache-2.0
// The changes of uploads, as transactions for the committer; and what is known of uploads, for lookup threads. A
// part's extents become extents of the object: completing an upload writes rows only. Transactions belong to the
// committer's thread; the lookups are thread-safe and may block on the disk.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/core.h"
#include "engine/transactions.h"
#include "engine/upload_rows.h"
#include "meta/meta_store.h"
#include "store/object_store.h"

namespace forebay::engine {

/// An upload, with the number of its bucket.
struct UploadTarget {
  store::UploadName name;
  uint64_t bucket = 0;
};

/// `begun` gets the id as its version, and when; shared with whoever waits, maybe no longer than its deadline.
std::unique_ptr<meta::Transaction> MakeCreateUpload(Core& core, std::string bucket_name, uint64_t bucket,
                                                    std::string key, store::UserMetadata metadata,
                                                    std::shared_ptr<store::ObjectInfo> begun);
/// A part with the content of `request`, whose bucket and key are those of the upload.
std::unique_ptr<meta::Transaction> MakePutPart(Core& core, PublishRequest request, PublishOutcome* outcome);
/// What `request` publishes is found in the rows of the parts. NotFound: the upload; the errors of CompleteUpload.
std::unique_ptr<meta::Transaction> MakeCompleteUpload(Core& core, PublishRequest request, PublishOutcome* outcome);
std::unique_ptr<meta::Transaction> MakeAbortUpload(Core& core, UploadTarget upload);

/// NotFound, or DataLoss that names the row.
Status FindUpload(meta::MetaStore& meta, const UploadTarget& upload);
Result<store::PartPage> ListParts(meta::MetaStore& meta, const UploadTarget& upload, uint32_t start_after,
                                  uint32_t limit);
Result<store::UploadPage> ListUploads(meta::MetaStore& meta, uint64_t bucket, const store::UploadListOptions& options);

}  // namespace forebay::engine
