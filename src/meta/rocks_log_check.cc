// SPDX-License-Identifier: Apache-2.0
#include "meta/rocks_log_check.h"

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <optional>
#include <vector>

#include <rocksdb/file_system.h>

#include "base/checksum.h"
#include "base/codec.h"
#include "meta/rocks_checksum.h"

namespace forebay::meta {

namespace {

// RocksDB's log:
//   blocks of 32 KiB, the last one as long as it is
//   block: records | zeros, fewer than a header, up to its end
//   record: u32 masked CRC32C of all that follows the length | u16 length | u8 type | `length` bytes
// A batch that does not fit into the rest of a block is several records.
constexpr uint64_t kBlockBytes = 32768;
constexpr uint64_t kHeaderBytes = 7;
constexpr uint64_t kTypeAt = 6;
/// What a power cut leaves as it was before or as it was to be, nothing in between.
constexpr uint64_t kSectorBytes = 512;

/// What one byte does to the remainder of CRC32C (reflected polynomial 0x82f63b78).
constexpr std::array<uint32_t, 256> kRemainders = [] {
  std::array<uint32_t, 256> remainders{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t remainder = byte;
    for (int bit = 0; bit < 8; ++bit) remainder = (remainder >> 1) ^ ((remainder & 1) != 0 ? 0x82f63b78U : 0);
    remainders[byte] = remainder;
  }
  return remainders;
}();

/// The byte of `size` bytes in which one bit, changed, changes their CRC32C by `difference`. CRCs are linear:
/// what a bit does depends on its distance from the end alone, and no two bits of so few bytes do the same.
std::optional<size_t> FindBit(size_t size, uint32_t difference) {
  std::array<uint32_t, 8> effects{};
  for (size_t bit = 0; bit < 8; ++bit) effects[bit] = kRemainders[size_t{1} << bit];
  for (size_t at = size; at-- > 0;) {
    for (uint32_t& effect : effects) {
      if (effect == difference) return at;
      effect = (effect >> 8) ^ kRemainders[effect & 0xff];
    }
  }
  return std::nullopt;
}

/// A place in a block where a record should be.
class Place {
 public:
  /// `rest`: the block from there to its end; `offset`: of the place in the file.
  Place(std::string_view rest, uint64_t offset) : rest_(rest), offset_(offset) {
    base::Decoder header(rest);
    checksum_ = header.U32();
    length_ = header.U16();
  }

  bool Whole() const { return Fits(length_) && MaskChecksum(Checksum(length_)) == checksum_; }
  uint64_t size() const { return kHeaderBytes + length_; }

  /// False when a power cut may have left this: a beginning of a record, or sectors of it that were never
  /// written.
  bool Damaged() const {
    const std::optional<size_t> flipped = FindFlipped();
    if (flipped)
      return !NeverWritten(*flipped);  // the one bit of a sector may have been all there was to write
    if (!Fits(length_) && offset_ / kBlockBytes == (offset_ + kHeaderBytes + length_ - 1) / kBlockBytes)
      return false;
    for (size_t at = 0; at < end(); at = SectorEnd(at))
      if (NeverWritten(at)) return false;
    return true;
  }

 private:
  bool Fits(uint64_t length) const { return kHeaderBytes + length <= rest_.size(); }
  /// Of type and data.
  uint32_t Checksum(uint64_t length) const {
    return base::Crc32c(AsBytes(rest_.substr(kTypeAt, kHeaderBytes - kTypeAt + length)));
  }
  size_t end() const { return Fits(length_) ? size() : rest_.size(); }

  /// The byte in which changing one bit makes this a whole record.
  std::optional<size_t> FindFlipped() const {
    for (unsigned bit = 0; bit < 16; ++bit) {
      const uint64_t length = length_ ^ (uint64_t{1} << bit);
      if (Fits(length) && MaskChecksum(Checksum(length)) == checksum_) return 4 + bit / 8;
    }
    if (!Fits(length_)) return std::nullopt;
    const uint32_t wrong = MaskChecksum(Checksum(length_)) ^ checksum_;
    if (std::has_single_bit(wrong)) return static_cast<size_t>(std::countr_zero(wrong)) / 8;
    const std::optional<size_t> found =
        FindBit(size() - kTypeAt, Checksum(length_) ^ UnmaskChecksum(checksum_));
    if (!found) return std::nullopt;
    return kTypeAt + *found;
  }

  size_t SectorEnd(size_t at) const {
    const uint64_t sector_end = ((offset_ + at) / kSectorBytes + 1) * kSectorBytes - offset_;
    return std::min<size_t>(end(), sector_end);
  }
  /// Whether this record's part of the sector that has its byte `at` is zeros.
  bool NeverWritten(size_t at) const {
    const uint64_t sector = (offset_ + at) / kSectorBytes * kSectorBytes;
    const size_t begin = sector > offset_ ? sector - offset_ : 0;
    const std::string_view part = rest_.substr(begin, SectorEnd(at) - begin);
    return std::all_of(part.begin(), part.end(), [](char c) { return c == 0; });
  }

  const std::string_view rest_;
  const uint64_t offset_;
  uint32_t checksum_ = 0;
  uint64_t length_ = 0;
};

}  // namespace

Result<uint64_t> FindLogEnd(const std::string& path, uint64_t file_size, const ReadLog& read) {
  uint64_t end = 0;
  for (uint64_t block = 0; block < file_size; block += kBlockBytes) {
    FB_ASSIGN(const std::string bytes, read(block, std::min(kBlockBytes, file_size - block)));
    uint64_t at = 0;
    while (bytes.size() - at >= kHeaderBytes) {
      const Place place(std::string_view(bytes).substr(at), block + at);
      if (place.Whole()) {
        at += place.size();
        end = block + at;
        continue;
      }
      if (!place.Damaged()) return end;  // RocksDB's too
      return Status::DataLoss(
          "{}: the record at byte {} of this file of the metadata is damaged, and no power cut leaves it "
          "like that; restore the metadata from a backup",
          path, block + at);
    }
  }
  return end;
}

Status CheckLog(const std::string& path, uint64_t file_size, const ReadLog& read) {
  return base::StatusOf(FindLogEnd(path, file_size, read));
}

Status CheckLogs(const RocksSetup& setup, const std::string& path) {
  const rocksdb::IOOptions io;
  std::vector<std::string> children;
  FB_TRY(FromRocks(setup.file_system->GetChildren(path, io, &children, nullptr), path));
  for (const std::string& child : children) {
    if (!child.ends_with(".log")) continue;
    const std::string name = fmt::format("{}/{}", path, child);
    uint64_t size = 0;
    FB_TRY(FromRocks(setup.file_system->GetFileSize(name, io, &size, nullptr), name));
    std::unique_ptr<rocksdb::FSRandomAccessFile> file;
    FB_TRY(FromRocks(setup.file_system->NewRandomAccessFile(name, rocksdb::FileOptions(), &file, nullptr),
                     name));
    FB_TRY(CheckLog(name, size, [&](uint64_t offset, uint64_t length) -> Result<std::string> {
      std::string bytes(length, '\0');
      rocksdb::Slice got;
      FB_TRY(FromRocks(file->Read(offset, length, io, &got, bytes.data(), nullptr), name));
      return got.ToString();
    }));
  }
  return {};
}

}  // namespace forebay::meta
