// SPDX-License-Identifier: Apache-2.0
// The writer and the reader of DirectoryStore, for its own sources only. A writer fills a temporary file; a reader keeps the
// descriptor of its version's file, so that it stays readable whatever is put in its place, and refuses to mix versions
// when another program changes that file in place. Reactor-local to the context that each was made with.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "backend/directory_store.h"

namespace forebay::backend {

class DirectoryStore::Writer final : public store::ObjectWriter {
 public:
  /// What becomes of the content, unless it is a whole object.
  struct Target {
    std::optional<store::OverwriteOptions> overwrite{};
    std::optional<std::pair<store::UploadName, uint32_t>> part{};
  };

  Writer(DirectoryStore& store, store::Operation operation, std::string bucket, std::string key, store::PutOptions options,
         Target target)
      : store_(store),
        operation_(operation),
        bucket_(std::move(bucket)),
        key_(std::move(key)),
        options_(std::move(options)),
        target_(std::move(target)) {}
  ~Writer() override;

  rt::Task<Result<base::Buffer>> Allocate(const store::Context& context, size_t size) override;
  rt::Task<Status> Write(const store::Context& context, base::Buffer data) override;
  rt::Task<Result<store::ObjectInfo>> Commit(const store::Context& context, std::optional<uint32_t> crc32c) override;

 private:
  Status CheckWrite(uint64_t more_bytes) const;
  Status Append(const base::Buffer& data);
  Result<store::ObjectInfo> Publish();

  DirectoryStore& store_;
  store::Operation operation_;
  const std::string bucket_;
  const std::string key_;
  const store::PutOptions options_;
  const Target target_;
  std::optional<Temporary> file_;  // once there is something to write, or at the end
  uint64_t size_bytes_ = 0;
  uint32_t crc32c_ = 0;
  bool ended_ = false;
};

class DirectoryStore::Reader final : public store::ObjectReader {
 public:
  Reader(DirectoryStore& store, std::string bucket, Tree::Opened opened)
      : store_(store), bucket_(std::move(bucket)), opened_(std::make_shared<Tree::Opened>(std::move(opened))) {}
  ~Reader() override { store_.Drop(std::move(opened_)); }

  const store::ObjectInfo& info() const override { return opened_->info; }
  rt::Task<Result<store::ReadData>> Read(const store::Context& context, uint64_t offset, uint64_t length) override;

 private:
  Result<uint32_t> Fill(MutableByteView out, uint64_t offset) const;

  DirectoryStore& store_;
  const std::string bucket_;
  std::shared_ptr<Tree::Opened> opened_;  // shared: what closes its file may run after this is gone
};

}  // namespace forebay::backend
