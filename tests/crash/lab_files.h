// SPDX-License-Identifier: Apache-2.0
// What the laboratory puts between RocksDB and its files: a log whose syncs do nothing, and a file system that is full. The
// only part of the laboratory that sees RocksDB.
// Thread-safe. The space outlives the file system.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace rocksdb {
class FileSystem;
}

namespace forebay::crash {

/// How much room the metadata's file system has.
class FileSpace {
 public:
  enum class Room : uint8_t {
    kEnough,
    kLow,   ///< the file system says that a few MiB are free; writing still works
    kFull,  ///< every write fails for want of space
  };
  void Set(Room room) {
    filling_ = false;
    room_ = room;
  }
  /// Full after so many more writes.
  void FillAfter(int64_t writes) {
    left_ = writes;
    filling_ = true;
  }
  /// Counts a write; false when there is no room for it.
  bool Use() {
    if (filling_ && left_.fetch_sub(1) <= 0) {
      filling_ = false;
      room_ = Room::kFull;
    }
    if (room_ != Room::kFull) return true;
    ++refusals_;
    return false;
  }
  Room room() const { return room_.load(); }
  /// Writes that failed for want of space.
  uint64_t refusals() const { return refusals_.load(); }

 private:
  std::atomic<Room> room_{Room::kEnough};
  std::atomic<bool> filling_{false};
  std::atomic<int64_t> left_{0};
  std::atomic<uint64_t> refusals_{0};
};

/// `base` (null: the machine's own), but syncs of RocksDB's log are answered ok and do nothing; all other files are honest.
std::shared_ptr<rocksdb::FileSystem> WithLyingLogSyncs(std::shared_ptr<rocksdb::FileSystem> base);

/// `base` (null: the machine's own) with as much room as `space` says. Borrows `space`.
std::shared_ptr<rocksdb::FileSystem> WithSpace(std::shared_ptr<rocksdb::FileSystem> base, FileSpace& space);

/// RocksDB's background threads are shared by all stores of a process and sleep a second after an error: many of them let
/// many stores fail at once.
void AllowManyStores();

}  // namespace forebay::crash
