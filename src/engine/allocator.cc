// SPDX-License-Identifier: Apache-2.0
#include "engine/allocator.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace forebay::engine {
namespace {

/// A store with fewer free groups than this has better use for them than zeroing them ahead.
constexpr size_t kMinFreeGroupsToZero = 4;

/// The first bit at or after `from` that is `value`; kGroupUnits when there is none.
uint32_t NextBit(std::span<const uint64_t> words, uint32_t from, bool value) {
  uint64_t mask = ~uint64_t{0} << (from % 64);
  for (size_t word = from / 64; word < words.size(); ++word) {
    const uint64_t bits = (value ? words[word] : ~words[word]) & mask;
    if (bits != 0) return static_cast<uint32_t>(word * 64 + static_cast<size_t>(std::countr_zero(bits)));
    mask = ~uint64_t{0};
  }
  return kGroupUnits;
}

struct Gap {
  uint32_t at = 0;
  uint32_t length = 0;
};

/// The first run of `want` clear bits, else the longest run there is.
Gap FindGap(std::span<const uint64_t> words, uint32_t want) {
  Gap longest;
  for (uint32_t at = NextBit(words, 0, false); at < kGroupUnits;) {
    const uint32_t end = NextBit(words, at, true);
    if (end - at >= want) return {at, want};
    if (end - at > longest.length) longest = {at, end - at};
    if (end == kGroupUnits) break;
    at = NextBit(words, end, false);
  }
  return longest;
}

/// Calls `apply(word, mask)` for each word that [at, at + units) touches.
template <typename Apply>
void ForMasks(uint32_t at, uint32_t units, Apply apply) {
  while (units != 0) {
    const uint32_t bit = at % 64;
    const uint32_t count = std::min(64 - bit, units);
    const uint64_t mask = (count == 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1) << bit;
    apply(at / 64, mask);
    at += count;
    units -= count;
  }
}

}  // namespace

template <typename Change>
void Allocator::Update(Space& space, size_t group, Change change) {
  Group& state = space.groups[group];
  const Group before = state;
  change(state);
  space.free_units += state.free;
  space.free_units -= before.free;
  space.free_groups += static_cast<size_t>(state.use == Use::kFree);
  space.free_groups -= static_cast<size_t>(before.use == Use::kFree);
  space.roomy_groups += static_cast<size_t>(state.Roomy());
  space.roomy_groups -= static_cast<size_t>(before.Roomy());
}

Allocator::Allocator(std::span<const DeviceSpace> devices) {
  for (const DeviceSpace& device : devices) Add(device);
}

void Allocator::Add(const DeviceSpace& device) {
  Space space;
  space.first_unit = device.data_start / device::kUnit;
  space.end_unit = device.size_bytes / device::kUnit;
  FB_CHECK(space.first_unit < space.end_unit);
  const size_t groups = base::DivideUp(space.end_unit, kGroupUnits);
  space.groups.resize(groups);
  space.free_groups = groups;
  space.taken.assign(groups * kGroupBitmapWords, 0);
  for (size_t group = 0; group < groups; ++group) {
    // What lies outside of the data area counts as taken, for ever.
    const uint64_t base = group * kGroupUnits;
    const uint64_t begin = std::clamp(space.first_unit, base, base + kGroupUnits);
    const uint64_t end = std::clamp(space.end_unit, begin, base + kGroupUnits);
    const auto set = [&](size_t word, uint64_t mask) { space.Words(group)[word] |= mask; };
    ForMasks(0, static_cast<uint32_t>(begin - base), set);
    ForMasks(static_cast<uint32_t>(end - base), static_cast<uint32_t>(base + kGroupUnits - end), set);
    const auto units = static_cast<uint16_t>(end - begin);
    Update(space, group, [&](Group& state) { state.units = state.free = state.longest = units; });
  }
  space.units = space.free_units;
  base::MutexLock lock(mutex_);
  spaces_.push_back(std::move(space));
}

void Allocator::SetOpen(uint32_t device, bool open) {
  base::MutexLock lock(mutex_);
  spaces_[device].open = open;
}

Status Allocator::Load(GroupName name, const GroupBitmap& in_use) {
  base::MutexLock lock(mutex_);
  if (name.device >= spaces_.size() || name.group >= spaces_[name.device].groups.size())
    return Status::DataLoss(
        "a free-space row names group {} of device {}, which does not exist; run forebay fsck", name.group,
        name.device);
  Space& space = spaces_[name.device];
  const std::span<uint64_t> words = space.Words(name.group);
  uint32_t used = 0;
  for (size_t i = 0; i < words.size(); ++i) {
    if ((words[i] & in_use[i]) != 0)
      return Status::DataLoss(
          "the free-space row of group {} of device {} names units outside of the data; run forebay fsck",
          name.group, name.device);
    words[i] |= in_use[i];
    used += static_cast<uint32_t>(std::popcount(in_use[i]));
  }
  if (used == 0) return {};
  Update(space, name.group, [&](Group& state) {
    state.free = static_cast<uint16_t>(state.free - used);
    state.longest = state.free;
    state.use = Use::kAny;
  });
  return {};
}

