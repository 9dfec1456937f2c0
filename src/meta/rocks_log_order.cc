// SPDX-License-Identifier: Apache-2.0
#include "meta/rocks_log_order.h"

#include <string>
#include <string_view>
#include <utility>

#include <rocksdb/file_system.h>

#include "base/mutex.h"
#include "meta/rocks_log_check.h"
#include "meta/rocks_shortened_file.h"

namespace forebay::meta {

namespace {

using rocksdb::FileOptions;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;

bool IsLog(std::string_view path) { return path.ends_with(".log"); }

/// The log that was made last, while it is open.
class NewestLog {
 public:
  IOStatus Sync(const IOOptions& options, IODebugContext* debug) {
    base::MutexLock lock(mutex_);
    return file_ == nullptr ? IOStatus::OK() : file_->Sync(options, debug);
  }
  void Set(rocksdb::FSWritableFile* file) {
    base::MutexLock lock(mutex_);
    file_ = file;
  }
  void Forget(const rocksdb::FSWritableFile* file) {
    base::MutexLock lock(mutex_);
    if (file_ == file) file_ = nullptr;
  }

 private:
  base::Mutex mutex_;
  rocksdb::FSWritableFile* file_ FB_GUARDED_BY(mutex_) = nullptr;  // borrowed: it says when it goes
};

class LogFile final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  LogFile(std::unique_ptr<rocksdb::FSWritableFile> base, std::shared_ptr<NewestLog> newest)
      : FSWritableFileOwnerWrapper(std::move(base)), newest_(std::move(newest)) {
    newest_->Set(this);
  }
  ~LogFile() override { newest_->Forget(this); }

  IOStatus Close(const IOOptions& options, IODebugContext* debug) override {
    newest_->Forget(this);
    return FSWritableFileOwnerWrapper::Close(options, debug);
  }

 private:
  const std::shared_ptr<NewestLog> newest_;  // shared: files may outlive the file system
};

class LogOrderFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  using FileSystemWrapper::FileSystemWrapper;
  const char* Name() const override { return "forebay.LogOrder"; }

  IOStatus NewWritableFile(const std::string& path, const FileOptions& options,
                           std::unique_ptr<rocksdb::FSWritableFile>* result, IODebugContext* debug) override {
    if (!IsLog(path)) return target()->NewWritableFile(path, options, result, debug);
    IOStatus status = newest_->Sync(options.io_options, debug);
    if (status.ok()) status = target()->NewWritableFile(path, options, result, debug);
    if (status.ok()) *result = std::make_unique<LogFile>(std::move(*result), newest_);
    return status;
  }

  IOStatus NewSequentialFile(const std::string& path, const FileOptions& options,
                             std::unique_ptr<rocksdb::FSSequentialFile>* result, IODebugContext* debug) override {
    IOStatus status = target()->NewSequentialFile(path, options, result, debug);
    if (!status.ok() || !IsLog(path)) return status;
    uint64_t end = 0;
    status = FindEnd(path, options, &end, debug);
    if (status.ok()) *result = std::make_unique<ShortenedFile>(std::move(*result), end);
    return status;
  }

 private:
  IOStatus FindEnd(const std::string& path, const FileOptions& options, uint64_t* end, IODebugContext* debug) {
    uint64_t size = 0;
    IOStatus status = target()->GetFileSize(path, options.io_options, &size, debug);
    if (!status.ok()) return status;
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
    const Result<uint64_t> found = FindLogEnd(path, size, read);
    if (!failed_read.ok()) return failed_read;
    if (!found.ok()) return IOStatus::Corruption(std::string(found.status().message()));
    *end = *found;
    return status;
  }

  const std::shared_ptr<NewestLog> newest_ = std::make_shared<NewestLog>();
};

}  // namespace

std::shared_ptr<rocksdb::FileSystem> WithLogOrder(std::shared_ptr<rocksdb::FileSystem> base) {
  return std::make_shared<LogOrderFileSystem>(std::move(base));
}

}  // namespace forebay::meta
