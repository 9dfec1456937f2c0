// SPDX-License-Identifier: Apache-2.0
// ControlTest: the fixture of control's tests: a server on a free port over a ProbeStore, one reactor thread,
// a fake clock, and ways to call it with any proof and any bytes.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "auth/audit.h"
#include "auth/key_ring.h"
#include "auth/rate_limits.h"
#include "auth/rpc_auth.h"
#include "auth/trusted_clock.h"
#include "base/arena.h"
#include "base/mutex.h"
#include "control/client.h"
#include "control/probe_store.h"
#include "control/server.h"
#include "rt/reactor_thread.h"
#include "store/memory_store.h"
#include "store/system_records.h"

namespace forebay::control {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): tests read better with it

/// Makes none, and says so; remembers what it was asked for.
class ProbeBackups final : public Backups {
 public:
  static constexpr uint64_t kId = 17;

  Result<uint64_t> Start(std::string directory, uint64_t bytes_per_second) override {
    base::MutexLock lock(mutex_);
    last_ = fmt::format("{} at {}", directory, bytes_per_second);
    return kId;
  }
  Result<BackupState> Get(uint64_t id) override {
    if (id != kId) return Status::NotFound("there is no such backup");
    return BackupState{.done = true, .copied_bytes = 5, .total_bytes = 6};
  }
  std::string last() {
    base::MutexLock lock(mutex_);
    return last_;
  }

 private:
  base::Mutex mutex_;
  std::string last_ FB_GUARDED_BY(mutex_);
};

/// Changes nothing, and remembers what it was asked for.
class ProbeDevices final : public StoreDevices {
 public:
  rt::Task<Status> Replace(rt::Reactor& /*reactor*/, std::string lost, std::string replacement) override {
    if (lost != "/dev/lost") co_return Status::NotFound("there is no such device");
    co_return Remember(lost + " by " + replacement);
  }
  rt::Task<Status> Add(rt::Reactor& /*reactor*/, std::string path, std::string mirror, uint64_t size_bytes) override {
    co_return Remember(fmt::format("add {} and {} of {}", path, mirror, size_bytes));
  }
  rt::Task<Status> Drain(rt::Reactor& /*reactor*/, std::string path, bool stop) override {
    co_return Remember((stop ? "keep " : "drain ") + path);
  }
  rt::Task<Status> Remove(rt::Reactor& /*reactor*/, std::string path) override { co_return Remember("remove " + path); }
  std::string last() {
    base::MutexLock lock(mutex_);
    return last_;
  }

 private:
  Status Remember(std::string what) {
    base::MutexLock lock(mutex_);
    last_ = std::move(what);
    return {};
  }

  base::Mutex mutex_;
  std::string last_ FB_GUARDED_BY(mutex_);
};

/// The same of scrubs.
class ProbeScrubs final : public Scrubs {
 public:
  static ScrubReport Report() {
    return {.phase = ScrubPhase::kStopped,
            .started = base::WallTime(std::chrono::seconds(1'700'000'000)),
            .bytes_per_second = 1,
            .total_bytes = 2,
            .passed_bytes = 3,
            .verified_bytes = 4,
            .damaged_blocks = 5,
            .repaired_blocks = 6,
            .damaged_rows = 7,
            .reason = "a reason",
            .damage = {{.device = "disk0",
                        .unit = 8,
                        .extent = 9,
                        .unreadable = true,
                        .repaired = true,
                        .owners = {{.name = "object `b/k` (version 1)", .offset = 10}}}}};
  }

  Status Start(uint64_t bytes_per_second, bool anew) override {
    return Note(fmt::format("start at {}{}", bytes_per_second, anew ? ", anew" : ""));
  }
  Result<ScrubReport> Get() override { return Report(); }
  Status Stop() override { return Note("stop"); }
  std::string last() {
    base::MutexLock lock(mutex_);
    return last_;
  }

 private:
  Status Note(std::string what) {
    base::MutexLock lock(mutex_);
    last_ = std::move(what);
    return {};
  }

  base::Mutex mutex_;
  std::string last_ FB_GUARDED_BY(mutex_);
};

class ControlTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto thread = rt::ReactorThread::Create({.name = "control-test", .clock = &clock_});
    if (thread.status().code() == Code::kFailedPrecondition) GTEST_SKIP() << thread.status().ToString();
    ASSERT_TRUE(thread.ok()) << thread.status().ToString();
    thread_ = *std::move(thread);
    arena_ = *base::Arena::Create(4 * base::kMiB);
    store_ = std::make_unique<ProbeStore>(*arena_, clock_, thread_->reactor());
    OpenRecords();
    key_path_ = ::testing::TempDir() + "/control-keys-" + std::to_string(random_.Next64());
    signing_keys_ = *auth::KeyRing::Open(key_path_, trusted_clock_, random_);
    authority_ = std::make_unique<CapabilityAuthority>(CapabilityAuthority::Parts{.keys = *signing_keys_,
                                                                                  .sessions = sessions_,
                                                                                  .records = *records_,
                                                                                  .clock = trusted_clock_,
                                                                                  .random = random_});
    ASSERT_TRUE(thread_->Run([this] { return authority_->Load(thread_->reactor()); }).ok());
    Start({.listen = "127.0.0.1:0",
           .data_endpoints = {{"shm", "/run/forebay.sock"}, {"tcp", "127.0.0.1:4711"}},
           .version = "1.2.3"});
  }
  void TearDown() override {
    if (server_ != nullptr) server_->Shutdown(5s);
    std::remove(key_path_.c_str());
  }