template <typename Suits>
std::optional<size_t> Allocator::FindGroup(const Space& space, size_t after, Suits suits) {
  const size_t count = space.groups.size();
  for (size_t i = 0; i < count; ++i) {
    const size_t group = (after + i) % count;
    if (suits(space.groups[group])) return group;
  }
  return std::nullopt;
}

std::optional<size_t> Allocator::SmallGroup(Space& space, uint32_t units) {
  const auto usable = [units](const Group& group) { return group.ForSmall() && group.longest >= units; };
  const Group& current = space.groups[space.small_group];
  while (!space.zeroed.empty() && (!usable(current) || !current.zeroed)) {
    const size_t group = space.zeroed.front();
    space.zeroed.pop_front();
    // A device that is nearly full may have given it to others meanwhile.
    if (space.groups[group].use != Use::kSmall && space.groups[group].use != Use::kFree) continue;
    Update(space, group, [](Group& state) { state.use = Use::kSmall; });
    space.small_group = group;
    return group;
  }
  if (usable(current)) return space.small_group;
  std::optional<size_t> group;
  if (space.roomy_groups != 0)
    group = FindGroup(space, space.small_group, [&](const Group& g) { return g.Roomy() && usable(g); });
  if (!group && space.free_groups != 0)
    group = FindGroup(space, space.small_group,
                      [&](const Group& g) { return g.use == Use::kFree && g.longest >= units; });
  if (!group) group = FindGroup(space, space.small_group, usable);
  if (group) {
    Update(space, *group,
           [](Group& state) { state.use = state.use == Use::kFree ? Use::kSmall : state.use; });
    space.small_group = *group;
  }
  return group;
}

std::optional<size_t> Allocator::LargeGroup(Space& space, uint32_t units) {
  const std::optional<size_t> group = FindGroup(space, space.large_group, [units](const Group& g) {
    return (g.use == Use::kLarge || g.use == Use::kAny || g.use == Use::kFree) && g.longest >= units;
  });
  if (group) {
    Update(space, *group,
           [](Group& state) { state.use = state.use == Use::kFree ? Use::kLarge : state.use; });
    space.large_group = *group;
  }
  return group;
}

std::optional<size_t> Allocator::AnyGroup(Space& space, uint32_t units) {
  const std::optional<size_t> group = FindGroup(space, space.large_group, [units](const Group& g) {
    return g.use != Use::kZeroing && g.longest >= units;
  });
  if (group)
    Update(space, *group, [](Group& state) { state.use = state.use == Use::kFree ? Use::kAny : state.use; });
  return group;
}

std::optional<uint32_t> Allocator::FindIn(Space& space, size_t group, uint32_t units) {
  const Gap gap = FindGap(space.Words(group), units);
  if (gap.length >= units) return gap.at;
  space.groups[group].longest = static_cast<uint16_t>(gap.length);
  return std::nullopt;
}

UnitRun Allocator::Take(uint32_t device, size_t group, uint32_t at, uint32_t units) {
  Space& space = spaces_[device];
  const std::span<uint64_t> words = space.Words(group);
  ForMasks(at, units, [&](size_t word, uint64_t mask) {
    FB_CHECK((words[word] & mask) == 0);
    words[word] |= mask;
  });
  Update(space, group, [&](Group& state) {
    state.free = static_cast<uint16_t>(state.free - units);
    state.longest = std::min(state.longest, state.free);
  });
  return {.device = device, .first_unit = group * kGroupUnits + at, .units = units};
}

std::optional<UnitRun> Allocator::ReserveWhole(uint32_t device, uint32_t units) {
  Space& space = spaces_[device];
  if (!space.open || space.free_units < units) return std::nullopt;
  const auto from = [&](auto choose) FB_REQUIRES(mutex_) -> std::optional<UnitRun> {
    while (const std::optional<size_t> group = choose(space, units))
      if (const std::optional<uint32_t> at = FindIn(space, *group, units))
        return Take(device, *group, *at, units);
    return std::nullopt;
  };
  std::optional<UnitRun> run = units < kSmallUnits ? from(SmallGroup) : from(LargeGroup);
  if (!run) run = from(AnyGroup);
  return run;
}

std::optional<UnitRun> Allocator::ReserveLongest(uint32_t device) {
  Space& space = spaces_[device];
  if (!space.open) return std::nullopt;
  while (true) {
    std::optional<size_t> best;
    for (size_t group = 0; group < space.groups.size(); ++group) {
      const Group& state = space.groups[group];
      if (state.use == Use::kZeroing || state.longest == 0) continue;
      if (!best || state.longest > space.groups[*best].longest) best = group;
    }
    if (!best) return std::nullopt;
    const uint32_t units = space.groups[*best].longest;
    if (const std::optional<uint32_t> at = FindIn(space, *best, units))
      return Take(device, *best, *at, units);
  }
}

