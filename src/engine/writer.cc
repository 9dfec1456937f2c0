// SPDX-License-Identifier: Apache-2.0
#include "engine/writer.h"

#include <utility>

#include "engine/publish.h"
#include "engine/upload_transactions.h"
#include "store/checks.h"

namespace forebay::engine {

Writer::Writer(Core& core, rt::Reactor& reactor, store::Operation operation, std::string bucket_name,
               uint64_t bucket, std::string key, store::PutOptions options)
    : core_(core),
      operation_(operation),
      bucket_name_(std::move(bucket_name)),
      bucket_(bucket),
      key_(std::move(key)),
      options_(std::move(options)),
      content_(core, reactor, fmt::format("{}/{}", bucket_name_, key_), options_.size_bytes) {}

rt::Task<Status> Writer::Write(const store::Context& context, base::Buffer data) {
  if (upload_ != 0) FB_CO_TRY(store::CheckPartSize(content_.size_bytes() + data.size()));
  co_return co_await content_.Write(context, std::move(data));
}

rt::Task<Result<store::ObjectInfo>> Writer::Commit(const store::Context& context,
                                                   std::optional<uint32_t> crc32c) {
  FB_CO_TRY(store::CheckDeadline(context, "commit"));
  FB_CO_TRY(content_.state());
  content_.End();
  FB_CO_TRY(store::CheckAnnouncedSize(options_.size_bytes, content_.size_bytes()));
  FB_CO_TRY(core_.health());
  FB_CO_ASSIGN(operation_, store::CommitOperation(operation_, context, core_.operations.NowMs()));
  FB_CO_ASSIGN(NewContent content, co_await content_.Finish(context));
  FB_CO_TRY(store::CheckContent(crc32c, content.crc32c, bucket_name_, key_));
  operation_.content = store::Content{.size_bytes = content.size_bytes, .crc32c = content.crc32c};
  PublishRequest request{.bucket_name = bucket_name_,
                         .bucket = bucket_,
                         .key = key_,
                         .condition = options_.condition,
                         .metadata = options_.metadata,
                         .attributes = options_.attributes,
                         .etag = options_.etag,
                         .size_bytes = content.size_bytes,
                         .crc32c = content.crc32c,
                         .upload = upload_,
                         .part = part_};
  request.content = std::move(content);
  co_return co_await Publish(core_, context, operation_, std::move(request),
                             upload_ == 0 ? MakePublish : MakePutPart);
}

}  // namespace forebay::engine
