// SPDX-License-Identifier: Apache-2.0
// Reader: one open version. A read whose blocks are all in the memory tier neither suspends nor copies.
// Reactor-local in each call; several calls may be in progress.
#pragma once

#include <utility>

#include "engine/fetch.h"
#include "store/object_store.h"

namespace forebay::engine {

class Reader final : public store::ObjectReader {
 public:
  explicit Reader(OpenVersionPtr version) : version_(std::move(version)) {}

  const store::ObjectInfo& info() const override { return version_->state->info; }
  rt::Task<Result<store::ReadData>> Read(const store::Context& context, uint64_t offset,
                                         uint64_t length) override;

 private:
  rt::Task<Result<store::ReadData>> ReadInline(const store::Context& context, uint64_t offset,
                                               uint64_t length);
  rt::Task<Result<std::vector<BlockPart>>> FetchMissing(const store::Context& context,
                                                        std::vector<BlockPart> parts);
  store::ReadData Gather(std::vector<BlockPart> parts) const;
  void AddZeros(uint64_t length, store::ReadData* data) const;

  const OpenVersionPtr version_;
};

}  // namespace forebay::engine
