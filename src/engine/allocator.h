// SPDX-License-Identifier: Apache-2.0
// Allocator: which units of the data devices are free, in memory. One bit per unit, 32 MiB for each TiB of
// devices, loaded from the group rows when the store is opened. A run that is reserved belongs to its writer
// until it is released or a transaction made it part of an extent; the group rows change only with that
// transaction, so a crash leaks nothing. Small and large reservations come from different groups, so that
// small writes can go where the device was zeroed ahead. Thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "engine/rows.h"

namespace forebay::engine {

/// Neighbouring units of one device, inside one group. Units count from the start of the device.
struct UnitRun {
  uint32_t device = 0;
  uint64_t first_unit = 0;
  uint32_t units = 0;

  uint64_t offset_bytes() const { return first_unit * device::kUnit; }
  uint64_t length_bytes() const { return uint64_t{units} * device::kUnit; }
  friend bool operator==(const UnitRun&, const UnitRun&) = default;
};

class Allocator {
 public:
  /// Reservations below this come from the groups for small ones.
  static constexpr uint32_t kSmallUnits = 16;

  /// The sizes of the devices and where their data begins; all space in between is free.
  struct DeviceSpace {
    uint64_t size_bytes = 0;
    uint64_t data_start = 0;
  };
  explicit Allocator(std::span<const DeviceSpace> devices);

  /// Another device, with the next number; all of it is free.
  void Add(const DeviceSpace& device) FB_EXCLUDES(mutex_);
  /// Whether anything new is put on a device. It is, unless this was said.
  void SetOpen(uint32_t device, bool open) FB_EXCLUDES(mutex_);

  /// While the store is opened: what a group row says. DataLoss when it names units that the device does not
  /// have.
  Status Load(GroupName name, const GroupBitmap& in_use);

  /// `units` (1 to kGroupUnits) neighbouring units, or as many as the longest run has when there is no such
  /// run. ResourceExhausted only when nothing is free at all.
  Result<UnitRun> Reserve(uint32_t units) FB_EXCLUDES(mutex_);
  /// Gives units back that nothing refers to.
  void Release(const UnitRun& run) FB_EXCLUDES(mutex_);

  /// A free group to zero ahead for small reservations, when one is due. It stays out of use until
  /// EndZeroing.
  std::optional<UnitRun> BeginZeroing() FB_EXCLUDES(mutex_);
  void EndZeroing(const UnitRun& group, bool zeroed) FB_EXCLUDES(mutex_);

  struct DeviceUse {
    uint64_t capacity_bytes = 0;
    uint64_t used_bytes = 0;  // in use, reserved, or on its way back
  };
  /// Of each device, as of one moment.
  std::vector<DeviceUse> devices() const FB_EXCLUDES(mutex_);
  /// Of devices where nothing new is put, only what is in use counts.
  uint64_t capacity_bytes() const FB_EXCLUDES(mutex_);
  uint64_t free_bytes() const FB_EXCLUDES(mutex_);
  /// Whether any unit in [first_unit, first_unit + units) is reserved, in use, or on its way back.
  bool HoldsAny(uint32_t device, uint64_t first_unit, uint64_t units) const FB_EXCLUDES(mutex_);
  /// For fsck and tests: true when the unit is reserved or in use.
  bool IsTaken(uint32_t device, uint64_t unit) const FB_EXCLUDES(mutex_);

 private:
  enum class Use : uint8_t {
    kFree,     // nothing taken
    kSmall,    // for small reservations
    kLarge,    // for the others
    kAny,      // partly taken when the store was opened
    kZeroing,  // on its way from kFree to kSmall
  };

  struct Group {
    uint16_t units = 0;  // that there are
    uint16_t free = 0;
    uint16_t longest = 0;  // no free run is longer; a search that fails makes it exact
    Use use = Use::kFree;
    bool zeroed = false;  // every unit has been written once

    bool ForSmall() const { return use == Use::kSmall || use == Use::kAny; }
    bool Roomy() const { return ForSmall() && free >= units / 4; }
  };
  struct Space {
    uint64_t first_unit = 0;
    uint64_t end_unit = 0;
    std::vector<uint64_t> taken;  // kGroupBitmapWords for each group
    std::vector<Group> groups;
    uint64_t units = 0;  // that there are
    uint64_t free_units = 0;
    size_t free_groups = 0;  // of Use::kFree
    size_t roomy_groups = 0;
    size_t small_group = 0;  // where small reservations go on
    size_t large_group = 0;
    bool zeroing = false;
    bool open = true;
    std::deque<size_t> zeroed;  // groups that wait to become small_group

    std::span<uint64_t> Words(size_t group) {
      return std::span(taken).subspan(group * kGroupBitmapWords, kGroupBitmapWords);
    }
  };

  /// Changes a group through `change(Group&)`, keeping the sums of its space right.
  template <typename Change>
  static void Update(Space& space, size_t group, Change change);
  template <typename Suits>
  static std::optional<size_t> FindGroup(const Space& space, size_t after, Suits suits);
  static std::optional<size_t> SmallGroup(Space& space, uint32_t units);
  static std::optional<size_t> LargeGroup(Space& space, uint32_t units);
  static std::optional<size_t> AnyGroup(Space& space, uint32_t units);
  static std::optional<uint32_t> FindIn(Space& space, size_t group, uint32_t units);
  uint64_t FreeUnits() const FB_REQUIRES(mutex_);
  uint64_t CapacityUnits() const FB_REQUIRES(mutex_);
  UnitRun Take(uint32_t device, size_t group, uint32_t at, uint32_t units) FB_REQUIRES(mutex_);
  std::optional<UnitRun> ReserveWhole(uint32_t device, uint32_t units) FB_REQUIRES(mutex_);
  std::optional<UnitRun> ReserveLongest(uint32_t device) FB_REQUIRES(mutex_);

  mutable base::Mutex mutex_;
  std::vector<Space> spaces_ FB_GUARDED_BY(mutex_);
  uint32_t next_device_ FB_GUARDED_BY(mutex_) = 0;
};

}  // namespace forebay::engine
