// SPDX-License-Identifier: Apache-2.0
// Of Engine: what concerns its devices as such: how full and how well they are, and mirrors that are brought up to date.
#include <algorithm>
#include <utility>

#include "engine/engine.h"
#include "engine/relocation.h"
#include "rt/thread_pool.h"
#include "store/checks.h"

namespace forebay::engine {
namespace {

/// What an operator has to know of a mirror.
void DescribeMirror(const Devices& devices, uint32_t id, store::DeviceSpace& device) {
  for (const device::MirrorSide& side : devices.mirror(id)->sides()) {
    std::string line;
    if (side.state == device::SideState::kLost) {
      device.state = store::DeviceState::kDegraded;
      line = fmt::format("{} is lost ({}): replace it with: forebay device replace", side.name, side.reason);
    } else if (side.state == device::SideState::kRebuilding) {
      device.state = store::DeviceState::kRebuilding;
      line = fmt::format("{} is brought up to date: {} of {}", side.name, base::FormatSize(devices.resynced(id)),
                         base::FormatSize(devices.at(id).size_bytes()));
    } else if (side.failed_reads != 0) {
      line = fmt::format("{} failed {} reads, which the other side answered: look at the drive's health", side.name,
                         side.failed_reads);
    }
    if (!device.detail.empty() && !line.empty()) device.detail += "; ";
    device.detail += line;
  }
}

/// What an operator has to know of a device that leaves.
void DescribeDeparture(const Departure& departure, store::DeviceSpace& device) {
  if (!departure.leaving) return;
  if (device.state == store::DeviceState::kOk) device.state = store::DeviceState::kDraining;
  if (!device.detail.empty()) device.detail += "; ";
  device.detail += device.name;
  if (!departure.failure.ok())
    device.detail += fmt::format(" cannot be emptied: {}", departure.failure.message());
  else if (device.used_bytes == 0)
    device.detail += " is empty: take it out with: forebay device remove";
  else
    device.detail += fmt::format(" is being emptied: {} are left", base::FormatSize(device.used_bytes));
}

/// Takes the free-space rows of a device away that has nothing in use.
class ForgetDeviceTransaction final : public meta::Transaction {
 public:
  explicit ForgetDeviceTransaction(uint32_t device) : device_(device) {}
  Status Prepare(meta::View& view, meta::Batch& batch) override {
    const std::string end = GroupKey(device_ + 1, 0);
    for (std::string from = GroupKey(device_, 0);;) {
      FB_ASSIGN(const auto row, view.First(meta::Family::kGroups, from, end));
      if (!row) return {};
      FB_ASSIGN(const GroupBitmap bitmap, DecodeGroup(row->first, row->second));
      if (std::ranges::any_of(bitmap, [](uint64_t word) { return word != 0; }))
        return Status::DataLoss("a free-space row of an empty device names units in use; run forebay fsck");
      batch.Delete(meta::Family::kGroups, row->first);
      from = row->first + '\0';
    }
  }
  bool needs_data_flush() const override { return true; }
  bool frees_space() const override { return true; }
  void Done(const Status& /*outcome*/) override {}

