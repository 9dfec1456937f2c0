// SPDX-License-Identifier: Apache-2.0
// The behaviour suite of ObjectStore over the engine: on twins, and on a store directory with RocksDB.
#include <gtest/gtest.h>

#include "engine/engine_fixture.h"
#include "engine/store_directory.h"
#include "meta/temporary_directory.h"
#include "store/store_suite.h"

namespace forebay::store {
namespace {

/// Whatever a test did, the store is whole.
void ExpectClean(const Result<engine::FsckReport>& report) {
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  for (const std::string& error : report->errors) ADD_FAILURE() << "fsck: " << error;
}

class TwinFixture final : public StoreFixture {
 public:
  ~TwinFixture() override {
    twins_.Close();
    ExpectClean(twins_.Fsck(true));
  }

  ObjectStore& store() override { return twins_.engine(); }
  rt::Reactor& reactor() override { return twins_.reactor(); }
  bool Reopen() override {
    twins_.Reopen();
    return true;
  }
  bool PassTime(base::Duration time) override {
    twins_.clock().Advance(time);
    return true;
  }

 private:
  engine::TwinStore twins_{{.devices = 2, .device_bytes = 256 * base::kMiB, .arena_bytes = 32 * base::kMiB}};
};

class DirectoryFixture final : public StoreFixture {
 public:
  DirectoryFixture() {
    Keep(engine::StoreDirectory::Create(path(), {.size_bytes = 256 * base::kMiB}, environment(), {}));
  }
  ~DirectoryFixture() override {
    Close();
    ExpectClean(engine::StoreDirectory::Check(path(), {}, environment()));
  }

  ObjectStore& store() override { return store_->engine(); }
  rt::Reactor& reactor() override { return *reactor_; }
  bool Reopen() override {
    Close();
    Keep(engine::StoreDirectory::Open(path(), environment(), {}));
    return true;
  }
  bool PassTime(base::Duration time) override {
    clock_.Advance(time);
    return true;
  }

 private:
  std::string path() const { return temporary_.path() + "/store"; }
  engine::StoreDirectory::Environment environment() {
    return {.arena = *arena_, .clock = clock_, .random = random_, .log = *log_};
  }
  void Keep(Result<std::unique_ptr<engine::StoreDirectory>> store) {
    if (!store.ok()) {
      ADD_FAILURE() << store.status().ToString();
      std::abort();  // nothing of the test can run
    }
    store_ = *std::move(store);
  }
  void Close() {
    reactor_->BlockOn(store_->engine().Drain(*reactor_));
    store_.reset();
  }

  meta::TemporaryDirectory temporary_;
  base::FakeClock clock_;
  base::SecureRandom random_;
  std::unique_ptr<base::Log> log_ = base::Log::Discard();
  std::unique_ptr<base::Arena> arena_ = *base::Arena::Create(32 * base::kMiB);
  std::unique_ptr<rt::Reactor> reactor_ = *rt::Reactor::Create();
  std::unique_ptr<engine::StoreDirectory> store_;
};

INSTANTIATE_TEST_SUITE_P(EngineOnTwins, StoreSuite,
                         testing::Values(StoreBackend{"twins",
                                                      [] { return std::make_unique<TwinFixture>(); }}),
                         BackendName);
INSTANTIATE_TEST_SUITE_P(EngineInDirectory, StoreSuite,
                         testing::Values(StoreBackend{"directory",
                                                      [] { return std::make_unique<DirectoryFixture>(); }}),
                         BackendName);

}  // namespace
}  // namespace forebay::store
