// SPDX-License-Identifier: Apache-2.0
// A store of twins for tests: memory devices and memory metadata that survive closing the engine, with the
// reactor of the test's thread. Tests of this folder only. Reactor-local.
#pragma once

#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "device/absent_device.h"
#include "device/aligned_bytes.h"
#include "device/memory_device.h"
#include "device/mirror_device.h"
#include "engine/engine.h"
#include "engine/fsck.h"
#include "engine/superblock.h"
#include "meta/memory_meta_store.h"
#include "rt/reactor.h"

namespace forebay::engine {

/// Passes everything on to a device that outlives it; can be told to fail.
class LentDevice final : public device::Device {
 public:
  struct Faults {
    std::atomic<bool> fail_flushes{false};
    std::atomic<bool> fail_data_writes{false};  // not the witness, which the store writes when it is idle too
    std::atomic<bool> hold_reads{false};        // they wait until this is false again
    std::atomic<bool> hold_flushes{false};
    std::atomic<int> reads{0};
    std::atomic<int> flushes{0};
  };
  LentDevice(device::Device& device, Faults& faults) : device_(device), faults_(faults) {}

  const std::string& name() const override { return device_.name(); }
  uint64_t size_bytes() const override { return device_.size_bytes(); }
  rt::Task<Status> Read(rt::Reactor& reactor, uint64_t offset,
                        std::span<const MutableByteView> buffers) override {
    ++faults_.reads;
    while (faults_.hold_reads) co_await reactor.Yield();
    co_return co_await device_.Read(reactor, offset, buffers);
  }
  rt::Task<Status> Write(rt::Reactor& reactor, uint64_t offset, std::span<const ByteView> buffers) override {
    if (faults_.fail_data_writes && offset >= kDataStart)
      co_return Status::DataLoss("{}: write failed: I/O error", name());
    co_return co_await device_.Write(reactor, offset, buffers);
  }
  rt::Task<Status> Flush(rt::Reactor& reactor) override {
    ++faults_.flushes;
    while (faults_.hold_flushes) co_await reactor.Yield();
    if (faults_.fail_flushes) co_return Status::DataLoss("{}: flush failed: I/O error", name());
    co_return co_await device_.Flush(reactor);
  }
  rt::Task<Status> ZeroAhead(rt::Reactor& reactor, uint64_t begin, uint64_t end) override {
    return device_.ZeroAhead(reactor, begin, end);
  }

 private:
  device::Device& device_;
  Faults& faults_;
};

struct TwinOptions {
  size_t devices = 1;
  bool mirrors = false;  // then disk(devices + i) is the other side of disk(i)
  uint64_t device_bytes = 128 * base::kMiB;
  size_t arena_bytes = 16 * base::kMiB;
  EngineOptions engine{};
};

class TwinStore {
 public:
  explicit TwinStore(TwinOptions options = {}) : options_(options) {
    arena_ = *base::Arena::Create(options.arena_bytes);
    reactor_ = *rt::Reactor::Create({.clock = &clock_});
    for (size_t i = 0; i < options.devices * (options.mirrors ? 2 : 1); ++i) AddDisk();
    base::SeededRandom random(7);
    store_ = Uuid::Generate(random);
    EXPECT_TRUE(Run(Engine::Format(*reactor_, Disks(0, options.devices), store_)).ok());
    if (options.mirrors) {
      EXPECT_TRUE(Run(Engine::Format(*reactor_, Disks(options.devices, options.devices), store_)).ok());
      for (size_t i = 0; i < options.devices; ++i)
        EXPECT_TRUE(Run(device::MirrorDevice::Format(*reactor_, {disks_[i].get(), disks_[options.devices + i].get()},
                                                     MirrorOf(i)))
                        .ok());
    }
    const Status opened = TryOpen();
    EXPECT_TRUE(opened.ok()) << opened.ToString();
  }
  ~TwinStore() { Close(); }

  /// Opens what is on the twins.
  Status TryOpen() {
    Parts parts{.devices = {},
                .open_meta = [this](uint64_t witness,
                                    meta::GroupHooks& hooks) -> Result<std::unique_ptr<meta::MetaStore>> {
                  FB_ASSIGN(std::unique_ptr<meta::MemoryMetaStore> meta,
                            meta::MemoryMetaStore::Open(media_, witness, &hooks));
                  return meta;
                },
                .arena = arena_.get(),
                .clock = &clock_,
                .log = log_.get()};
    FB_ASSIGN(parts.devices, LendDevices());
    Result<std::unique_ptr<Engine>> engine = Run(Engine::Open(*reactor_, std::move(parts), options_.engine));
    if (!engine.ok()) return engine.error();
    engine_ = *std::move(engine);
    return {};
  }
  void Close() {
    if (engine_ == nullptr) return;
    reactor_->BlockOn(engine_->Drain(*reactor_));
    engine_.reset();
  }
  void Reopen() {
    Close();
    const Status opened = TryOpen();
    ASSERT_TRUE(opened.ok()) << opened.ToString();
  }

