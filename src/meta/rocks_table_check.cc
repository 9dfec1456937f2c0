// SPDX-License-Identifier: Apache-2.0
#include "meta/rocks_table_check.h"

#include <rocksdb/file_system.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/bytes.h"
#include "base/checksum.h"
#include "base/codec.h"
#include "meta/rocks_checksum.h"

namespace forebay::meta {

namespace {

// RocksDB's block-based table, format version 5:
//   ... blocks, each followed by 1 byte of compression type and the masked CRC32C of both ...
//   footer: u8 checksum type | metaindex handle | index handle | zeros up to 41 bytes | u32 version | u64 magic
//   handle: varint offset | varint size
constexpr uint64_t kFooterBytes = 53;
constexpr uint64_t kHandlesBytes = 40;
constexpr uint64_t kTrailerBytes = 5;
constexpr uint8_t kCrc32c = 1;
constexpr uint32_t kVersion = 5;
constexpr uint64_t kMagic = 0x88e241b785f4cff7;
constexpr std::string_view kPropertiesName = "rocksdb.properties";

struct BlockHandle {
  uint64_t offset = 0;
  uint64_t size = 0;
};

BlockHandle ReadHandle(base::Decoder& decoder) {
  BlockHandle handle;
  handle.offset = decoder.Varint();
  handle.size = decoder.Varint();
  return handle;
}

class TableChecker {
 public:
  TableChecker(const std::string& path, uint64_t file_size, const ReadTable& read)
      : path_(path), file_size_(file_size), read_(read) {}

  Status Run() {
    if (file_size_ < kFooterBytes) return Damaged("it is too short");
    FB_ASSIGN(const std::string footer, read_(file_size_ - kFooterBytes, kFooterBytes));
    base::Decoder decoder(footer);
    const uint8_t checksum = decoder.U8();
    base::Decoder handles(decoder.Raw(kHandlesBytes));
    const BlockHandle metaindex = ReadHandle(handles);
    const BlockHandle index = ReadHandle(handles);
    const bool padded = std::all_of(handles.rest().begin(), handles.rest().end(), [](char c) { return c == 0; });
    const uint32_t version = decoder.U32();
    const uint64_t magic = decoder.U64();
    if (decoder.failed() || handles.failed() || !padded || checksum != kCrc32c || version != kVersion || magic != kMagic)
      return Damaged("its footer");
    if (!Inside(index)) return Damaged("its footer points to an index outside of the file");
    FB_ASSIGN(const std::string entries, ReadBlock(metaindex, "its metaindex"));
    FB_ASSIGN(const BlockHandle properties, FindProperties(entries));
    return base::StatusOf(ReadBlock(properties, "its properties"));
  }

 private:
  Status Damaged(std::string_view what) const {
    return Status::DataLoss("{}: this table of the metadata is damaged: {}; restore the metadata from a backup", path_, what);
  }
  bool Inside(const BlockHandle& handle) const {
    return base::RangeFits(handle.offset, handle.size, file_size_) &&
           base::RangeFits(handle.offset + handle.size, kTrailerBytes, file_size_ - kFooterBytes);
  }

  Result<std::string> ReadBlock(const BlockHandle& handle, std::string_view what) {
    if (!Inside(handle)) return Damaged(what);
    FB_ASSIGN(std::string block, read_(handle.offset, handle.size + kTrailerBytes));
    base::Decoder trailer(std::string_view(block).substr(handle.size + 1));
    if (trailer.U32() != MaskChecksum(base::Crc32c(AsBytes(std::string_view(block).substr(0, handle.size + 1)))))
      return Damaged(what);
    block.resize(handle.size);
    return block;
  }

  /// Looks through a block of key-value pairs whose keys are whole.
  Result<BlockHandle> FindProperties(std::string_view block) const {
    base::Decoder decoder(block);
    while (decoder.remaining() > sizeof(uint32_t) && !decoder.failed()) {
      const uint64_t shared = decoder.Varint(), key_bytes = decoder.Varint(), value_bytes = decoder.Varint();
      const std::string_view key = decoder.Raw(key_bytes);
      base::Decoder value(decoder.Raw(value_bytes));
      if (shared != 0 || key != kPropertiesName) continue;
      const BlockHandle handle = ReadHandle(value);
      if (value.failed()) break;
      return handle;
    }
    return Damaged("it has no properties");
  }

  const std::string& path_;
  const uint64_t file_size_;
  const ReadTable& read_;
};

class TableCheckFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  using FileSystemWrapper::FileSystemWrapper;
  const char* Name() const override { return "forebay.TableCheck"; }

  rocksdb::IOStatus NewRandomAccessFile(const std::string& path, const rocksdb::FileOptions& options,
                                        std::unique_ptr<rocksdb::FSRandomAccessFile>* result,
                                        rocksdb::IODebugContext* debug) override {
    rocksdb::IOStatus opened = target()->NewRandomAccessFile(path, options, result, debug);
    if (!opened.ok() || !path.ends_with(".sst")) return opened;
    uint64_t size = 0;
    rocksdb::IOStatus measured = target()->GetFileSize(path, options.io_options, &size, debug);
    if (!measured.ok()) return measured;
    rocksdb::IOStatus failed_read;
    const Status checked = CheckTable(path, size, [&](uint64_t offset, uint64_t length) -> Result<std::string> {
      std::string bytes(length, '\0');
      rocksdb::Slice read;
      failed_read = (*result)->Read(offset, length, options.io_options, &read, bytes.data(), debug);
      if (!failed_read.ok()) return Status::DataLoss("{}: {}", path, failed_read.ToString());
      return read.ToString().append(length - read.size(), '\0');
    });
    if (!failed_read.ok()) return failed_read;
    return checked.ok() ? opened : rocksdb::IOStatus::Corruption(std::string(checked.message()));
  }
};

}  // namespace

Status CheckTable(const std::string& path, uint64_t file_size, const ReadTable& read) {
  return TableChecker(path, file_size, read).Run();
}

std::shared_ptr<rocksdb::FileSystem> WithTableCheck(std::shared_ptr<rocksdb::FileSystem> base) {
  return std::make_shared<TableCheckFileSystem>(std::move(base));
}

}  // namespace forebay::meta
