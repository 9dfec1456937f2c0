// SPDX-License-Identifier: Apache-2.0
// FileDevice: a Device in a preallocated regular file or on a raw block device. I/O bypasses the page cache (O_DIRECT)
// where the file system can; Flush is fdatasync, which on a block device makes the drive empty its cache.
// One process at a time: the open file holds an exclusive lock until it is destroyed.
// Thread-safe. Outlives the operations in flight.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "device/device.h"

namespace forebay::device {

struct FileDeviceOptions {
  bool create = false;      ///< make the file, durably; AlreadyExists when there is one. A block device is just opened
  uint64_t size_bytes = 0;  ///< when creating: the size, a multiple of kUnit. Else: the size that must at least be there
  bool sparse = false;      ///< when creating: take room only as it is written, which may then fail for want of it
  bool direct = true;       ///< bypass the page cache where the file system can
  /// How long to wait for a device that is in use. The kernel lets go of a killed process's device only after its last
  /// io_uring requests have ended, a moment after the process is gone: who starts again right away waits for that.
  std::chrono::milliseconds in_use_wait = std::chrono::seconds(10);
};

class FileDevice final : public Device {
 public:
  using Options = FileDeviceOptions;

  /// Blocks on the disk. NotFound when there is no such file (and not `create`), FailedPrecondition when another process
  /// has it open as a device or it is mounted, DataLoss when it is smaller than `size_bytes`, ResourceExhausted when there
  /// is no room; a file that could not be completed is removed again.
  static Result<std::unique_ptr<FileDevice>> Open(std::string path, Options options);
  ~FileDevice() override;
  FileDevice(const FileDevice&) = delete;
  FileDevice& operator=(const FileDevice&) = delete;

  const std::string& name() const override { return path_; }
  uint64_t size_bytes() const override { return size_bytes_; }
  /// False when reads and writes go through the page cache, because the file system (or the caller) has it so.
  bool direct() const { return direct_; }
  bool is_block_device() const { return is_block_device_; }

  rt::Task<Status> Read(rt::Reactor& reactor, uint64_t offset, std::span<const MutableByteView> buffers) override;
  rt::Task<Status> Write(rt::Reactor& reactor, uint64_t offset, std::span<const ByteView> buffers) override;
  rt::Task<Status> Flush(rt::Reactor& reactor) override;
  /// Does nothing on a block device.
  rt::Task<Status> ZeroAhead(rt::Reactor& reactor, uint64_t begin_bytes, uint64_t end_bytes) override;

 private:
  class Descriptor;

  FileDevice(std::string path, int fd, uint64_t size_bytes, bool direct, bool is_block_device, ByteView zeros);
  rt::Task<Status> WriteZeros(rt::Reactor& reactor, uint64_t begin_bytes, uint64_t end_bytes);

  const std::string path_;
  const int fd_;
  const uint64_t size_bytes_;
  const bool direct_;
  const bool is_block_device_;
  const ByteView zeros_;                     // owned; the kernel's zero page, mapped many times
  std::atomic<bool> zeroing_{false};         // ZeroAhead is running
  std::atomic<uint64_t> zeroed_to_{0};       // everything below has been written
};

}  // namespace forebay::device