  /// What fsck says of the twins, while the engine is closed.
  FsckReport Fsck(bool verify_data = false) {
    Devices devices(*LendDevices());
    const auto meta = *meta::MemoryMetaStore::Open(media_, 0, nullptr);
    return *Run(CheckStore(*reactor_, devices, *meta, {.verify_data = verify_data}));
  }

  template <typename T>
  T Run(rt::Task<T> task) {
    return reactor_->BlockOn(std::move(task));
  }
  store::Context context() { return {.reactor = *reactor_}; }
  store::Context ContextFor(base::Duration time) {
    return {.reactor = *reactor_, .deadline = clock_.Now() + time};
  }
  /// Time stands still but for this.
  base::FakeClock& clock() { return clock_; }
  /// Lets everything that is ready go on for a while.
  void Turn(int times = 10) {
    reactor_->BlockOn([this, times]() -> rt::Task<void> {
      for (int i = 0; i < times; ++i) co_await reactor_->Yield();
    });
  }
  /// The same until `done`, which other threads bring about; false when that takes unreasonably long.
  template <typename Done>
  bool TurnUntil(Done done) {
    const auto late = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!done()) {
      if (std::chrono::steady_clock::now() >= late) return false;
      Turn(1);
      std::this_thread::yield();
    }
    return true;
  }
  Engine& engine() { return *engine_; }
  rt::Reactor& reactor() { return *reactor_; }
  base::Arena& arena() { return *arena_; }
  device::MemoryDevice& disk(size_t i = 0) { return *disks_[i]; }
  LentDevice::Faults& faults(size_t i = 0) { return *faults_[i]; }
  std::shared_ptr<meta::MemoryMedia>& media() { return media_; }
  /// Another disk, of which the engine does not know yet; its number.
  size_t AddDisk() {
    disks_.push_back(
        std::make_unique<device::MemoryDevice>(options_.device_bytes, "disk" + std::to_string(disks_.size())));
    faults_.push_back(std::make_unique<LentDevice::Faults>());
    return disks_.size() - 1;
  }
  /// From the next opening on it is not there: removed from the store, or a side that is absent.
  void TakeDisk(size_t i) { disks_[i].reset(); }
  std::unique_ptr<device::Device> Lend(size_t i) { return std::make_unique<LentDevice>(*disks_[i], *faults_[i]); }
  Uuid store() const { return store_; }
  base::Log& log() { return *log_; }
  /// Takes over another device's content.
  void SetDisk(size_t i, std::unique_ptr<device::MemoryDevice> disk) { disks_[i] = std::move(disk); }

  Status CreateBucket(const std::string& name = "bucket") {
    return Run(engine_->CreateBucket(context(), {.name = name}));
  }
  Result<store::ObjectInfo> Put(const std::string& key, const std::string& content,
                                store::PutOptions options = {}) {
    return Run(PutTask(key, content, std::move(options)));
  }
  Result<std::string> Get(const std::string& key) { return Run(GetTask(key)); }
  Status Delete(const std::string& key) { return Run(engine_->Delete(context(), "bucket", key, {})); }
  Result<std::unique_ptr<store::ObjectReader>> Open(const std::string& key) {
    return Run(engine_->Open(context(), "bucket", key, {}));
  }
  Result<std::string> Read(store::ObjectReader& reader, uint64_t offset, uint64_t length) {
    return Run(ReadTask(reader, offset, length));
  }

