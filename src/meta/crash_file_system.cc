// SPDX-License-Identifier: Apache-2.0
#include "meta/crash_file_system.h"

#include <rocksdb/file_system.h>

#include <atomic>
#include <string_view>
#include <utility>

#include "meta/unsynced_files.h"

namespace forebay::meta {

using rocksdb::FileOptions;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;

namespace {

enum class Use : uint8_t { kTable, kOther };

Use UseOf(std::string_view path) { return path.ends_with(".sst") ? Use::kTable : Use::kOther; }

/// The power, and whether syncs do anything.
class Supply {
 public:
  explicit Supply(CrashFileSystem::Options options) : options_(std::move(options)) {}

  IOStatus Ask(Use use) {
    if (!off_.load() && (!options_.use || options_.use())) return IOStatus::OK();
    off_ = true;
    return use == Use::kTable ? IOStatus::OK() : IOStatus::IOError("the power is off");
  }
  void Cut() { off_ = true; }
  bool syncs_lie() const { return options_.syncs_lie || off_.load(); }

 private:
  const CrashFileSystem::Options options_;
  std::atomic<bool> off_{false};
};

#define FB_USE(use)                                   \
  do {                                                \
    IOStatus fb_use_status = supply_->Ask(use);       \
    if (!fb_use_status.ok()) return fb_use_status;    \
  } while (false)

IOStatus ToRocks(const Status& status) {
  if (status.ok()) return IOStatus::OK();
  return status.code() == Code::kNotFound ? IOStatus::PathNotFound(status.ToString()) : IOStatus::IOError(status.ToString());
}

class CrashFile final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  CrashFile(std::unique_ptr<rocksdb::FSWritableFile> base, UnsyncedFiles::Handle file, UnsyncedFiles& files,
            std::shared_ptr<Supply> supply, Use use)
      : FSWritableFileOwnerWrapper(std::move(base)),
        file_(std::move(file)),
        files_(files),
        supply_(std::move(supply)),
        use_(use) {}

  IOStatus Append(const rocksdb::Slice& data, const IOOptions& options, IODebugContext* debug) override {
    FB_USE(use_);
    IOStatus status = target()->Append(data, options, debug);
    if (status.ok()) files_.Appended(file_, data.size());
    return status;
  }
  IOStatus Append(const rocksdb::Slice& data, const IOOptions& options, const rocksdb::DataVerificationInfo&,
                  IODebugContext* debug) override {
    return Append(data, options, debug);
  }
  IOStatus PositionedAppend(const rocksdb::Slice&, uint64_t, const IOOptions&, IODebugContext*) override {
    return IOStatus::NotSupported("direct writes are not modelled");
  }
  IOStatus PositionedAppend(const rocksdb::Slice&, uint64_t, const IOOptions&, const rocksdb::DataVerificationInfo&,
                            IODebugContext*) override {
    return IOStatus::NotSupported("direct writes are not modelled");
  }
  IOStatus Truncate(uint64_t size, const IOOptions& options, IODebugContext* debug) override {
    FB_USE(use_);
    IOStatus status = target()->Truncate(size, options, debug);
    if (status.ok()) files_.Truncated(file_, size);
    return status;
  }
  IOStatus Sync(const IOOptions&, IODebugContext*) override {
    FB_USE(use_);
    if (!supply_->syncs_lie()) files_.Synced(file_);
    return IOStatus::OK();
  }
  IOStatus Fsync(const IOOptions& options, IODebugContext* debug) override { return Sync(options, debug); }
  IOStatus RangeSync(uint64_t, uint64_t, const IOOptions&, IODebugContext*) override { return IOStatus::OK(); }

 private:
  const UnsyncedFiles::Handle file_;
  UnsyncedFiles& files_;  // borrowed from the CrashFileSystem
  const std::shared_ptr<Supply> supply_;
  const Use use_;
};

class CrashDirectory final : public rocksdb::FSDirectoryWrapper {
 public:
  CrashDirectory(std::unique_ptr<rocksdb::FSDirectory> base, UnsyncedFiles& files, std::shared_ptr<Supply> supply)
      : FSDirectoryWrapper(std::move(base)), files_(files), supply_(std::move(supply)) {}

  IOStatus Fsync(const IOOptions&, IODebugContext*) override {
    FB_USE(Use::kOther);
    if (!supply_->syncs_lie()) files_.DirectorySynced();
    return IOStatus::OK();
  }
  IOStatus FsyncWithDirOptions(const IOOptions& options, IODebugContext* debug,
                               const rocksdb::DirFsyncOptions&) override {
    return Fsync(options, debug);
  }

 private:
  UnsyncedFiles& files_;  // borrowed from the CrashFileSystem
  const std::shared_ptr<Supply> supply_;
};

}  // namespace

