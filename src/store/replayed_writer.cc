// SPDX-License-Identifier: Apache-2.0
#include "store/replayed_writer.h"

#include "base/checksum.h"
#include "store/checks.h"

namespace forebay::store {

rt::Task<Status> ReplayedWriter::Write(const Context& context, base::Buffer data) {
  FB_CO_TRY(CheckDeadline(context, "write"));
  FB_CO_TRY(CheckObjectSize(written_.size_bytes, data.size()));
  written_.crc32c = base::Crc32cExtend(written_.crc32c, data.view());
  written_.size_bytes += data.size();
  co_return Status();
}

Content ReplayedWriter::ContentOf(std::optional<uint32_t> crc32c) const {
  if (written_.size_bytes != 0) return written_;
  const Content first = record_.content.value_or(Content{});
  return {.size_bytes = options_.size_bytes.value_or(first.size_bytes),
          .crc32c = crc32c.value_or(first.crc32c)};
}

rt::Task<Result<ObjectInfo>> ReplayedWriter::Commit(const Context& context, std::optional<uint32_t> crc32c) {
  FB_CO_TRY(CheckDeadline(context, "commit"));
  if (written_.size_bytes != 0) {
    FB_CO_TRY(CheckAnnouncedSize(options_.size_bytes, written_.size_bytes));
    FB_CO_TRY(CheckContent(crc32c, written_.crc32c, bucket_, key_));
  }
  operation_.content = ContentOf(crc32c);
  FB_CO_TRY(CheckSameRequest(record_, operation_));
  co_return ResultOfPut(record_, key_, options_.metadata, options_.attributes);
}

}  // namespace forebay::store