 private:
  const uint32_t device_;
};

}  // namespace

bool Engine::NeedsResync() const {
  for (uint32_t id = 0; id < core_->devices.size(); ++id)
    if (core_->devices.mirror(id) != nullptr && core_->devices.mirror(id)->rebuilding()) return true;
  return false;
}

rt::Task<Status> Engine::Resync(rt::Reactor& reactor, std::function<bool()> stopped, uint64_t bytes_per_second) {
  for (uint32_t id = 0; id < core_->devices.size(); ++id) {
    device::MirrorDevice* const mirror = core_->devices.mirror(id);
    if (mirror == nullptr) continue;
    const auto in_use = [this, id](uint64_t offset, uint64_t length) {
      return core_->allocator.HoldsAny(id, offset / device::kUnit, length / device::kUnit);
    };
    const auto progress = [this, id](uint64_t done, uint64_t) { core_->devices.resynced(id) = done; };
    const device::ResyncOptions options{
        .in_use = in_use, .bytes_per_second = bytes_per_second, .stopped = stopped, .progress = progress};
    FB_CO_TRY(co_await mirror->Resync(reactor, options));
  }
  co_return Status();
}

bool Engine::HasDevicesToEmpty() const {
  for (uint32_t id = 0; id < core_->devices.size(); ++id) {
    const Departure departure = core_->devices.departure(id);
    if (departure.leaving && departure.failure.ok() && core_->allocator.devices()[id].used_bytes != 0) return true;
  }
  return false;
}

rt::Task<void> Engine::EmptyDevices(rt::Reactor& reactor, std::function<bool()> stopped, uint64_t bytes_per_second) {
  for (uint32_t id = 0; id < core_->devices.size(); ++id) {
    const Departure departure = core_->devices.departure(id);
    if (!departure.leaving || !departure.failure.ok()) continue;
    const auto stays = [&] { return stopped() || !core_->devices.departure(id).leaving; };
    Relocation relocation(*core_, reactor, id, {.bytes_per_second = bytes_per_second, .stopped = stays});
    const Status status = co_await relocation.Run();
    if (status.code() == Code::kCancelled) continue;
    if (status.ok())
      core_->log.Info("{} is empty", core_->devices.at(id).name());
    else
      core_->log.Error("{} cannot be emptied: {}", core_->devices.at(id).name(), status.message());
    if (!status.ok()) core_->devices.FailDeparture(id, status);
  }
}

uint32_t Engine::AddDevice(std::unique_ptr<device::Device> device, const Superblock& superblock) {
  const uint32_t id = core_->devices.Add(std::move(device));
  core_->allocator.Add({.size_bytes = superblock.size_bytes, .data_start = superblock.data_start});
  return id;
}

Status Engine::SetLeaving(uint32_t id, bool leaves) {
  bool others = false;
  for (uint32_t other = 0; other < core_->devices.size(); ++other)
    others |= other != id && !core_->devices.absent(other) && !core_->devices.departure(other).leaving;
  if (leaves && !others)
    return Status::FailedPrecondition("{} is the only device: add another one before", core_->devices.at(id).name());
  core_->devices.SetDeparture(id, {.leaving = leaves});
  core_->allocator.SetOpen(id, !leaves);
  return {};
}

rt::Task<Status> Engine::ForgetDevice(rt::Reactor& reactor, uint32_t id) {
  Devices& devices = core_->devices;
  if (!devices.departure(id).leaving)
    co_return Status::FailedPrecondition("{} is in use: empty it before with: forebay device drain {}",
                                         devices.at(id).name(), devices.at(id).name());
  core_->allocator.SetOpen(id, false);
  if (const uint64_t used = core_->allocator.devices()[id].used_bytes; used != 0)
    co_return Status::FailedPrecondition("{} is not empty yet, {} are left: see forebay df", devices.at(id).name(),
                                         base::FormatSize(used));
  if (devices.witness_device() == id) core_->commits->PutWitnessOn(devices.FirstBut(id), false);
  co_return co_await core_->meta->Commit(reactor, std::make_unique<ForgetDeviceTransaction>(id));
}

void Engine::MarkDeviceAbsent(uint32_t id) {
  core_->commits->PutWitnessOn(core_->devices.FirstBut(id), true);
  core_->devices.MarkAbsent(id);
  core_->devices.SetDeparture(id, {});
}

uint64_t Engine::SizeOfDevices() const {
  uint64_t size = 0;
  for (uint32_t id = 0; id < core_->devices.size(); ++id)
    if (!core_->devices.absent(id)) size = std::max(size, core_->devices.at(id).size_bytes());
  return size;
}

device::MirrorDevice* Engine::mirror(uint32_t id) const {
  return id < core_->devices.size() ? core_->devices.mirror(id) : nullptr;
}

rt::Task<Result<store::StoreSpace>> Engine::GetSpace(const store::Context& context) {
  FB_CO_TRY(store::CheckDeadline(context, "get space"));
  Core& core = *core_;
  FB_CO_ASSIGN(meta::MetaSpace metadata, co_await rt::Offload(context.reactor, *core.pool,
                                                              [&core] { return core.meta->Space(); }));
  const store::TenantUsage stored = core.commits->tenants().OfAll();
  store::StoreSpace space{.metadata = {.path = std::move(metadata.path),
                                       .used_bytes = metadata.used_bytes,
                                       .free_bytes = metadata.free_bytes,
                                       .reserve_bytes = metadata.reserve_bytes},
                          .objects = stored.objects,
                          .object_bytes = stored.bytes,
                          .cache_bytes = core.commits->cache_bytes()};
  const std::vector<Allocator::DeviceUse> devices = core.allocator.devices();
  for (uint32_t id = 0; id < devices.size(); ++id) {
    store::DeviceSpace device{.name = core.devices.at(id).name(),
                              .capacity_bytes = devices[id].capacity_bytes,
                              .used_bytes = devices[id].used_bytes,
                              .bytes_read = core.devices.bytes_read(id),
                              .bytes_written = core.devices.bytes_written(id)};
    if (core.devices.absent(id)) continue;
    if (core.devices.mirror(id) != nullptr) DescribeMirror(core.devices, id, device);
    DescribeDeparture(core.devices.departure(id), device);
    space.devices.push_back(std::move(device));
  }
  co_return space;
}

}  // namespace forebay::engine