/// Reads, locks and what lies outside of the directory go straight to the machine's file system; so does RocksDB's own
/// text log, which no promise depends on.
class CrashFileSystem::Impl final : public rocksdb::FileSystemWrapper {
 public:
  Impl(UnsyncedFiles& files, Options options)
      : FileSystemWrapper(rocksdb::FileSystem::Default()),
        files_(files),
        supply_(std::make_shared<Supply>(std::move(options))) {}
  const char* Name() const override { return "forebay.CrashFileSystem"; }
  Supply& supply() { return *supply_; }

  IOStatus NewWritableFile(const std::string& path, const FileOptions& options,
                           std::unique_ptr<rocksdb::FSWritableFile>* result, IODebugContext* debug) override {
    if (!files_.Covers(path)) return target()->NewWritableFile(path, options, result, debug);
    FB_USE(UseOf(path));
    Result<UnsyncedFiles::Handle> file = files_.Create(path);
    if (!file.ok()) return ToRocks(file.status());
    IOStatus status = target()->NewWritableFile(path, options, result, debug);
    return Wrap(std::move(status), *std::move(file), UseOf(path), result);
  }
  IOStatus ReopenWritableFile(const std::string& path, const FileOptions& options,
                              std::unique_ptr<rocksdb::FSWritableFile>* result, IODebugContext* debug) override {
    if (!files_.Covers(path)) return target()->ReopenWritableFile(path, options, result, debug);
    FB_USE(UseOf(path));
    UnsyncedFiles::Handle file = files_.Open(path);
    if (!file) return NewWritableFile(path, options, result, debug);
    IOStatus status = target()->ReopenWritableFile(path, options, result, debug);
    return Wrap(std::move(status), std::move(file), UseOf(path), result);
  }
  IOStatus NewDirectory(const std::string& path, const IOOptions& options,
                        std::unique_ptr<rocksdb::FSDirectory>* result, IODebugContext* debug) override {
    IOStatus status = target()->NewDirectory(path, options, result, debug);
    if (status.ok() && files_.Covers(path))
      *result = std::make_unique<CrashDirectory>(std::move(*result), files_, supply_);
    return status;
  }
  IOStatus DeleteFile(const std::string& path, const IOOptions& options, IODebugContext* debug) override {
    if (!files_.Covers(path)) return target()->DeleteFile(path, options, debug);
    FB_USE(UseOf(path));
    return ToRocks(files_.Delete(path));
  }
  IOStatus RenameFile(const std::string& from, const std::string& to, const IOOptions& options,
                      IODebugContext* debug) override {
    if (!files_.Covers(from) && !files_.Covers(to)) return target()->RenameFile(from, to, options, debug);
    FB_USE(UseOf(to));
    return ToRocks(files_.Rename(from, to));
  }
  IOStatus Truncate(const std::string& path, size_t size, const IOOptions& options, IODebugContext* debug) override {
    if (!files_.Covers(path)) return target()->Truncate(path, size, options, debug);
    FB_USE(UseOf(path));
    const UnsyncedFiles::Handle file = files_.Open(path);
    IOStatus status = target()->Truncate(path, size, options, debug);
    if (status.ok() && file) files_.Truncated(file, size);
    return status;
  }
  IOStatus ReuseWritableFile(const std::string&, const std::string&, const FileOptions&,
                             std::unique_ptr<rocksdb::FSWritableFile>*, IODebugContext*) override {
    return IOStatus::NotSupported("reuse of files is not modelled");
  }
  IOStatus NewRandomRWFile(const std::string&, const FileOptions&, std::unique_ptr<rocksdb::FSRandomRWFile>*,
                           IODebugContext*) override {
    return IOStatus::NotSupported("writes in place are not modelled");
  }
  IOStatus LinkFile(const std::string&, const std::string&, const IOOptions&, IODebugContext*) override {
    return IOStatus::NotSupported("links are not modelled");
  }

 private:
  IOStatus Wrap(IOStatus status, UnsyncedFiles::Handle file, Use use,
                std::unique_ptr<rocksdb::FSWritableFile>* result) {
    if (status.ok()) *result = std::make_unique<CrashFile>(std::move(*result), std::move(file), files_, supply_, use);
    return status;
  }

  UnsyncedFiles& files_;  // borrowed from the CrashFileSystem
  const std::shared_ptr<Supply> supply_;
};

CrashFileSystem::CrashFileSystem(std::string directory, Options options)
    : files_(std::make_unique<UnsyncedFiles>(std::move(directory))),
      impl_(std::make_shared<Impl>(*files_, std::move(options))) {}

CrashFileSystem::~CrashFileSystem() = default;

std::shared_ptr<rocksdb::FileSystem> CrashFileSystem::file_system() const { return impl_; }

void CrashFileSystem::CutPower() { impl_->supply().Cut(); }

Status CrashFileSystem::Crash(base::Random& random, FileCrashMode mode) {
  CutPower();
  return files_->Crash(random, mode);
}

}  // namespace forebay::meta
