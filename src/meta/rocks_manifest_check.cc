// SPDX-License-Identifier: Apache-2.0
#include "meta/rocks_manifest_check.h"

#include <rocksdb/file_system.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/checksum.h"
#include "meta/rocks_shortened_file.h"

namespace forebay::meta {

namespace {

using rocksdb::FileOptions;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;

constexpr std::string_view kManifestPrefix = "MANIFEST-";
constexpr std::string_view kNoteSuffix = ".durable";
/// More than any note has.
constexpr size_t kMaxNoteBytes = 128;

std::string_view NameOf(std::string_view path) { return path.substr(path.find_last_of('/') + 1); }
/// With the slash.
std::string_view DirectoryOf(std::string_view path) { return path.substr(0, path.find_last_of('/') + 1); }

bool IsManifest(std::string_view name) {
  if (!name.starts_with(kManifestPrefix) || name.size() == kManifestPrefix.size()) return false;
  return name.find_first_not_of("0123456789", kManifestPrefix.size()) == std::string_view::npos;
}
bool IsNote(std::string_view name) {
  return name.ends_with(kNoteSuffix) && IsManifest(name.substr(0, name.size() - kNoteSuffix.size()));
}

class ManifestCheckFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  using FileSystemWrapper::FileSystemWrapper;
  const char* Name() const override { return "forebay.ManifestCheck"; }

  IOStatus NewSequentialFile(const std::string& path, const FileOptions& options,
                             std::unique_ptr<rocksdb::FSSequentialFile>* result, IODebugContext* debug) override {
    IOStatus opened = target()->NewSequentialFile(path, options, result, debug);
    if (!opened.ok() || !IsManifest(NameOf(path))) return opened;
    uint64_t end = 0;
    IOStatus checked = FindEnd(path, options, &end, debug);
    if (!checked.ok()) return checked;
    *result = std::make_unique<ShortenedFile>(std::move(*result), end);
    return opened;
  }

  IOStatus RenameFile(const std::string& from, const std::string& to, const IOOptions& options,
                      IODebugContext* debug) override {
    if (NameOf(to) != "CURRENT") return target()->RenameFile(from, to, options, debug);
    std::string name;
    IOStatus status = ReadSmallFile(from, FileOptions(), &name, debug);
    if (!status.ok()) return status;
    if (name.ends_with('\n')) name.pop_back();
    if (!IsManifest(name)) return IOStatus::Corruption(from, "it should name a manifest");
    const std::string directory(DirectoryOf(to));
    status = WriteNote(directory, name, options, debug);
    if (status.ok()) status = target()->RenameFile(from, to, options, debug);
    // The old manifest is done with once that is durable, and so is its note. RocksDB syncs the names itself.
    if (status.ok() && SyncNames(directory, options, debug).ok()) RemoveOtherNotes(directory, name, options, debug);
    return status;
  }

 private:
  IOStatus FindEnd(const std::string& path, const FileOptions& options, uint64_t* end, IODebugContext* debug) {
    uint64_t size = 0;
    IOStatus status = target()->GetFileSize(path, options.io_options, &size, debug);
    if (!status.ok()) return status;
    std::string note;  // one that cannot be read is as good as none
    ReadSmallFile(path + std::string(kNoteSuffix), options, &note, debug).PermitUncheckedError();
    std::unique_ptr<rocksdb::FSRandomAccessFile> file;
    status = target()->NewRandomAccessFile(path, options, &file, debug);
    if (!status.ok()) return status;
    IOStatus failed_read;
    const ReadLog read = [&](uint64_t offset, uint64_t length) -> Result<std::string> {
      std::string bytes(length, '\0');
      rocksdb::Slice got;
      failed_read = file->Read(offset, length, options.io_options, &got, bytes.data(), debug);
      if (!failed_read.ok()) return Status::DataLoss("{}: {}", path, failed_read.ToString());
      return got.ToString();
    };
    const Result<uint64_t> found = CheckManifest(path, size, DecodeDurableNote(NameOf(path), note), read);
    if (!failed_read.ok()) return failed_read;
    if (!found.ok()) return IOStatus::Corruption(std::string(found.status().message()));
    *end = *found;
    return {};
  }

