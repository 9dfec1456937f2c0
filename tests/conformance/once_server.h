// SPDX-License-Identifier: Apache-2.0
// A whole server in this process, engine in a directory, control plane over gRPC and data plane over tcp,
// that can be stopped with work in progress and started again on the same store. Start, Stop and store() are
// the test's thread's; Current is thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "auth/audit.h"
#include "auth/credentials.h"
#include "auth/key_ring.h"
#include "auth/rpc_auth.h"
#include "auth/seal.h"
#include "auth/rate_limits.h"
#include "auth/session_table.h"
#include "auth/trusted_clock.h"
#include "base/arena.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/random.h"
#include "client/data_pool.h"
#include "control/access_keys.h"
#include "control/capability_authority.h"
#include "control/client.h"
#include "control/server.h"
#include "control/tenant_registry.h"
#include "engine/store_directory.h"
#include "fabric/tcp_fabric.h"
#include "meta/temporary_directory.h"
#include "native/server.h"
#include "rt/reactor_thread.h"
#include "store/system_records.h"

namespace forebay::conformance {

class OnceServer {
 public:
  /// What a client needs of one life of the server.
  struct Life {
    std::string control_address;
    std::string data_address;
    std::unique_ptr<control::ControlClient> control;
  };

  OnceServer() { Start(true); }
  ~OnceServer() { Stop(); }

  void Start(bool create = false) {
    const std::string path = directory_.path() + "/store";
    const engine::StoreDirectory::Environment environment{
        .arena = *arena_, .clock = clock_, .random = random_, .log = *log_};
    auto opened = create ? engine::StoreDirectory::Create(path, {.size_bytes = base::kGiB}, environment, {})
                         : engine::StoreDirectory::Open(path, environment, {});
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    store_ = *std::move(opened);
    data_ = std::make_unique<native::Server>(
        native::ServerOptions{}, std::vector<native::ListenOn>{{fabric_, "127.0.0.1:0"}}, store_->engine(),
        sessions_, rates_, std::vector<rt::Reactor*>{&thread_->reactor()}, *log_, audit_);
    ASSERT_EQ(thread_->Run([this] { return data_->Start(); }).ToString(), "OK");
    OpenRecords();
    auto control = control::ControlServer::Start({.listen = "127.0.0.1:0", .version = "test"},
                                                 {.store = store_->engine(),
                                                  .sessions = sessions_,
                                                  .authenticator = authenticator_,
                                                  .rates = rates_,
                                                  .capabilities = *authority_,
                                                  .audit = audit_,
                                                  .random = random_,
                                                  .tenants = *tenants_,
                                                  .keys = *access_keys_,
                                                  .reactors = {&thread_->reactor()},
                                                  .clock = clock_,
                                                  .log = *log_});
    ASSERT_TRUE(control.ok()) << control.status().ToString();
    control_ = *std::move(control);
    auto life = std::make_shared<Life>();
    life->control_address = control_->address();
    life->data_address = data_->addresses().front();
    life->control =
        *control::ControlClient::Create({.server = life->control_address}, credentials_, clock_, random_);
    const base::MutexLock lock(mutex_);
    life_ = std::move(life);
    changed_.NotifyAll();
  }
  /// At once: what is in progress is given up, or ends without its answer.
  void Stop() {
    {
      const base::MutexLock lock(mutex_);
      life_ = nullptr;
    }
    if (store_ == nullptr) return;
    control_->Shutdown(base::Duration::zero());
    control_.reset();
    thread_->Run([this] { return data_->Stop(base::Duration::zero()); });
    thread_->Run([this] { return store_->engine().Drain(thread_->reactor()); });
    data_.reset();
    authority_.reset();
    access_keys_.reset();
    tenants_.reset();
    records_.reset();
    store_.reset();
  }

