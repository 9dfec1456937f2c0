// SPDX-License-Identifier: Apache-2.0
#include "backend/names.h"
#include "backend/records.h"
#include "backend/records_fuzz.h"
#include "base/check.h"

namespace forebay::backend {
namespace {

/// Numbers may be written in more bytes than they need, so the text need not be the same: what it means must be.
template <typename Decode>
bool Try(std::string_view input, Decode decode) {
  const auto record = decode(input);
  if (!record.ok()) return false;
  const auto again = decode(Encode(*record));
  FB_CHECK(again.ok() && *again == *record);
  return true;
}

}  // namespace

bool FuzzRecords(ByteView input) {
  const std::string_view text = AsText(input);
  bool read = Try(text, DecodeObject);
  read |= Try(text, DecodeChecksum);
  read |= Try(text, DecodeBucket);
  read |= Try(text, DecodeUpload);
  read |= Try(text, DecodeQuotas);
  read |= Try(text, DecodeJournalEntry);
  if (const auto key = UnescapeKey(text)) {
    FB_CHECK(EscapeKey(*key) == text);
    read = true;
  }
  if (!text.empty()) FB_CHECK(UnescapeKey(EscapeKey(text)) == text);
  return read;
}

}  // namespace forebay::backend
