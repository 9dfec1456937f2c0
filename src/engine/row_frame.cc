// SPDX-License-Identifier: Apache-2.0
#include "engine/row_frame.h"

#include "base/checksum.h"

namespace forebay::engine {
namespace {

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

Result<std::string_view> Unseal(const RowName& name, std::string_view value) {
  if (value.size() < 1 + sizeof(uint32_t)) return Nonsense(name, "it is cut short");
  const std::string_view body = value.substr(0, value.size() - sizeof(uint32_t));
  if (base::Decoder(value.substr(body.size())).U32() != RowChecksum(name.row_key, body))
    return Nonsense(name, "its checksum does not match");
  const auto format = static_cast<uint8_t>(body[0]);
  if (format > kRecordFormat)
    return Status::FailedPrecondition("{} has format {}, this program knows {}: use a newer forebay",
                                      name.Text(), format, kRecordFormat);
  if (format != kRecordFormat) return Nonsense(name, "its format is 0");
  return body.substr(1);
}

}  // namespace forebay::engine
