// SPDX-License-Identifier: Apache-2.0
// Sidecar: the directory `.forebay` in the root of a tree, where all that Forebay keeps besides the objects' own files
// lies: temporary files, records that no extended attribute takes, checksums, buckets' records, escaped keys, uploads,
// quotas, the operation journal and the server's own bucket. It is held by one process at a time. The layout is in
// docs/formats/directory.md. Thread-safe; its calls block.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "backend/files.h"
#include "backend/records.h"
#include "base/log.h"
#include "base/status.h"

namespace forebay::backend {

class Sidecar;

/// A file that has no place yet; removed when it never gets one. Belongs to one thread at a time.
class Temporary {
 public:
  Temporary(const Sidecar& sidecar, std::string name, Descriptor file)
      : sidecar_(&sidecar), name_(std::move(name)), file_(std::move(file)) {}
  Temporary(Temporary&& other) noexcept
      : sidecar_(std::exchange(other.sidecar_, nullptr)), name_(std::move(other.name_)), file_(std::move(other.file_)) {}
  Temporary& operator=(Temporary&&) = delete;
  ~Temporary();

  int fd() const { return file_.get(); }
  bool placed() const { return sidecar_ == nullptr; }
  /// To its place: a rename, which replaces what is there unless `absent`. errno, 0 when done.
  int MoveTo(int directory, const std::string& name, bool absent);

 private:
  const Sidecar* sidecar_;  // borrowed, outlives it; null once it has its place
  std::string name_;
  Descriptor file_;
};

class Sidecar {
 public:
  static constexpr const char* kName = ".forebay";

  /// Makes what is missing, and sweeps temporary files that a crash left. FailedPrecondition while another process has
  /// the tree; Unimplemented for a file system that cannot keep objects, with the reason.
  static Result<std::unique_ptr<Sidecar>> Open(const std::string& root, base::Log& log);

  int root() const { return root_.get(); }
  int directory() const { return sidecar_.get(); }
  int keys() const { return keys_.get(); }
  int uploads() const { return uploads_.get(); }
  int buckets() const { return buckets_.get(); }
  bool has_attributes() const { return has_attributes_; }

  int temporary() const { return temporary_.get(); }

  Result<Temporary> NewTemporary() const;
  /// The name of a new, empty directory among the temporary files.
  Result<std::string> NewTemporaryDirectory(mode_t mode) const;

  /// The record of an open file, whether or not it still holds for its content. One that is damaged counts as none.
  Result<std::optional<ObjectRecord>> LoadRecord(int file, const FileState& state) const;
  /// Durable with the file's next SyncFile.
  Status SaveRecord(int file, const FileState& state, const ObjectRecord& record) const;
  /// Of all files that the sidecar keeps something of.
  Result<std::set<uint64_t>> Inodes() const;
  /// What the sidecar keeps of a file that is gone.
  void Forget(uint64_t inode) const;

  std::optional<uint32_t> LoadChecksum(const FileState& state) const;
  /// It is only a saving: failures are of no matter.
  void SaveChecksum(const FileState& state, uint32_t crc32c) const;

 private:
  friend class Temporary;
  Sidecar() = default;
  Status Prepare(const std::string& root, base::Log& log);
  /// Whether names and attributes are kept as they are written.
  Status Probe();

  Descriptor root_;
  Descriptor sidecar_;
  Descriptor lock_;
  Descriptor temporary_;
  Descriptor records_;
  Descriptor checksums_;
  Descriptor keys_;
  Descriptor uploads_;
  Descriptor buckets_;
  bool has_attributes_ = false;
  mutable std::atomic<uint64_t> next_temporary_ = 1;
};

}  // namespace forebay::backend