Result<UnitRun> Allocator::Reserve(uint32_t units) {
  FB_CHECK(units > 0 && units <= kGroupUnits);
  base::MutexLock lock(mutex_);
  const auto devices = static_cast<uint32_t>(spaces_.size());
  const uint32_t first = next_device_;
  next_device_ = (next_device_ + 1) % devices;
  for (uint32_t i = 0; i < devices; ++i)
    if (const std::optional<UnitRun> run = ReserveWhole((first + i) % devices, units)) return *run;
  for (uint32_t i = 0; i < devices; ++i)
    if (const std::optional<UnitRun> run = ReserveLongest((first + i) % devices)) return *run;
  return Status::ResourceExhausted("the data devices are full ({} of {} used): delete objects, or add a device",
                                   base::FormatSize((CapacityUnits() - FreeUnits()) * device::kUnit),
                                   base::FormatSize(CapacityUnits() * device::kUnit));
}

void Allocator::Release(const UnitRun& run) {
  if (run.units == 0) return;
  base::MutexLock lock(mutex_);
  Space& space = spaces_[run.device];
  const size_t group = run.first_unit / kGroupUnits;
  const std::span<uint64_t> words = space.Words(group);
  ForMasks(static_cast<uint32_t>(run.first_unit % kGroupUnits), run.units, [&](size_t word, uint64_t mask) {
    FB_CHECK((words[word] & mask) == mask);  // released twice
    words[word] &= ~mask;
  });
  Update(space, group, [&](Group& state) {
    state.free = static_cast<uint16_t>(state.free + run.units);
    state.longest = state.free;
    if (state.free == state.units) state.use = Use::kFree;
  });
}

std::optional<UnitRun> Allocator::BeginZeroing() {
  base::MutexLock lock(mutex_);
  for (uint32_t device = 0; device < spaces_.size(); ++device) {
    Space& space = spaces_[device];
    const Group& current = space.groups[space.small_group];
    const bool due = space.open && !space.zeroing && space.zeroed.empty() && current.use == Use::kSmall &&
                     space.roomy_groups <= 1 && (!current.zeroed || current.free < current.units / 2) &&
                     space.free_groups >= kMinFreeGroupsToZero;
    if (!due) continue;
    const std::optional<size_t> group =
        FindGroup(space, space.small_group, [](const Group& g) { return g.use == Use::kFree; });
    if (!group) continue;
    space.zeroing = true;
    Update(space, *group, [](Group& state) { state.use = Use::kZeroing; });
    const uint64_t begin = std::max<uint64_t>(*group * kGroupUnits, space.first_unit);
    const uint64_t end = std::min<uint64_t>((*group + 1) * kGroupUnits, space.end_unit);
    return UnitRun{.device = device, .first_unit = begin, .units = static_cast<uint32_t>(end - begin)};
  }
  return std::nullopt;
}

void Allocator::EndZeroing(const UnitRun& run, bool zeroed) {
  base::MutexLock lock(mutex_);
  Space& space = spaces_[run.device];
  const size_t group = run.first_unit / kGroupUnits;
  space.zeroing = false;
  Update(space, group, [&](Group& state) {
    FB_CHECK(state.use == Use::kZeroing);
    state.use = zeroed ? Use::kSmall : Use::kFree;
    state.zeroed = zeroed;
  });
  if (zeroed) space.zeroed.push_back(group);
}

std::vector<Allocator::DeviceUse> Allocator::devices() const {
  base::MutexLock lock(mutex_);
  std::vector<DeviceUse> devices;
  devices.reserve(spaces_.size());
  for (const Space& space : spaces_)
    devices.push_back({.capacity_bytes = space.units * device::kUnit,
                       .used_bytes = (space.units - space.free_units) * device::kUnit});
  return devices;
}

uint64_t Allocator::FreeUnits() const {
  uint64_t units = 0;
  for (const Space& space : spaces_) units += space.open ? space.free_units : 0;
  return units;
}

uint64_t Allocator::CapacityUnits() const {
  uint64_t units = 0;
  for (const Space& space : spaces_) units += space.open ? space.units : space.units - space.free_units;
  return units;
}

uint64_t Allocator::free_bytes() const {
  base::MutexLock lock(mutex_);
  return FreeUnits() * device::kUnit;
}

uint64_t Allocator::capacity_bytes() const {
  base::MutexLock lock(mutex_);
  return CapacityUnits() * device::kUnit;
}

bool Allocator::HoldsAny(uint32_t device, uint64_t first_unit, uint64_t units) const {
  base::MutexLock lock(mutex_);
  const Space& space = spaces_[device];
  const uint64_t end = std::min(first_unit + units, space.end_unit);
  for (uint64_t unit = std::max(first_unit, space.first_unit); unit < end; unit = (unit / 64 + 1) * 64) {
    const uint64_t left = end - unit / 64 * 64;  // of this word's units, up to the end of the range
    const uint64_t below = left >= 64 ? ~uint64_t{0} : (uint64_t{1} << left) - 1;
    if ((space.taken[unit / 64] & below & (~uint64_t{0} << (unit % 64))) != 0) return true;
  }
  return false;
}

bool Allocator::IsTaken(uint32_t device, uint64_t unit) const {
  base::MutexLock lock(mutex_);
  const Space& space = spaces_[device];
  return (space.taken[unit / 64] >> (unit % 64) & 1) != 0;
}

}  // namespace forebay::engine
