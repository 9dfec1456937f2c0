// SPDX-License-Identifier: Apache-2.0
// MemoryDevice: the twin of a drive with a volatile write cache. Writes go to the cache, Flush makes durable what had
// returned before it was called; Crash gives the device that is found after a power cut. Sparse: only written units take
// memory, and each unflushed write is kept until the next flush.
// Thread-safe. Outlives the operations in flight.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/random.h"
#include "device/device.h"
#include "device/power_switch.h"

namespace forebay::device {

/// What is torn is torn at this size, as on a drive with 512-byte sectors.
constexpr uint64_t kSector = 512;

/// What a power cut does to each write that was not flushed.
enum class CrashMode : uint8_t {
  kDropAll,  ///< none reached the media
  kKeepAll,  ///< all did
  kRandom,   ///< each is absent, present, or torn at kSector, independently of the others
};

class MemoryDevice final : public Device {
 public:
  /// Full of zeros, all durable. `size_bytes` is a multiple of kUnit above 0 (checked). With a `power` switch (borrowed)
  /// each write and flush asks it, and all operations fail with Unavailable once it is off.
  explicit MemoryDevice(uint64_t size_bytes, std::string name = "memory-device", PowerSwitch* power = nullptr);
  /// With the content of `image`, all durable; its size is a multiple of kUnit above 0 (checked).
  static std::unique_ptr<MemoryDevice> FromImage(ByteView image, std::string name = "memory-device",
                                                 PowerSwitch* power = nullptr);

  const std::string& name() const override { return name_; }
  uint64_t size_bytes() const override { return size_bytes_; }

  rt::Task<Status> Read(rt::Reactor& reactor, uint64_t offset, std::span<const MutableByteView> buffers) override;
  rt::Task<Status> Write(rt::Reactor& reactor, uint64_t offset, std::span<const ByteView> buffers) override;
  rt::Task<Status> Flush(rt::Reactor& reactor) override;
  /// Does nothing: memory has no file system metadata.
  rt::Task<Status> ZeroAhead(rt::Reactor& reactor, uint64_t begin_bytes, uint64_t end_bytes) override;

  /// What a restarted machine finds: everything flushed, and of the rest what `mode` says. This device stays as it is, so
  /// that its users can still be taken down. The new device has `power` (borrowed; may be null).
  std::unique_ptr<MemoryDevice> Crash(base::Random& random, CrashMode mode, PowerSwitch* power = nullptr) const;
  /// Loses everything that was not flushed, as a drive (or a kernel) does that fails a flush.
  void DropUnflushed();
  /// Inverts one bit, in the cache and on the media; `offset` is inside of the device (checked).
  void FlipBit(uint64_t offset, unsigned bit);
  /// The content as readers see it, unflushed writes included.
  Bytes image() const;
  uint64_t unflushed_writes() const;

 private:
  using Unit = std::array<std::byte, kUnit>;
  /// Absent units are zeros.
  using Units = std::map<uint64_t, std::unique_ptr<Unit>>;
  struct Pending {
    uint64_t offset;
    Bytes data;
  };

  static Unit& UnitAt(Units& units, uint64_t index);
  static void Store(Units& units, uint64_t offset, ByteView data);
  static Units Copy(const Units& units);
  Status Powered() const;
  bool Use();

  const std::string name_;
  const uint64_t size_bytes_;
  PowerSwitch* const power_;  // borrowed; may be null

  mutable base::Mutex mutex_;
  Units seen_ FB_GUARDED_BY(mutex_);     // media and cache, as readers see them
  Units durable_ FB_GUARDED_BY(mutex_);  // the media after a power cut that loses the whole cache
  std::vector<Pending> pending_ FB_GUARDED_BY(mutex_);  // the cache: completed writes in order
  uint64_t flushed_ FB_GUARDED_BY(mutex_) = 0;          // number of writes that have left pending_
};

}  // namespace forebay::device
