// SPDX-License-Identifier: Apache-2.0
// DataPlaneSuite: the client's data pool against the data-plane server, over every fabric, each side on its
// own reactor thread, with the memory store. No control plane: sessions come straight from the table.
#pragma once

#include <iostream>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "auth/audit.h"
#include "auth/rate_limits.h"
#include "auth/session_table.h"
#include "base/checksum.h"
#include "base/log.h"
#include "base/random.h"
#include "client/data_pool.h"
#include "client/operations.h"
#include "movers_fixture.h"
#include "native/server.h"
#include "rt/reactor_thread.h"
#include "store/memory_store.h"

namespace forebay {

inline uint64_t SuiteSeed() {
  const char* given = std::getenv("FOREBAY_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : base::SecureRandom().Next64();
  std::cout << "FOREBAY_SEED=" << seed << "\n";
  return seed;
}

inline Bytes Pattern(size_t size, uint64_t seed) {
  Bytes bytes(size);
  base::SeededRandom(seed).Fill(bytes);
  return bytes;
}

class DataPlaneSuite : public testing::TestWithParam<FabricChoice> {
 protected:
  explicit DataPlaneSuite(unsigned lanes = 2, bool two_reactors = false)
      : fabric_(GetParam().make(random_)),
        server_thread_(*rt::ReactorThread::Create({.name = "server"})),
        second_thread_(*rt::ReactorThread::Create({.name = "second"})),
        client_thread_(*rt::ReactorThread::Create({.name = "client"})),
        arena_(*base::Arena::Create(256 * base::kMiB)),
        log_(base::Log::Discard()),
        audit_(*log_, clock_),
        store_(*arena_, clock_),
        sessions_(clock_, random_),
        server_({}, {{*fabric_, GetParam().address}}, store_, sessions_, rates_, Reactors(two_reactors), *log_,
                audit_),
        pool_(client_thread_->reactor(), client::MoverChoice::Only(*fabric_), threads_,
              [this](base::Duration) { return OpenSession(); }, lanes, random_, {.max_attempts = 3}) {
    EXPECT_EQ(server_thread_->Run([this] { return server_.Start(); }).ToString(), "OK");
    EXPECT_EQ(
        server_thread_->Run([this] { return store_.CreateBucket(context_, {.name = "models"}); }).ToString(),
        "OK");
  }
  ~DataPlaneSuite() override {
    client_thread_->Run([this] { return pool_.Close(Status::Unavailable("the test is over")); });
    StopServer();
  }

  std::vector<rt::Reactor*> Reactors(bool two) const {
    if (!two) return {&server_thread_->reactor()};
    return {&server_thread_->reactor(), &second_thread_->reactor()};
  }
  void StopServer() {
    server_thread_->Run([this] { return server_.Stop(base::Duration::zero()); });
  }
  Result<client::DataTarget> OpenSession() {
    FB_ASSIGN(auth::OpenedSession opened,
              sessions_.Open(std::make_shared<auth::Grant>(auth::Grant::Root("root-1")), secret_, {}));
    ++sessions_opened_;
    ids_.Learn(store_.operation_time_ms());
    return client::DataTarget{.key = {.id = opened.id, .tenant = TenantId::kRoot, .key = opened.key},
                              .endpoints = {{std::string(fabric_->name()), server_.addresses().front()}}};
  }
  base::TimePoint In(base::Duration wait) const { return clock_.Now() + wait; }

  /// On the client's thread.
  std::expected<GetResult, Error> Get(const std::string& key, MutableByteView into, GetOptions options = {},
                                      base::Duration timeout = std::chrono::seconds(60)) {
    const GetItem item{.bucket = "models",
                       .key = key,
                       .region_offset = 0,
                       .length = std::min<uint64_t>(options.length, into.size()),
                       .offset = options.offset,
                       .if_match = options.if_match};
    auto results = GetBatch({&item, 1}, into, timeout);
    if (!results.ok()) return std::unexpected(client::ToError(results.status()));
    return results->front();
  }
  Result<BatchResult<GetResult>> GetBatch(std::span<const GetItem> items, MutableByteView memory,
                                          base::Duration timeout = std::chrono::seconds(60)) {
    const base::TimePoint deadline = In(timeout);
    return client_thread_->Run([&] {
      return pool_.With(deadline, true, [&](client::DataSession& session) {
        return client::GetItems(session, items, memory, deadline);
      });
    });
  }
  std::expected<PutResult, Error> Put(const std::string& key, ByteView content, PutOptions options = {}) {
    const PutItem item{.bucket = "models",
                       .key = key,
                       .region_offset = 0,
                       .length = content.size(),
                       .if_absent = options.if_absent,
                       .if_match = options.if_match,
                       .metadata = options.metadata};
    auto results = PutBatch({&item, 1}, content);
    if (!results.ok()) return std::unexpected(client::ToError(results.status()));
    return results->front();
  }
  /// Put for the tests whose subject comes after it; says what went wrong.
  testing::AssertionResult Stored(const std::string& key, ByteView content, PutOptions options = {}) {
    const auto put = Put(key, content, std::move(options));
    if (put) return testing::AssertionSuccess();
    return testing::AssertionFailure() << "put of " << key << ": " << put.error().message;
  }
  Result<BatchResult<PutResult>> PutBatch(std::span<const PutItem> items, ByteView memory) {
    const base::TimePoint deadline = In(std::chrono::seconds(60));
    const auto tickets = client::TicketsFor(items, memory, ids_);
    if (!tickets.ok()) return tickets.status();
    return client_thread_->Run([&] {
      return pool_.With(deadline, false, [&](client::DataSession& session) {
        return client::PutItems(session, items, *tickets, memory, deadline);
      });
    });
  }

  const base::SystemClock clock_;
  base::SecureRandom random_;
  client::OperationIds ids_{clock_, random_};
  const std::unique_ptr<fabric::Fabric> fabric_;
  const std::unique_ptr<rt::ReactorThread> server_thread_;
  const std::unique_ptr<rt::ReactorThread> second_thread_;
  const std::unique_ptr<rt::ReactorThread> client_thread_;
  const std::unique_ptr<base::Arena> arena_;
  const std::unique_ptr<base::Log> log_;
  auth::Audit audit_;
  store::MemoryStore store_;
  auth::Secret secret_;
  auth::SessionTable sessions_;
  auth::RateLimits rates_;
  std::atomic<int> sessions_opened_{0};
  native::Server server_;
  rt::ThreadPool threads_{1, "open"};
  client::DataPool pool_;
  const store::Context context_{.reactor = server_thread_->reactor()};
};

}  // namespace forebay
