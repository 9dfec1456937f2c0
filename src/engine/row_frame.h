// SPDX-License-Identifier: Apache-2.0
// What all records of the metadata have in common: a format byte in front, and behind a CRC32C over the row's key and
// the record. Private to the codecs of rows (rows.cc, operation_rows.cc, tenant_accounts.cc,
// upload_rows.cc) and of copy.cc, which looks at checksums only. Thread-safe: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/codec.h"
#include "base/status.h"
#include "engine/rows.h"
#include "store/object_store.h"

namespace forebay::engine {

constexpr uint8_t kRecordFormat = 1;

/// What a message calls a row: its kind, and its key in hex. Spelt out only when there is something to say.
struct RowName {
  std::string_view kind;
  std::string_view row_key;
  std::string Text() const;
};

/// Ends a record that `body` holds so far.
std::string Seal(std::string_view row_key, std::string body);
/// The body of a record whose checksum and format byte are right, without both. DataLoss; FailedPrecondition for a format
/// above `newest`.
Result<std::string_view> Unseal(const RowName& name, std::string_view value, uint8_t newest = kRecordFormat);

// Parts that several records have.

void PutPieces(base::Encoder& encoder, std::span<const Piece> pieces);
/// Fails the decoder unless they make sense and add up to `expected_bytes`.
std::vector<Piece> TakePieces(base::Decoder& decoder, uint64_t expected_bytes);
void PutMetadata(base::Encoder& encoder, const store::UserMetadata& metadata);
store::UserMetadata TakeMetadata(base::Decoder& decoder);

Status Nonsense(const RowName& name, std::string_view what);
/// DataLoss unless all bytes were taken and nothing failed.
Status Finish(const base::Decoder& decoder, const RowName& name);

}  // namespace forebay::engine
