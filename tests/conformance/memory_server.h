// SPDX-License-Identifier: Apache-2.0
// MemoryServer: a whole server in this process, over the memory store, control plane over gRPC and data plane over tcp, that
// can be stopped and started again at the same addresses. The test's thread alone calls it.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "auth/audit.h"
#include "auth/credentials.h"
#include "auth/key_ring.h"
#include "auth/rate_limits.h"
#include "auth/rpc_auth.h"
#include "auth/seal.h"
#include "auth/session_table.h"
#include "auth/trusted_clock.h"
#include "base/log.h"
#include "base/random.h"
#include "control/access_keys.h"
#include "control/capability_authority.h"
#include "control/server.h"
#include "control/tenant_registry.h"
#include "fabric/tcp_fabric.h"
#include "forebay/client.h"
#include "meta/temporary_directory.h"
#include "native/server.h"
#include "rt/reactor_thread.h"
#include "store/memory_store.h"
#include "store/system_records.h"

namespace forebay::conformance {

class MemoryServer {
 public:
  MemoryServer() {
    EXPECT_EQ(credentials_.Save(credentials_path(), random_).ToString(), "OK");
    signing_keys_ = *auth::KeyRing::Open(directory_.path() + "/signing-keys", clock_, random_);
    authority_ = std::make_unique<control::CapabilityAuthority>(
        control::CapabilityAuthority::Parts{.keys = *signing_keys_,
                                            .sessions = sessions_,
                                            .records = records_,
                                            .clock = trusted_clock_,
                                            .random = random_});
    rt::Reactor& home = thread_->reactor();
    EXPECT_TRUE(thread_->Run([&] { return records_.Open(home); }).ok());
    EXPECT_TRUE(thread_->Run([&] { return tenants_.Load(home); }).ok());
    EXPECT_TRUE(thread_->Run([&] { return authority_->Load(home); }).ok());
    Start();
  }
  ~MemoryServer() { Stop(); }

  void Start() {
    data_ = std::make_unique<native::Server>(
        native::ServerOptions{}, std::vector<native::ListenOn>{{fabric_, data_address_}}, store_, sessions_, rates_,
        std::vector<rt::Reactor*>{&thread_->reactor()}, *log_, audit_);
    ASSERT_EQ(thread_->Run([this] { return data_->Start(); }).ToString(), "OK");
    data_address_ = data_->addresses().front();
    auto control = control::ControlServer::Start(
        {.listen = control_address_, .data_endpoints = {{"tcp", data_address_}}, .version = "test"},
        {.store = store_,
         .sessions = sessions_,
         .authenticator = authenticator_,
         .rates = rates_,
         .capabilities = *authority_,
         .audit = audit_,
         .random = random_,
         .tenants = tenants_,
         .keys = keys_,
         .reactors = {&thread_->reactor()},
         .clock = clock_,
         .log = *log_});
    ASSERT_TRUE(control.ok()) << control.status().ToString();
    control_ = *std::move(control);
    control_address_ = control_->address();
  }
  /// At once; what it stored stays.
  void Stop() {
    if (control_ != nullptr) control_->Shutdown(base::Duration::zero());
    control_.reset();
    if (data_ != nullptr) thread_->Run([this] { return data_->Stop(base::Duration::zero()); });
    data_.reset();
  }

  ClientOptions Options() const {
    return {.server = control_address_,
            .credentials_path = credentials_path(),
            .timeout = std::chrono::seconds(30),
            .fabric = "tcp"};
  }
  store::MemoryStore& store() { return store_; }
  rt::ReactorThread& thread() { return *thread_; }

 private:
  std::string credentials_path() const { return directory_.path() + "/credentials"; }

  const base::SystemClock clock_;
  base::SecureRandom random_;
  const meta::TemporaryDirectory directory_;
  const auth::Credentials credentials_ = auth::Credentials::Generate(random_);
  fabric::TcpFabric fabric_{random_};
  const std::unique_ptr<rt::ReactorThread> thread_ = *rt::ReactorThread::Create({.name = "server"});
  const std::unique_ptr<base::Arena> arena_ = *base::Arena::Create(256 * base::kMiB);
  const std::unique_ptr<base::Log> log_ = base::Log::Discard();
  auth::Audit audit_{*log_, clock_};
  store::MemoryStore store_{*arena_, clock_};
  auth::TrustedClock trusted_clock_{clock_};
  store::SystemRecords records_{store_};
  const auth::Sealer sealer_{credentials_.secret, random_};
  auth::RateLimits rates_;
  control::TenantRegistry tenants_{
      {.store = store_, .records = records_, .rates = rates_, .clock = clock_, .home = thread_->reactor()}};
  control::AccessKeys keys_{
      {.records = records_, .sealer = sealer_, .clock = clock_, .random = random_, .home = thread_->reactor()}};
  auth::SessionTable sessions_{clock_, random_};
  std::unique_ptr<auth::KeyRing> signing_keys_;
  std::unique_ptr<control::CapabilityAuthority> authority_;
  auth::RpcAuthenticator authenticator_{
      [this](std::string_view id) { return id == credentials_.id ? std::optional(credentials_) : std::nullopt; },
      [this](const auth::Capability& capability) { return authority_->Check(capability); }, clock_};
  std::string data_address_ = "127.0.0.1:0";
  std::string control_address_ = "127.0.0.1:0";
  std::unique_ptr<native::Server> data_;
  std::unique_ptr<control::ControlServer> control_;
};

}  // namespace forebay::conformance
