// SPDX-License-Identifier: Apache-2.0
#include "lab_files.h"

#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

#include <string>
#include <utility>

namespace forebay::crash {
namespace {

using rocksdb::FileOptions;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using FilePointer = std::unique_ptr<rocksdb::FSWritableFile>;

std::shared_ptr<rocksdb::FileSystem> OrDefault(std::shared_ptr<rocksdb::FileSystem> base) {
  return base != nullptr ? std::move(base) : rocksdb::FileSystem::Default();
}

/// A file system that wraps each file opened for writing.
class WrappingFileSystem : public rocksdb::FileSystemWrapper {
 public:
  using FileSystemWrapper::FileSystemWrapper;

  IOStatus NewWritableFile(const std::string& path, const FileOptions& options, FilePointer* result,
                           IODebugContext* debug) override {
    IOStatus status = target()->NewWritableFile(path, options, result, debug);
    if (status.ok()) *result = Wrap(path, std::move(*result));
    return status;
  }
  IOStatus ReopenWritableFile(const std::string& path, const FileOptions& options, FilePointer* result,
                              IODebugContext* debug) override {
    IOStatus status = target()->ReopenWritableFile(path, options, result, debug);
    if (status.ok()) *result = Wrap(path, std::move(*result));
    return status;
  }

 private:
  virtual FilePointer Wrap(const std::string& path, FilePointer file) = 0;
};

class LyingFile final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  using FSWritableFileOwnerWrapper::FSWritableFileOwnerWrapper;
  IOStatus Sync(const IOOptions&, IODebugContext*) override { return IOStatus::OK(); }
  IOStatus Fsync(const IOOptions&, IODebugContext*) override { return IOStatus::OK(); }
};

class LyingFileSystem final : public WrappingFileSystem {
 public:
  using WrappingFileSystem::WrappingFileSystem;
  const char* Name() const override { return "forebay.LyingFileSystem"; }

 private:
  FilePointer Wrap(const std::string& path, FilePointer file) override {
    return path.ends_with(".log") ? std::make_unique<LyingFile>(std::move(file)) : std::move(file);
  }
};

class SpaceFile final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  SpaceFile(FilePointer base, FileSpace& space) : FSWritableFileOwnerWrapper(std::move(base)), space_(space) {}

  IOStatus Append(const rocksdb::Slice& data, const IOOptions& options, IODebugContext* debug) override {
    IOStatus room = Room();
    return room.ok() ? target()->Append(data, options, debug) : room;
  }
  IOStatus Append(const rocksdb::Slice& data, const IOOptions& options, const rocksdb::DataVerificationInfo&,
                  IODebugContext* debug) override {
    return Append(data, options, debug);
  }
  /// A file system that allocates late says only here that there was no room.
  IOStatus Sync(const IOOptions& options, IODebugContext* debug) override {
    IOStatus room = Room();
    return room.ok() ? target()->Sync(options, debug) : room;
  }
  IOStatus Fsync(const IOOptions& options, IODebugContext* debug) override { return Sync(options, debug); }

 private:
  IOStatus Room() {
    if (space_.Use()) return IOStatus::OK();
    return IOStatus::NoSpace("no space left on device (injected)");
  }

  FileSpace& space_;
};

class SpaceFileSystem final : public WrappingFileSystem {
 public:
  SpaceFileSystem(std::shared_ptr<rocksdb::FileSystem> base, FileSpace& space)
      : WrappingFileSystem(std::move(base)), space_(space) {}
  const char* Name() const override { return "forebay.SpaceFileSystem"; }

  IOStatus GetFreeSpace(const std::string& path, const IOOptions& options, uint64_t* free,
                        IODebugContext* debug) override {
    constexpr uint64_t kFewBytes = 4 << 20;
    IOStatus status = target()->GetFreeSpace(path, options, free, debug);
    if (space_.room() == FileSpace::Room::kLow) *free = kFewBytes;
    if (space_.room() == FileSpace::Room::kFull) *free = 0;
    return status;
  }

 private:
  FilePointer Wrap(const std::string& path, FilePointer file) override {
    // RocksDB's text log takes no part in any promise.
    if (path.find("/LOG") != std::string::npos) return file;
    return std::make_unique<SpaceFile>(std::move(file), space_);
  }

  FileSpace& space_;
};

}  // namespace

std::shared_ptr<rocksdb::FileSystem> WithLyingLogSyncs(std::shared_ptr<rocksdb::FileSystem> base) {
  return std::make_shared<LyingFileSystem>(OrDefault(std::move(base)));
}

std::shared_ptr<rocksdb::FileSystem> WithSpace(std::shared_ptr<rocksdb::FileSystem> base, FileSpace& space) {
  return std::make_shared<SpaceFileSystem>(OrDefault(std::move(base)), space);
}

void AllowManyStores() {
  constexpr int kThreads = 32;
  rocksdb::Env::Default()->SetBackgroundThreads(kThreads, rocksdb::Env::HIGH);
  rocksdb::Env::Default()->SetBackgroundThreads(kThreads, rocksdb::Env::LOW);
}

}  // namespace forebay::crash
