// SPDX-License-Identifier: Apache-2.0
#include "engine/row_frame.h"

#include "base/checksum.h"
#include "base/limits.h"

namespace forebay::engine {
namespace {

/// A piece is at least three bytes long: this bounds what a decoder allocates for `remaining` bytes of input.
constexpr size_t kMinPieceBytes = 3;

uint32_t RowChecksum(std::string_view row_key, std::string_view body) {
  return base::Crc32cExtend(base::Crc32c(AsBytes(row_key)), AsBytes(body));
}

}  // namespace

std::string RowName::Text() const {
  return fmt::format("the {} row {}", kind, base::ToHex(AsBytes(row_key.substr(0, 64))));
}

std::string Seal(std::string_view row_key, std::string body) {
  base::Encoder(&body).U32(RowChecksum(row_key, body));
  return body;
}

Status Nonsense(const RowName& name, std::string_view what) {
  return Status::DataLoss("{} is damaged: {}; run forebay fsck", name.Text(), what);
}

Status Finish(const base::Decoder& decoder, const RowName& name) {
  if (!decoder.failed() && decoder.remaining() == 0) return {};
  return decoder.Finish(name.Text());
}

Result<std::string_view> Unseal(const RowName& name, std::string_view value, uint8_t newest) {
  if (value.size() < 1 + sizeof(uint32_t)) return Nonsense(name, "it is cut short");
  const std::string_view body = value.substr(0, value.size() - sizeof(uint32_t));
  if (base::Decoder(value.substr(body.size())).U32() != RowChecksum(name.row_key, body))
    return Nonsense(name, "its checksum does not match");
  const auto format = static_cast<uint8_t>(body[0]);
  if (format > newest)
    return Status::FailedPrecondition("{} has format {}, this program knows {}: use a newer forebay", name.Text(), format,
                                      newest);
  if (format == 0) return Nonsense(name, "its format is 0");
  return body.substr(1);
}

void PutPieces(base::Encoder& encoder, std::span<const Piece> pieces) {
  encoder.Varint(pieces.size());
  for (const Piece& piece : pieces) {
    encoder.Varint(piece.extent);
    encoder.Varint(piece.offset);
    encoder.Varint(piece.length);
  }
}

std::vector<Piece> TakePieces(base::Decoder& decoder, uint64_t expected_bytes) {
  std::vector<Piece> pieces;
  const uint64_t count = decoder.Varint();
  if (count > decoder.remaining() / kMinPieceBytes) decoder.Fail();
  uint64_t total = 0;
  for (uint64_t i = 0; i < count && !decoder.failed(); ++i) {
    Piece piece;
    piece.extent = decoder.Varint();
    piece.offset = decoder.Varint();
    piece.length = decoder.Varint();
    const bool fits = piece.extent == kHole ? piece.offset == 0
                                            : base::RangeFits(piece.offset, piece.length, kMaxExtentBytes);
    if (!fits || piece.length == 0 || piece.length > expected_bytes - total) {
      decoder.Fail();
      break;
    }
    total += piece.length;
    pieces.push_back(piece);
  }
  if (total != expected_bytes) decoder.Fail();
  return pieces;
}

void PutMetadata(base::Encoder& encoder, const store::UserMetadata& metadata) {
  encoder.Varint(metadata.size());
  for (const auto& [name, value] : metadata) {
    encoder.Blob(name);
    encoder.Blob(value);
  }
}

store::UserMetadata TakeMetadata(base::Decoder& decoder) {
  store::UserMetadata metadata;
  const uint64_t count = decoder.Varint();
  if (count > base::kMaxUserMetadataBytes) decoder.Fail();
  size_t total = 0;
  for (uint64_t i = 0; i < count && !decoder.failed(); ++i) {
    const std::string_view name = decoder.Blob(base::kMaxUserMetadataBytes);
    const std::string_view value = decoder.Blob(base::kMaxUserMetadataBytes);
    total += name.size() + value.size();
    if (total > base::kMaxUserMetadataBytes || !metadata.emplace(name, value).second) decoder.Fail();
  }
  return metadata;
}

}  // namespace forebay::engine