  /// Waits for a life that is not `last`, of which the caller has seen the end.
  std::shared_ptr<Life> Next(const std::shared_ptr<Life>& last) {
    const base::MutexLock lock(mutex_);
    while (life_ == nullptr || life_ == last) changed_.Wait(mutex_);
    return life_;
  }
  /// Null while it is stopped.
  std::shared_ptr<Life> Current() {
    const base::MutexLock lock(mutex_);
    return life_;
  }
  Result<client::DataTarget> OpenSession() {
    const std::shared_ptr<Life> life = Current();
    if (life == nullptr) return Status::Unavailable("the server is stopped");
    FB_ASSIGN(auth::OpenedSession opened,
              sessions_.Open(std::make_shared<auth::Grant>(auth::Grant::Root("root-1")), secret_, {}));
    return client::DataTarget{.key = {.id = opened.id, .tenant = TenantId::kRoot, .key = opened.key},
                              .endpoints = {{std::string(fabric_.name()), life->data_address}}};
  }

  store::ObjectStore& store() { return store_->engine(); }
  rt::ReactorThread& thread() { return *thread_; }
  fabric::Fabric& fabric() { return fabric_; }
  store::Context context() { return {.reactor = thread_->reactor()}; }

 private:
  /// What a server keeps of itself.
  void OpenRecords() {
    rt::Reactor& home = thread_->reactor();
    records_ = std::make_unique<store::SystemRecords>(store_->engine());
    tenants_ = std::make_unique<control::TenantRegistry>(control::TenantRegistry::Parts{
        .store = store_->engine(), .records = *records_, .rates = rates_, .clock = clock_, .home = home});
    access_keys_ = std::make_unique<control::AccessKeys>(control::AccessKeys::Parts{
        .records = *records_, .sealer = sealer_, .clock = clock_, .random = random_, .home = home});
    authority_ = std::make_unique<control::CapabilityAuthority>(
        control::CapabilityAuthority::Parts{.keys = *signing_keys_,
                                            .sessions = sessions_,
                                            .records = *records_,
                                            .clock = trusted_clock_,
                                            .random = random_});
    ASSERT_TRUE(thread_->Run([&] { return records_->Open(home); }).ok());
    ASSERT_TRUE(thread_->Run([&] { return tenants_->Load(home); }).ok());
    ASSERT_TRUE(thread_->Run([&] { return access_keys_->Load(home, *tenants_); }).ok());
    ASSERT_TRUE(thread_->Run([&] { return authority_->Load(home); }).ok());
  }

  const base::SystemClock clock_;
  base::SecureRandom random_;
  const meta::TemporaryDirectory directory_;
  const std::unique_ptr<base::Log> log_ = base::Log::Discard();
  const std::unique_ptr<base::Arena> arena_ = *base::Arena::Create(128 * base::kMiB);
  const std::unique_ptr<rt::ReactorThread> thread_ = *rt::ReactorThread::Create({.name = "server"});
  fabric::TcpFabric fabric_{random_};
  const auth::Credentials credentials_ = auth::Credentials::Generate(random_);
  auth::Secret secret_;
  auth::TrustedClock trusted_clock_{clock_};
  auth::Audit audit_{*log_, clock_};
  auth::SessionTable sessions_{trusted_clock_, random_};
  auth::RateLimits rates_;
  const auth::Sealer sealer_{credentials_.secret, random_};
  const std::unique_ptr<auth::KeyRing> signing_keys_ =
      *auth::KeyRing::Open(directory_.path() + "/signing-keys", clock_, random_);
  auth::RpcAuthenticator authenticator_{[this](std::string_view id) {
                                          return id == credentials_.id ? std::optional(credentials_)
                                                                       : std::nullopt;
                                        },
                                        nullptr, clock_};
  std::unique_ptr<engine::StoreDirectory> store_;
  std::unique_ptr<store::SystemRecords> records_;
  std::unique_ptr<control::TenantRegistry> tenants_;
  std::unique_ptr<control::AccessKeys> access_keys_;
  std::unique_ptr<control::CapabilityAuthority> authority_;
  std::unique_ptr<native::Server> data_;
  std::unique_ptr<control::ControlServer> control_;
  base::Mutex mutex_;
  base::ConditionVariable changed_;
  std::shared_ptr<Life> life_ FB_GUARDED_BY(mutex_);  // shared with calls that outlive it
};

}  // namespace forebay::conformance