  /// Of a file that is longer than any note only the beginning is read.
  IOStatus ReadSmallFile(const std::string& path, const FileOptions& options, std::string* content,
                         IODebugContext* debug) {
    std::unique_ptr<rocksdb::FSSequentialFile> file;
    IOStatus status = target()->NewSequentialFile(path, options, &file, debug);
    if (!status.ok()) return status;
    char scratch[kMaxNoteBytes];
    rocksdb::Slice read;
    status = file->Read(sizeof scratch, options.io_options, &read, scratch, debug);
    if (status.ok()) *content = read.ToString();
    return status;
  }

  IOStatus WriteNote(const std::string& directory, const std::string& name, const IOOptions& options,
                     IODebugContext* debug) {
    uint64_t size = 0;
    IOStatus status = target()->GetFileSize(directory + name, options, &size, debug);
    if (!status.ok()) return status;
    std::unique_ptr<rocksdb::FSWritableFile> file;
    status = target()->NewWritableFile(directory + name + std::string(kNoteSuffix), FileOptions(), &file, debug);
    if (status.ok()) status = file->Append(EncodeDurableNote(name, size), options, debug);
    if (status.ok()) status = file->Sync(options, debug);
    if (status.ok()) status = file->Close(options, debug);
    return status.ok() ? SyncNames(directory, options, debug) : status;
  }

  IOStatus SyncNames(const std::string& directory, const IOOptions& options, IODebugContext* debug) {
    std::unique_ptr<rocksdb::FSDirectory> names;
    IOStatus status = target()->NewDirectory(directory, options, &names, debug);
    return status.ok() ? names->Fsync(options, debug) : status;
  }

  /// A note that stays is of no harm.
  void RemoveOtherNotes(const std::string& directory, const std::string& name, const IOOptions& options,
                        IODebugContext* debug) {
    std::vector<std::string> children;
    if (!target()->GetChildren(directory, options, &children, debug).ok()) return;
    for (const std::string& child : children) {
      if (!IsNote(child) || child == name + std::string(kNoteSuffix)) continue;
      target()->DeleteFile(directory + child, options, debug).PermitUncheckedError();
    }
  }
};

uint32_t ChecksumOf(std::string_view name, std::string_view digits) {
  return base::Crc32c(AsBytes(fmt::format("{} {}", name, digits)));
}

}  // namespace

std::string EncodeDurableNote(std::string_view name, uint64_t bytes) {
  const std::string digits = std::to_string(bytes);
  return fmt::format("{} {:08x}\n", digits, ChecksumOf(name, digits));
}

std::optional<uint64_t> DecodeDurableNote(std::string_view name, std::string_view note) {
  uint64_t bytes = 0;
  const auto [rest, error] = std::from_chars(note.data(), note.data() + note.size(), bytes);
  if (error != std::errc() || note != EncodeDurableNote(name, bytes)) return std::nullopt;
  return bytes;
}

Result<uint64_t> CheckManifest(const std::string& path, uint64_t file_size, std::optional<uint64_t> durable,
                               const ReadLog& read) {
  FB_ASSIGN(const uint64_t end, FindLogEnd(path, file_size, read));
  if (durable && end < *durable) {
    return Status::DataLoss("{}: this manifest of the metadata cannot be read beyond byte {}, but its first {} bytes were "
                            "durable before it was used; restore the metadata from a backup",
                            path, end, *durable);
  }
  return end;
}

std::shared_ptr<rocksdb::FileSystem> WithManifestCheck(std::shared_ptr<rocksdb::FileSystem> base) {
  return std::make_shared<ManifestCheckFileSystem>(std::move(base));
}

}  // namespace forebay::meta
