// SPDX-License-Identifier: Apache-2.0
// ShortenedFile: a file of RocksDB that is shown only as far as it was found whole: logs and manifests, of which a power
// cut may have torn the end. Private to meta. Belongs to whoever reads it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include <rocksdb/file_system.h>

namespace forebay::meta {

/// Shows a file up to `end`.
class ShortenedFile final : public rocksdb::FSSequentialFileOwnerWrapper {
 public:
  ShortenedFile(std::unique_ptr<rocksdb::FSSequentialFile> base, uint64_t end)
      : FSSequentialFileOwnerWrapper(std::move(base)), left_(end) {}

  rocksdb::IOStatus Read(size_t size, const rocksdb::IOOptions& options, rocksdb::Slice* result, char* scratch,
                         rocksdb::IODebugContext* debug) override {
    const size_t wanted = std::min<uint64_t>(size, left_);
    rocksdb::IOStatus read = FSSequentialFileOwnerWrapper::Read(wanted, options, result, scratch, debug);
    if (read.ok()) left_ -= result->size();
    return read;
  }
  rocksdb::IOStatus Skip(uint64_t size) override {
    const uint64_t wanted = std::min(size, left_);
    left_ -= wanted;
    return FSSequentialFileOwnerWrapper::Skip(wanted);
  }
  rocksdb::IOStatus PositionedRead(uint64_t, size_t, const rocksdb::IOOptions&, rocksdb::Slice*, char*,
                                   rocksdb::IODebugContext*) override {
    return rocksdb::IOStatus::NotSupported("direct reads of a shortened file");
  }

 private:
  uint64_t left_;
};

}  // namespace forebay::meta
