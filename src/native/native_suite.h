// SPDX-License-Identifier: Apache-2.0
// NativeTest: a server over the memory store and the memory fabric, with peers on the same reactor and a
// clock that stands still. What a test does runs as one coroutine, in Run.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "auth/audit.h"
#include "auth/rate_limits.h"
#include "auth/session_table.h"
#include "base/checksum.h"
#include "base/log.h"
#include "base/random.h"
#include "fabric/memory_fabric.h"
#include "native/holding_fabric.h"
#include "native/server.h"
#include "native/test_peer.h"
#include "rt/reactor.h"
#include "store/memory_store.h"

namespace forebay::native {

inline Bytes Pattern(size_t size, uint64_t seed) {
  Bytes bytes(size);
  base::SeededRandom(seed).Fill(bytes);
  return bytes;
}

class NativeTest : public testing::Test {
 protected:
  explicit NativeTest(ServerOptions options = {})
      : reactor_(*rt::Reactor::Create({.name = "test", .clock = &clock_})),
        arena_(*base::Arena::Create(64 * base::kMiB)),
        log_(base::Log::Discard()),
        audit_(*log_, clock_),
        store_(*arena_, clock_),
        sessions_(clock_, random_),
        memory_fabric_(random_),
        fabric_(memory_fabric_, *reactor_),
        server_(std::move(options), {{fabric_, "anywhere:0"}}, store_, sessions_, rates_, {reactor_.get()}, *log_, audit_) {
    EXPECT_EQ(Do(server_.Start()).ToString(), "OK");
    EXPECT_EQ(Do(store_.CreateBucket(context_, {.name = "models"})).ToString(), "OK");
  }
  ~NativeTest() override { Do(server_.Stop(base::Duration::zero())); }

  template <typename T>
  T Do(rt::Task<T> task) {
    return reactor_->BlockOn(std::move(task));
  }
  /// Runs the body with a peer that has said Hello, and fences the peer after it.
  template <typename Body>
  void Run(Body body) {
    Do([](NativeTest& test, Body& run) -> rt::Task<void> {
      const std::unique_ptr<TestPeer> peer = co_await test.Connect();
      EXPECT_EQ((co_await peer->Hello()).ToString(), "OK");
      co_await run(*peer);
      co_await peer->endpoint->Fence(Status::Unavailable("the test is over"));
    }(*this, body));
  }
  auth::OpenedSession OpenSession() {
    return OpenSession(auth::Grant::Root("root-1"));
  }
  auth::OpenedSession OpenSession(auth::Grant grant) {
    return *sessions_.Open(std::make_shared<auth::Grant>(std::move(grant)), secret_, auth::SessionNonce{});
  }
  /// A connection that has said nothing yet.
  rt::Task<std::unique_ptr<TestPeer>> Connect(auth::OpenedSession session) {
    const fabric::EndpointOptions options{.max_transfer_bytes = base::kMaxTransferBytes};
    auto endpoint = co_await memory_fabric_.Connect(*reactor_, server_.addresses().front(), options, base::kNever);
    EXPECT_TRUE(endpoint.ok()) << endpoint.status().ToString();
    co_return std::make_unique<TestPeer>(*std::move(endpoint), session);
  }
  rt::Task<std::unique_ptr<TestPeer>> Connect() { return Connect(OpenSession()); }

  /// Straight into the store.
  rt::Task<store::ObjectInfo> Store(std::string key, ByteView content) {
    auto writer = co_await store_.Put(context_, "models", std::move(key), {});
    while (!content.empty()) {
      base::Buffer buffer =
          *co_await (*writer)->Allocate(context_, std::min<size_t>(content.size(), base::kMaxChunkBytes));
      std::ranges::copy(content.first(buffer.size()), buffer.writable().begin());
      content = content.subspan(buffer.size());
      EXPECT_TRUE((co_await (*writer)->Write(context_, std::move(buffer))).ok());
    }
    co_return *co_await (*writer)->Commit(context_, std::nullopt);
  }
  /// Straight from the store; "NOT_FOUND" when there is no such object.
  rt::Task<std::string> Load(std::string key) {
    auto reader = co_await store_.Open(context_, "models", std::move(key), {});
    if (!reader.ok()) co_return std::string(CodeName(reader.error().code()));
    std::string content;
    while (content.size() < (*reader)->info().size_bytes) {
      const uint64_t left = (*reader)->info().size_bytes - content.size();
      const auto data =
          co_await (*reader)->Read(context_, content.size(), std::min<uint64_t>(left, base::kMaxChunkBytes));
      for (const base::Buffer& buffer : data->buffers) content += AsText(buffer.view());
    }
    co_return content;
  }
  size_t ObjectCount() { return Do(store_.List(context_, "models", {}))->objects.size(); }

  base::FakeClock clock_;
  base::SeededRandom random_{7};
  const std::unique_ptr<rt::Reactor> reactor_;
  const std::unique_ptr<base::Arena> arena_;
  const std::unique_ptr<base::Log> log_;
  auth::Audit audit_;
  store::MemoryStore store_;
  auth::Secret secret_;
  auth::SessionTable sessions_;
  auth::RateLimits rates_;
  fabric::MemoryFabric memory_fabric_;
  HoldingFabric fabric_;
  Server server_;
  const store::Context context_{.reactor = *reactor_};

 private:
};

}  // namespace forebay::native
