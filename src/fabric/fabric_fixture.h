// SPDX-License-Identifier: Apache-2.0
// FabricTest: the stage for tests of a fabric, over a factory. The two ends live on two reactor threads with one fake clock;
// a stopped peer is a reactor thread that is held up.
// For tests only; used on the test's thread.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <future>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/arena.h"
#include "base/clock.h"
#include "base/random.h"
#include "fabric/fabric.h"
#include "rt/reactor_thread.h"

namespace forebay::fabric {

struct FabricFactory {
  std::string name;
  std::string address;  ///< to listen on
  std::function<std::unique_ptr<Fabric>(base::Random&)> make;
  // What movers differ in; docs/fabric.md says why.
  bool transfers_pass_a_stopped_owner = false;     ///< its device answers for it
  bool read_deadline_ends_the_connection = false;  ///< nothing else stops a device from writing to the target
  friend void PrintTo(const FabricFactory& factory, std::ostream* out) { *out << factory.name; }
};

inline constexpr base::TimePoint kNever = base::kNever;
using std::chrono::milliseconds;
using std::chrono::seconds;

inline Bytes Pattern(size_t size, uint64_t seed) {
  Bytes bytes(size);
  base::SeededRandom(seed).Fill(bytes);
  return bytes;
}

inline uint64_t TestSeed() {
  const char* given = std::getenv("FOREBAY_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 20260117;
  std::cout << "FOREBAY_SEED=" << seed << "\n";
  return seed;
}

/// Of this process, those included that are open while one counts.
inline size_t OpenDescriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

/// How often an attack is repeated that takes a while: FOREBAY_ATTACKS for another number (docs/guest.md).
inline int Attacks(int usual) {
  const char* given = std::getenv("FOREBAY_ATTACKS");
  return given != nullptr ? std::atoi(given) : usual;
}

/// Holds a reactor's thread up, as SIGSTOP would, until Resume.
class Stopped {
 public:
  explicit Stopped(rt::Reactor& reactor) {
    std::promise<void> holding;
    auto held = holding.get_future();
    reactor.Post([holding = std::move(holding), until = resume_.get_future()]() mutable {
      holding.set_value();
      until.wait();
    });
    held.wait();
  }
  ~Stopped() { Resume(); }
  void Resume() {
    if (!resumed_) resume_.set_value();
    resumed_ = true;
  }

 private:
  std::promise<void> resume_;
  bool resumed_ = false;
};

class FabricTest : public testing::TestWithParam<FabricFactory> {
 protected:
  FabricTest()
      : fabric_(GetParam().make(random_)),
        initiator_(Thread("initiator")),
        owner_(Thread("owner")),
        arena_(*base::Arena::Create(32 * base::kMiB)) {}

  ~FabricTest() override {
    if (a_) Fence(*initiator_, a_);
    if (b_) Fence(*owner_, b_);
    if (listener_) {
      owner_->Run([&]() -> rt::Task<void> {
        co_await listener_->Close();
        listener_.reset();
      });
    }
    fabric_.reset();  // before the reactors, to which its threads post
  }

  std::unique_ptr<rt::ReactorThread> Thread(std::string name) {
    rt::ReactorOptions options;
    options.name = std::move(name);
    options.clock = &clock_;
    options.spin = base::Duration::zero();
    return *rt::ReactorThread::Create(std::move(options));
  }

  void Listen(EndpointOptions options = {}) {
    owner_->Run([&]() -> rt::Task<void> {
      auto listener = fabric_->Listen(owner_->reactor(), GetParam().address, options);
      EXPECT_TRUE(listener.ok()) << listener.status().ToString();
      if (listener.ok()) listener_ = *std::move(listener);
      co_return;
    });
  }

  Result<std::unique_ptr<Endpoint>> ConnectFrom(rt::ReactorThread& thread, EndpointOptions options = {},
                                                base::TimePoint deadline = kNever) {
    return thread.Run([&, address = listener_->address()] {
      return fabric_->Connect(thread.reactor(), address, options, deadline);
    });
  }

  Result<std::unique_ptr<Endpoint>> AcceptOn(rt::ReactorThread& home) {
    return owner_->Run([&] { return listener_->Accept(home.reactor()); });
  }

  /// Makes a_ on the initiator's thread and b_ on the owner's.
  void Connect(EndpointOptions a_options = {}, EndpointOptions b_options = {}) {
    Listen(b_options);
    auto connected = ConnectFrom(*initiator_, a_options);
    ASSERT_TRUE(connected.ok()) << connected.status().ToString();
    a_ = *std::move(connected);
    auto accepted = AcceptOn(*owner_);
    ASSERT_TRUE(accepted.ok()) << accepted.status().ToString();
    b_ = *std::move(accepted);
  }

  static void Fence(rt::ReactorThread& thread, std::unique_ptr<Endpoint>& endpoint,
                    Status reason = Status::Unavailable("the test is over")) {
    thread.Run([&]() -> rt::Task<void> {
      co_await endpoint->Fence(reason);
      endpoint.reset();
    });
  }

  /// Frozen, as what comes from a memory tier.
  base::Buffer BufferOf(ByteView bytes) {
    base::Buffer buffer = *arena_->Allocate(std::max<size_t>(bytes.size(), 1));
    std::copy(bytes.begin(), bytes.end(), buffer.writable().begin());
    buffer.Freeze();
    return buffer.Slice(0, bytes.size());
  }
  std::vector<base::Buffer> BuffersOf(ByteView bytes) { return {BufferOf(bytes)}; }

  Status Send(rt::ReactorThread& thread, Endpoint& from, Bytes message) {
    return thread.Run([&] { return from.Send(message); });
  }
  Result<Bytes> Receive(rt::ReactorThread& thread, Endpoint& at) {
    return thread.Run([&] { return at.Receive(); });
  }
  RegionToken Offer(MutableByteView memory, Direction direction, base::TimePoint expiry = kNever) {
    return owner_->Run([&]() -> rt::Task<RegionToken> {
      auto token = b_->Offer(memory, direction, expiry);
      EXPECT_TRUE(token.ok()) << token.status().ToString();
      co_return token.ok() ? *token : RegionToken{};
    });
  }
  Status Withdraw(RegionToken region) {
    return owner_->Run([&] { return b_->Withdraw(region); });
  }
  Status Write(RegionToken region, uint64_t offset, ByteView data, base::TimePoint deadline = kNever) {
    SyncWithOwner();
    const Status status = initiator_->Run([&] { return a_->Write(region, offset, BuffersOf(data), deadline); });
    SyncWithOwner();
    return status;
  }
  /// Between looks of the test's thread at memory and the owner's use of it: the thread sanitizer sees no order in a socket
  /// or in shared memory.
  void SyncWithOwner() {
    owner_->Run([]() -> rt::Task<void> { co_return; });
  }
  Status Read(RegionToken region, uint64_t offset, MutableByteView data, base::TimePoint deadline = kNever) {
    const Status status = initiator_->Run([&] { return a_->Read(region, offset, data, deadline); });
    SyncWithOwner();
    return status;
  }
  /// Waits until the initiator's transfers of this kind have come to so many bytes: the owner need not see them.
  void AwaitTransferred(uint64_t EndpointStats::* kind, uint64_t bytes) {
    while (StatsOf(*initiator_, *a_).*kind < bytes) std::this_thread::yield();
  }
  EndpointStats StatsOf(rt::ReactorThread& thread, Endpoint& endpoint) {
    return thread.Run([&]() -> rt::Task<EndpointStats> { co_return endpoint.stats(); });
  }
  /// Lets what is under way on both threads be seen: a message there and back.
  void RoundTrip() {
    EXPECT_TRUE(Send(*initiator_, *a_, Bytes(1)).ok());
    EXPECT_TRUE(Receive(*owner_, *b_).ok());
    EXPECT_TRUE(Send(*owner_, *b_, Bytes(1)).ok());
    EXPECT_TRUE(Receive(*initiator_, *a_).ok());
  }
  void Advance(base::Duration by) {
    clock_.Advance(by);
    initiator_->reactor().Poke();
    owner_->reactor().Poke();
  }

  base::FakeClock clock_;
  base::SecureRandom random_;
  std::unique_ptr<Fabric> fabric_;
  std::unique_ptr<rt::ReactorThread> initiator_;
  std::unique_ptr<rt::ReactorThread> owner_;
  std::unique_ptr<base::Arena> arena_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<Endpoint> a_;  // on initiator_
  std::unique_ptr<Endpoint> b_;  // on owner_
};

}  // namespace forebay::fabric
