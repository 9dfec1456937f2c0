// SPDX-License-Identifier: Apache-2.0
#include "lab.h"

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <utility>

#include "base/check.h"
#include "lab_device.h"
#include "meta/rocks_meta_store.h"
#include "meta/temporary_directory.h"

namespace forebay::crash {

namespace fs = std::filesystem;

std::string Lab::ScratchDirectory(std::string_view name) {
  static std::atomic<int> number{0};
  return (meta::FastScratch() / fmt::format("forebay-lab-{}-{}-{}", ::getpid(), ++number, name)).string();
}

Lab::Lab(LabOptions options) : options_(std::move(options)) {
  constexpr size_t kArenaBytes = 8 * base::kMiB;  // less than a few large objects: waiting for memory is part of the stream
  arena_ = *base::Arena::Create(kArenaBytes);
  reactor_ = *rt::Reactor::Create({.name = "fb-lab", .entries = 64});
  for (size_t id = 0; id < options_.devices; ++id)
    disks_.push_back(std::make_unique<device::MemoryDevice>(options_.device_bytes, fmt::format("disk{}", id)));
  fs::remove_all(options_.directory);
  fs::create_directories(options_.directory);
}

Lab::~Lab() {
  Close();
  files_.reset();
  fs::remove_all(options_.directory);
}

/// New supply for the media as they are; what is in the directory counts as durable.
void Lab::PlugIn(int64_t operations) {
  power_ = std::make_unique<device::PowerSwitch>(operations);
  files_ = std::make_unique<meta::CrashFileSystem>(
      metadata_directory(), meta::CrashFileSystem::Options{.use = [power = power_.get()] { return power->Use(); }});
}

Status Lab::Make() {
  base::SeededRandom random(7);
  store_ = Uuid::Generate(random);
  std::vector<device::Device*> devices;
  for (const auto& disk : disks_) devices.push_back(disk.get());
  FB_TRY(Run(engine::Engine::Format(*reactor_, devices, store_)));
  PlugIn(device::PowerSwitch::kForever);
  FB_TRY(Open());
  const store::Context here = context();
  FB_TRY(Run(engine_->CreateBucket(here, {.name = kBucket})));
  Close();
  made_ = true;
  return Crash(random);
}

std::vector<std::unique_ptr<device::Device>> Lab::LendDevices() {
  const Mutant mutant = made_ ? options_.mutant : Mutant::kNone;
  std::vector<std::unique_ptr<device::Device>> lent;
  for (const auto& disk : disks_) {
    const bool later_flush = mutant == Mutant::kNoSecondFlush && !lent.empty();
    const LabDevice::Lies lies{.flush = mutant == Mutant::kNoDeviceFlush || later_flush,
                               .witness = mutant == Mutant::kNoWitness};
    std::unique_ptr<device::Device> device = std::make_unique<LabDevice>(*disk, lies);
    if (made_ && options_.faults != nullptr)
      device = std::make_unique<device::FaultyDevice>(std::move(device), *options_.faults);
    if (options_.failed_flush_drops) device = std::make_unique<DroppingDevice>(std::move(device), *disk);
    lent.push_back(std::move(device));
  }
  return lent;
}

Result<std::unique_ptr<meta::MetaStore>> Lab::OpenMeta(uint64_t witness, meta::GroupHooks* hooks) {
  const meta::CommitterOptions committer{.settle = options_.settle};
  if (options_.memory_metadata) {
    FB_ASSIGN(std::unique_ptr<meta::MemoryMetaStore> meta,
              meta::MemoryMetaStore::Open(memory_media_, witness, hooks, committer));
    return std::unique_ptr<meta::MetaStore>(std::move(meta));
  }
  meta::RocksMetaOptions options{.path = metadata_directory(),
                                 .create = !made_,
                                 .witness = witness,
                                 .cache_bytes = base::kMiB,
                                 .write_buffer_bytes = options_.write_buffer_bytes,
                                 .committer = committer,
                                 .file_system = files_->file_system()};
  if (made_ && options_.mutant == Mutant::kNoLogSync) options.file_system = WithLyingLogSyncs(options.file_system);
  if (options_.space != nullptr) options.file_system = WithSpace(options.file_system, *options_.space);
  FB_ASSIGN(std::unique_ptr<meta::RocksMetaStore> meta, meta::RocksMetaStore::Open(std::move(options), hooks));
  return std::unique_ptr<meta::MetaStore>(std::move(meta));
}

Status Lab::Open() {
  FB_CHECK(engine_ == nullptr);
  engine::Parts parts{.devices = LendDevices(),
                      .open_meta = [this](uint64_t witness, meta::GroupHooks& hooks) { return OpenMeta(witness, &hooks); },
                      .arena = arena_.get(),
                      .clock = &clock_,
                      .log = log_.get()};
  const engine::EngineOptions options{.tier_bytes = options_.tier_bytes, .lookup_threads = 1};
  FB_ASSIGN(engine_, Run(engine::Engine::Open(*reactor_, std::move(parts), options)));
  return {};
}

void Lab::Close() {
  if (engine_ == nullptr) return;
  reactor_->BlockOn(engine_->Drain(*reactor_));
  engine_.reset();
}

Status Lab::Crash(base::Random& random, int64_t operations) {
  power_->Cut();
  Close();
  FB_TRY(files_->Crash(random, static_cast<meta::FileCrashMode>(random.Below(3))));
  files_.reset();
  const std::unique_ptr<device::PowerSwitch> old = std::move(power_);
  PlugIn(operations);
  for (auto& disk : disks_)
    disk = disk->Crash(random, static_cast<device::CrashMode>(random.Below(3)), power_.get());
  return {};
}

Lab::Image Lab::Save() {
  FB_CHECK(engine_ == nullptr);
  Image image{.disks = {}, .metadata = options_.directory + "/saved", .store = store_};
  for (const auto& disk : disks_) image.disks.push_back(disk->image());
  fs::remove_all(image.metadata);
  fs::copy(metadata_directory(), image.metadata);
  return image;
}

void Lab::Restore(const Image& image) {
  Close();
  files_.reset();
  made_ = true;
  store_ = image.store;
  fs::remove_all(metadata_directory());
  fs::create_directory(metadata_directory());
  for (const auto& entry : fs::directory_iterator(image.metadata)) {
    const std::string name = entry.path().filename().string();
    if (name != "LOCK" && !name.starts_with("LOG")) fs::create_hard_link(entry.path(), fs::path(metadata_directory()) / name);
  }
  const std::unique_ptr<device::PowerSwitch> old = std::move(power_);
  PlugIn(device::PowerSwitch::kForever);
  for (size_t id = 0; id < disks_.size(); ++id)
    disks_[id] = device::MemoryDevice::FromImage(image.disks[id], fmt::format("disk{}", id), power_.get());
}

Result<engine::FsckReport> Lab::Fsck() {
  FB_CHECK(engine_ == nullptr);
  engine::Devices devices(LendDevices());
  FB_ASSIGN(const engine::Witness witness, Run(engine::ReadWitness(*reactor_, devices.at(0), store_)));
  FB_ASSIGN(const std::unique_ptr<meta::MetaStore> meta, OpenMeta(witness.commit, nullptr));
  return Run(engine::CheckStore(*reactor_, devices, *meta, {.verify_data = true}));
}

}  // namespace forebay::crash
