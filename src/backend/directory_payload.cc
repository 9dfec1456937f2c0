// SPDX-License-Identifier: Apache-2.0
#include "backend/directory_payload.h"

#include <algorithm>

#include "base/checksum.h"
#include "store/checks.h"
#include "store/memory_wait.h"
#include "store/operations.h"

namespace forebay::backend {

DirectoryStore::Writer::~Writer() {
  if (file_) store_.Drop(std::make_shared<Temporary>(*std::move(file_)));
}

rt::Task<Result<base::Buffer>> DirectoryStore::Writer::Allocate(const store::Context& context, size_t size) {
  FB_CO_TRY(store::CheckDeadline(context, "allocate"));
  if (size == 0) co_return Status::InvalidArgument("a buffer of 0 bytes: ask for at least 1");
  co_return co_await store::AllocateOrWait(store_.arena_, context, std::min(size, base::kMaxChunkBytes));
}

Status DirectoryStore::Writer::CheckWrite(uint64_t more_bytes) const {
  if (ended_) return Status::FailedPrecondition("the put of `{}/{}` has ended", bucket_, key_);
  if (size_bytes_ % base::Arena::kPage != 0)
    return Status::InvalidArgument("only the last buffer of `{}/{}` may have a size that is no multiple of {}", bucket_, key_,
                                   base::Arena::kPage);
  FB_TRY(store::CheckObjectSize(size_bytes_, more_bytes));
  const uint64_t size = size_bytes_ + more_bytes;
  if (target_.part) FB_TRY(store::CheckPartSize(size));
  if (options_.size_bytes && size > *options_.size_bytes) FB_TRY(store::CheckAnnouncedSize(options_.size_bytes, size));
  return {};
}

Status DirectoryStore::Writer::Append(const base::Buffer& data) {
  if (!file_) {
    FB_ASSIGN(Temporary file, store_.tree_->NewTemporary());
    file_.emplace(std::move(file));
  }
  FB_TRY(WriteAt(file_->fd(), data.view(), size_bytes_, fmt::format("write the content of `{}/{}`", bucket_, key_)));
  crc32c_ = base::Crc32cExtend(crc32c_, data.view());
  size_bytes_ += data.size();
  return {};
}

rt::Task<Status> DirectoryStore::Writer::Write(const store::Context& context, base::Buffer data) {
  FB_CO_TRY(store::CheckDeadline(context, "write"));
  if (data.empty()) co_return Status();
  FB_CO_TRY(CheckWrite(data.size()));
  Status wrote = co_await rt::Offload(context.reactor, store_.pool_, [&] { return Append(data); });
  if (!wrote.ok()) ended_ = true;  // what follows would not follow it
  co_return wrote;
}

rt::Task<Result<store::ObjectInfo>> DirectoryStore::Writer::Commit(const store::Context& context, std::optional<uint32_t> crc32c) {
  FB_CO_TRY(store::CheckDeadline(context, "commit"));
  if (std::exchange(ended_, true))
    co_return Status::FailedPrecondition("the put of `{}/{}` has ended; begin another one", bucket_, key_);
  FB_CO_TRY(store::CheckAnnouncedSize(options_.size_bytes, size_bytes_));
  FB_CO_TRY(store::CheckContent(crc32c, crc32c_, bucket_, key_));
  FB_CO_ASSIGN(operation_, store::CommitOperation(operation_, context, store_.operation_time_ms()));
  operation_.content = store::Content{.size_bytes = size_bytes_, .crc32c = crc32c_};
  co_return co_await rt::Offload(context.reactor, store_.pool_, [&] { return Publish(); });
}

Result<store::ObjectInfo> DirectoryStore::Writer::Publish() {
  Tree& tree = *store_.tree_;
  if (!file_) {
    FB_ASSIGN(Temporary file, tree.NewTemporary());
    file_.emplace(std::move(file));
  }
  NewContent content{.file = *std::move(file_), .size_bytes = size_bytes_, .crc32c = crc32c_};
  file_.reset();
  if (target_.part)
    return tree.StorePart(operation_, target_.part->first, target_.part->second, options_.etag, std::move(content));
  if (target_.overwrite) return tree.Overwrite(operation_, bucket_, key_, *target_.overwrite, std::move(content));
  return tree.Put(operation_, bucket_, key_, options_, std::move(content));
}

rt::Task<Result<store::ReadData>> DirectoryStore::Reader::Read(const store::Context& context, uint64_t offset, uint64_t length) {
  FB_CO_TRY(store::CheckDeadline(context, "read"));
  FB_CO_TRY(store::CheckRead(bucket_, info(), offset, length));
  store::ReadData data;
  if (length == 0) co_return data;
  FB_CO_ASSIGN(base::Buffer buffer, co_await store::AllocateOrWait(store_.arena_, context, length));
  FB_CO_ASSIGN(data.crc32c,
               (co_await rt::Offload(context.reactor, store_.pool_, [&] { return Fill(buffer.writable(), offset); })));
  data.size_bytes = length;
  data.buffers.push_back(std::move(buffer));
  co_return data;
}

/// The bytes are those of one version when the file's size and time are after the read what they were at the opening. They
/// have no checksum to compare with: that is of the whole content only.
Result<uint32_t> DirectoryStore::Reader::Fill(MutableByteView out, uint64_t offset) const {
  const std::string what = fmt::format("read `{}/{}` at offset {}", bucket_, info().key, offset);
  FB_ASSIGN(const size_t got, ReadAt(opened_->file.get(), out, offset, what));
  FB_ASSIGN(const FileState now, StateOf(opened_->file.get(), what));
  const bool same = now.size_bytes == opened_->state.size_bytes && now.modified_ns == opened_->state.modified_ns;
  if (!same || got != out.size())
    return Status::Aborted("{}: another program changed the file in place since this version was opened: open it again", what);
  return base::Crc32c(out);
}

}  // namespace forebay::backend