  Result<std::unique_ptr<ControlServer>> StartAnother(ControlServerOptions options) {
    return ControlServer::Start(std::move(options), {.store = *store_,
                                                     .sessions = sessions_,
                                                     .authenticator = authenticator_,
                                                     .rates = rates_,
                                                     .capabilities = *authority_,
                                                     .audit = audit_,
                                                     .random = random_,
                                                     .tenants = *tenants_,
                                                     .keys = *keys_,
                                                     .reactors = {&thread_->reactor()},
                                                     .clock = clock_,
                                                     .log = *log_,
                                                     .traffic = [this](rt::Reactor&) { return Traffic(); },
                                                     .backups = backups_,
                                                     .devices = devices_,
                                                     .scrubs = scrubs_});
  }
  void Start(ControlServerOptions options) {
    client_.reset();
    server_.reset();
    auto server = StartAnother(std::move(options));
    ASSERT_TRUE(server.ok()) << server.status().ToString();
    server_ = *std::move(server);
    client_ = Connect(root_);
  }
  /// What the server keeps of itself, as a server does at its start.
  void OpenRecords() {
    rt::Reactor& reactor = thread_->reactor();
    if (record_store_ == nullptr) record_store_ = std::make_unique<store::MemoryStore>(*arena_, clock_);
    records_ = std::make_unique<store::SystemRecords>(*record_store_);
    tenants_ = std::make_unique<TenantRegistry>(TenantRegistry::Parts{
        .store = *store_, .records = *records_, .rates = rates_, .clock = clock_, .home = reactor});
    keys_ = std::make_unique<AccessKeys>(AccessKeys::Parts{
        .records = *records_, .sealer = sealer_, .clock = clock_, .random = random_, .home = reactor});
    ASSERT_TRUE(thread_->Run([&] { return records_->Open(reactor); }).ok());
    ASSERT_TRUE(thread_->Run([&] { return tenants_->Load(reactor); }).ok());
    ASSERT_TRUE(thread_->Run([&] { return keys_->Load(reactor, *tenants_); }).ok());
  }
  std::unique_ptr<ControlClient> Connect(auth::Identity identity) {
    return *ControlClient::Create({.server = server_->address()}, std::move(identity), clock_, random_);
  }
  rt::Task<std::vector<FabricTraffic>> Traffic() { co_return traffic_; }
  OperationId Operation() { return OperationId::Generate(store_->operation_time_ms(), random_); }

  /// An object put by the store's own hand.
  store::ObjectInfo Put(const std::string& bucket, const std::string& key,
                        store::UserMetadata metadata = {}) {
    return *thread_->Run([&]() -> rt::Task<Result<store::ObjectInfo>> {
      const store::Context context{.reactor = thread_->reactor(), .operation = {}};
      FB_CO_ASSIGN(auto writer, co_await store_->Put(context, bucket, key, {.metadata = metadata}));
      FB_CO_ASSIGN(base::Buffer buffer, co_await writer->Allocate(context, 3));
      std::memcpy(buffer.writable().data(), "abc", 3);
      FB_CO_TRY(co_await writer->Write(context, std::move(buffer)));
      co_return co_await writer->Commit(context, std::nullopt);
    });
  }

  std::string Proof(std::string_view method) {
    return auth::SignRpc(root_, method, clock_.WallNow(), random_);
  }
  /// A call of `method` with `request` as its bytes (sent compressed if wished) and each of `proofs` as a
  /// `forebay-auth`.
  Status Call(const std::string& method, const std::vector<std::string>& proofs,
              const std::string& request = {}, bool compressed = false);

  base::FakeClock clock_;
  base::SecureRandom random_;
  std::unique_ptr<base::Log> log_ = base::Log::Discard();
  const auth::Credentials root_ = auth::Credentials::Generate(random_);
  auth::TrustedClock trusted_clock_{clock_};
  auth::Audit audit_{*log_, clock_};
  auth::SessionTable sessions_{trusted_clock_, random_};
  auth::RateLimits rates_;
  std::string key_path_;
  std::unique_ptr<auth::KeyRing> signing_keys_;
  auth::RpcAuthenticator authenticator_{
      [this](std::string_view id) { return id == root_.id ? std::optional(root_) : std::nullopt; },
      [this](const auth::Capability& capability) { return authority_->Check(capability); }, clock_};
  std::unique_ptr<base::Arena> arena_;
  std::unique_ptr<rt::ReactorThread> thread_;
  std::unique_ptr<ProbeStore> store_;
  const auth::Sealer sealer_{root_.secret, random_};
  std::unique_ptr<store::MemoryStore> record_store_;  // of its own: the probe counts what calls do
  std::unique_ptr<store::SystemRecords> records_;
  std::unique_ptr<CapabilityAuthority> authority_;
  std::unique_ptr<TenantRegistry> tenants_;
  std::unique_ptr<AccessKeys> keys_;
  ProbeBackups probe_backups_;
  Backups* backups_ = &probe_backups_;  // of servers that are started from now on
  ProbeDevices probe_devices_;
  StoreDevices* devices_ = &probe_devices_;  // likewise
  ProbeScrubs probe_scrubs_;
  Scrubs* scrubs_ = &probe_scrubs_;
  std::unique_ptr<ControlServer> server_;
  std::unique_ptr<ControlClient> client_;
  const std::vector<FabricTraffic> traffic_ = {{.fabric = "tcp",
                                                .connections = 1,
                                                .transfers_in = 2,
                                                .transfers_out = 3,
                                                .bytes_in = 4,
                                                .bytes_out = 5,
                                                .copied_bytes = 6}};
};

}  // namespace forebay::control
