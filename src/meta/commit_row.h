// SPDX-License-Identifier: Apache-2.0
// The commit row and the witness check, which both stores make when they open. Private to meta.
// Thread-safe: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/codec.h"
#include "base/status.h"

namespace forebay::meta {

/// The number in the value of the commit row; 0 when the store never committed. DataLoss when it is no number.
inline Result<uint64_t> DecodeCommitRow(std::string_view store, const std::optional<std::string>& value) {
  if (!value) return uint64_t{0};
  base::Decoder decoder(*value);
  const uint64_t number = decoder.U64();
  FB_TRY(decoder.Finish(fmt::format("{}: the commit row", store)));
  return number;
}

/// DataLoss when the last commit that is found is older than one that the data device knows to be acknowledged.
inline Status CheckWitness(std::string_view store, uint64_t found, uint64_t witness) {
  if (found >= witness) return {};
  return Status::DataLoss(
      "{}: the metadata log ends at commit {}, but the data device witnesses commit {}: the log is damaged or a part of it "
      "is missing, and acknowledged changes with it; nothing was changed. Restore the metadata from a backup, or run "
      "`forebay fsck` to see what is left",
      store, found, witness);
}

}  // namespace forebay::meta
