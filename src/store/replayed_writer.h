// SPDX-License-Identifier: Apache-2.0
// ReplayedWriter: the writer of a put that took place before, under the same operation id. What is written is
// compared with what was, and let go; Commit gives the first result. Reactor-local.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "store/object_store.h"
#include "store/operations.h"

namespace forebay::store {

class ReplayedWriter final : public ObjectWriter {
 public:
  /// `memory` is a fresh writer of the same backend, which lends its Allocate. `record` is of a put that took
  /// place.
  ReplayedWriter(std::unique_ptr<ObjectWriter> memory, OperationRecord record, Operation operation,
                 std::string bucket, std::string key, PutOptions options)
      : memory_(std::move(memory)),
        record_(std::move(record)),
        operation_(operation),
        bucket_(std::move(bucket)),
        key_(std::move(key)),
        options_(std::move(options)) {}

  rt::Task<Result<base::Buffer>> Allocate(const Context& context, size_t size) override {
    return memory_->Allocate(context, size);
  }
  rt::Task<Status> Write(const Context& context, base::Buffer data) override;
  rt::Task<Result<ObjectInfo>> Commit(const Context& context, std::optional<uint32_t> crc32c) override;
  bool replays() const override { return true; }

 private:
  /// What the caller says or wrote; what is not known is taken to be the same.
  Content ContentOf(std::optional<uint32_t> crc32c) const;

  const std::unique_ptr<ObjectWriter> memory_;
  const OperationRecord record_;
  Operation operation_;
  const std::string bucket_;
  const std::string key_;
  const PutOptions options_;
  Content written_;
};

}  // namespace forebay::store
