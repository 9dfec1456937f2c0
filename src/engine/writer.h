// SPDX-License-Identifier: Apache-2.0
// Writer: one put in progress, of an object or of a part of one. Its content goes to a ContentWriter as it comes; Commit waits for that and hands one
// transaction to the committer. A writer that is destroyed before leaves nothing. Reactor-local to the reactor of the
// call that made it.
#pragma once

#include <optional>
#include <string>

#include "engine/content_writer.h"
#include "engine/core.h"
#include "engine/operations.h"
#include "store/object_store.h"

namespace forebay::engine {

class Writer final : public store::ObjectWriter {
 public:
  /// `core` is borrowed and outlives the writer.
  Writer(Core& core, rt::Reactor& reactor, store::Operation operation, std::string bucket_name,
         uint64_t bucket, std::string key, store::PutOptions options);
  /// Of a part: what it writes becomes part `number` of the upload.
  void PutPart(uint64_t upload, uint32_t number) {
    upload_ = upload;
    part_ = number;
    content_.NeedExtents();
  }

  rt::Task<Result<base::Buffer>> Allocate(const store::Context& context, size_t size) override {
    return content_.Allocate(context, size);
  }
  rt::Task<Status> Write(const store::Context& context, base::Buffer data) override;
  rt::Task<Result<store::ObjectInfo>> Commit(const store::Context& context,
                                             std::optional<uint32_t> crc32c) override;

 private:
  Core& core_;
  store::Operation operation_;
  const std::string bucket_name_;
  const uint64_t bucket_;
  const std::string key_;
  store::PutOptions options_;
  ContentWriter content_;
  uint64_t upload_ = 0;  // 0: no part
  uint32_t part_ = 0;
};

}  // namespace forebay::engine