  rt::Task<Status> WriteTask(store::ObjectWriter& writer, const std::string& content) {
    size_t at = 0;
    while (at < content.size()) {
      FB_CO_ASSIGN(base::Buffer buffer, co_await writer.Allocate(context(), content.size() - at));
      std::memcpy(buffer.writable().data(), content.data() + at, buffer.size());
      at += buffer.size();
      FB_CO_TRY(co_await writer.Write(context(), std::move(buffer)));
    }
    co_return Status();
  }
  rt::Task<Result<store::ObjectInfo>> PutTask(std::string key, std::string content,
                                              store::PutOptions options = {}) {
    FB_CO_ASSIGN(const std::unique_ptr<store::ObjectWriter> writer,
                 co_await engine_->Put(context(), "bucket", std::move(key), std::move(options)));
    FB_CO_TRY(co_await WriteTask(*writer, content));
    co_return co_await writer->Commit(context(), std::nullopt);
  }
  rt::Task<Result<std::string>> ReadTask(store::ObjectReader& reader, uint64_t offset, uint64_t length) {
    FB_CO_ASSIGN(const store::ReadData data, co_await reader.Read(context(), offset, length));
    std::string content;
    for (const base::Buffer& buffer : data.buffers) content += AsText(buffer.view());
    co_return content;
  }
  /// The record of the extent with the highest number: of the object that was put last.
  ExtentRecord LastExtent() const {
    std::optional<std::pair<std::string, std::string>> last, next;
    while ((next = media_->First(meta::Family::kExtents, last ? last->first + '\0' : std::string(), {})))
      last = next;
    return *DecodeExtent(last->first, last->second);
  }
  /// Of the disk, behind the engine's back.
  Bytes ReadDisk(uint64_t offset, size_t length, size_t disk = 0) {
    device::AlignedBytes memory(length);
    const MutableByteView view = memory.writable();
    EXPECT_TRUE(Run(disks_[disk]->Read(*reactor_, offset, {&view, 1})).ok());
    return Bytes(view.begin(), view.end());
  }
  void WriteDisk(uint64_t offset, const Bytes& bytes, size_t disk = 0) {
    device::AlignedBytes memory(bytes.size());
    std::memcpy(memory.data(), bytes.data(), bytes.size());
    const ByteView view = memory.view();
    EXPECT_TRUE(Run(disks_[disk]->Write(*reactor_, offset, {&view, 1})).ok());
  }
  rt::Task<Result<std::string>> GetTask(std::string key) {
    FB_CO_ASSIGN(const std::unique_ptr<store::ObjectReader> reader,
                 co_await engine_->Open(context(), "bucket", key, {}));
    std::string content;
    while (content.size() < reader->info().size_bytes) {
      const uint64_t length =
          std::min<uint64_t>(base::kMaxChunkBytes, reader->info().size_bytes - content.size());
      FB_CO_ASSIGN(const std::string part, co_await ReadTask(*reader, content.size(), length));
      content += part;
    }
    co_return content;
  }

 private:
  std::vector<device::Device*> Disks(size_t first, size_t count) {
    std::vector<device::Device*> disks;
    for (size_t i = 0; i < count; ++i) disks.push_back(disks_[first + i].get());
    return disks;
  }
  device::MirrorIdentity MirrorOf(size_t i) const { return {.store = store_, .device = static_cast<uint32_t>(i)}; }

  Result<std::vector<std::unique_ptr<device::Device>>> LendDevices() {
    std::vector<std::unique_ptr<device::Device>> devices;
    for (size_t i = 0; !options_.mirrors && i < disks_.size(); ++i) {
      if (disks_[i] == nullptr)
        devices.push_back(std::make_unique<device::AbsentDevice>("removed", kMinDeviceBytes));
      else
        devices.push_back(Lend(i));
    }
    for (size_t i = 0; options_.mirrors && i < options_.devices; ++i) {
      device::MirrorDevice::Sides sides;
      if (disks_[i] != nullptr) sides[0] = Lend(i);
      if (disks_[options_.devices + i] != nullptr) sides[1] = Lend(options_.devices + i);
      const device::MirrorMemory memory{.generation = generations_[i], .keep = [this, i](uint64_t generation) {
                                          generations_[i] = generation;
                                          return Status();
                                        }};
      FB_ASSIGN(std::unique_ptr<device::Device> mirror,
                Run(device::MirrorDevice::Open(*reactor_, std::move(sides), {"left", "right"}, MirrorOf(i), memory, *log_)));
      devices.push_back(std::move(mirror));
    }
    return devices;
  }

  const TwinOptions options_;
  Uuid store_;
  std::map<size_t, uint64_t> generations_;
  base::FakeClock clock_;
  std::unique_ptr<base::Log> log_ = base::Log::Discard();
  std::unique_ptr<base::Arena> arena_;
  std::unique_ptr<rt::Reactor> reactor_;
  std::vector<std::unique_ptr<device::MemoryDevice>> disks_;
  std::vector<std::unique_ptr<LentDevice::Faults>> faults_;
  std::shared_ptr<meta::MemoryMedia> media_ = std::make_shared<meta::MemoryMedia>();
  std::unique_ptr<Engine> engine_;
};

/// `size` bytes that depend on the seed.
inline std::string RandomContent(uint64_t seed, size_t size) {
  std::string content(size, '\0');
  base::SeededRandom(seed).Fill(std::as_writable_bytes(std::span(content.data(), content.size())));
  return content;
}

}  // namespace forebay::engine
