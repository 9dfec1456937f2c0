// SPDX-License-Identifier: Apache-2.0
// After a call has returned, whatever the outcome, no byte of its buffer changes: neither with a server that
// is stopped in the middle and goes on later, nor over a thousand calls that end early at random.
#include <algorithm>
#include <cstdlib>
#include <future>
#include <thread>

#include "data_plane_suite.h"

namespace forebay {
namespace {

/// An emulated machine is slow; scripts/guest sets this.
const bool kEmulated = std::getenv("GUEST_HOSTS") != nullptr;

/// What a machine may be late for other reasons. One that is busy may be later than any slack, so a call that
/// was late is made again.
constexpr int kAttempts = 5;
const base::Duration kSlack = std::chrono::milliseconds(kEmulated ? 4000 : 500);

/// Holds a reactor's thread up, as SIGSTOP would, until destroyed.
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
  ~Stopped() { resume_.set_value(); }

 private:
  std::promise<void> resume_;
};

class CancelPlane : public DataPlaneSuite {
 protected:
  bool AllAre(ByteView bytes, std::byte value) {
    return std::ranges::all_of(bytes, [value](std::byte b) { return b == value; });
  }
  /// Whether it ended in time (N1). The memory is the caller's again, and says so.
  bool GetFromAServerStoppedAfter(base::Duration wait, Bytes& into) {
    constexpr base::Duration kTimeout = std::chrono::milliseconds(300);
    constexpr base::Duration kGrace = std::chrono::seconds(1);
    auto call = std::async(std::launch::async, [&] { return Get("a", into, {}, kTimeout); });
    std::this_thread::sleep_for(wait);
    const Stopped stopped(server_thread_->reactor());
    const base::TimePoint began = clock_.Now();
    const auto got = call.get();
    const base::Duration took = clock_.Now() - began;
    if (!got) {
      EXPECT_TRUE(got.error().code == Code::kDeadlineExceeded || got.error().code == Code::kUnavailable)
          << got.error().message;
    }
    std::ranges::fill(into, std::byte{0x5a});
    return took < kTimeout + kGrace + kSlack;
  }
  /// So that everything that was on its way has arrived: another get went through every connection.
  void Flush() {
    for (int i = 0; i < 4; ++i) {
      Bytes into(200'000);
      const auto got = Get("flush", into);
      ASSERT_TRUE(got) << got.error().message;
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Fabrics, CancelPlane, testing::ValuesIn(EachFabric()),
                         [](const auto& info) { return info.param.TestName(); });

TEST_P(CancelPlane, AServerStoppedInTheMiddleOfATransferWritesNothingLater) {
  ASSERT_TRUE(Stored("flush", Pattern(200'000, 5)));
  ASSERT_TRUE(Stored("a", Pattern(32 * base::kMiB, 1)));
  Bytes into(32 * base::kMiB);
  for (const int after_us : {0, 500, 2000}) {
    bool in_time = false;
    for (int attempt = 0; attempt < kAttempts && !in_time; ++attempt) {
      in_time = GetFromAServerStoppedAfter(std::chrono::microseconds(after_us), into);
      Flush();
      EXPECT_TRUE(AllAre(into, std::byte{0x5a})) << after_us;
    }
    EXPECT_TRUE(in_time) << after_us;
  }
}

TEST_P(CancelPlane, AServerStoppedInTheMiddleOfAPutReadsNothingLater) {
  ASSERT_TRUE(Stored("flush", Pattern(200'000, 5)));
  Bytes content = Pattern(32 * base::kMiB, 1);
  const Bytes before = content;
  const PutItem item{.bucket = "models", .key = "k", .region_offset = 0, .length = content.size()};
  const auto tickets = *client::TicketsFor({&item, 1}, content, random_);
  {
    const base::TimePoint deadline = In(std::chrono::milliseconds(200));
    auto call = client_thread_->Submit([&] {
      return pool_.With(deadline, false, [&](client::DataSession& session) {
        return client::PutItems(session, {&item, 1}, tickets, content, deadline);
      });
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const Stopped stopped(server_thread_->reactor());
    (void)call.get();
    std::ranges::fill(content,
                      std::byte{0x5a});  // the caller's again: the server must not take this for the content
  }
  Flush();
  Bytes into(before.size());
  const auto got = Get("k", into);
  if (got)
    EXPECT_TRUE(into == before);  // whole and old, or not at all
  else
    EXPECT_EQ(got.error().code, Code::kNotFound);
}

TEST_P(CancelPlane, AThousandCallsThatEndEarlyLeaveTheirBuffersAlone) {
  base::SeededRandom random(SuiteSeed());
  ASSERT_TRUE(Stored("flush", Pattern(200'000, 5)));
  const Bytes content = Pattern(2 * base::kMiB, 1);
  ASSERT_TRUE(Stored("a", content));
  constexpr size_t kWorkers = 8;
  const size_t rounds = kEmulated ? 25 : 125;
  constexpr uint64_t kShortestUs = 100;
  const uint64_t longest_allowed_us = kEmulated ? 500'000 : 30'000;
  std::vector<Bytes> memory(kWorkers, Bytes(content.size()));
  size_t early = 0;
  size_t changed = 0;
  size_t wrong = 0;
  client_thread_->Run([&]() -> rt::Task<void> {
    rt::Gate gate(client_thread_->reactor());
    for (size_t worker = 0; worker < kWorkers; ++worker) {
      client_thread_->reactor().Spawn(gate, [&, worker]() -> rt::Task<void> {
        Bytes& into = memory[worker];
        // Moves to where half of the calls end early, whatever the speed of this machine.
        uint64_t longest_us = longest_allowed_us;
        for (size_t round = 0; round < rounds; ++round) {
          const base::TimePoint deadline = In(std::chrono::microseconds(random.Below(longest_us)));
          const GetItem item{.bucket = "models", .key = "a", .region_offset = 0, .length = into.size()};
          const auto got = co_await pool_.With(deadline, false, [&](client::DataSession& session) {
            return client::GetItems(session, {&item, 1}, into, deadline);
          });
          if (got.ok() && got->front()) {
            wrong += into == content ? 0 : 1;
            longest_us = std::max<uint64_t>(longest_us * 9 / 10, kShortestUs);
            continue;
          }
          ++early;
          longest_us = std::min<uint64_t>(longest_us * 10 / 9, longest_allowed_us);
          std::ranges::fill(into, std::byte{0x5a});
          co_await client_thread_->reactor().Sleep(std::chrono::microseconds(random.Below(1000)));
          changed += AllAre(into, std::byte{0x5a}) ? 0 : 1;
        }
        std::ranges::fill(into, std::byte{0x5a});
      });
    }
    co_await gate.Close();
  });
  Flush();
  for (const Bytes& into : memory) changed += AllAre(into, std::byte{0x5a}) ? 0 : 1;
  EXPECT_EQ(changed, 0u);
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT(early, kWorkers * rounds / 10);  // otherwise this test has lost its subject
  std::cout << early << " of " << kWorkers * rounds << " calls ended early, " << sessions_opened_
            << " sessions\n";
}

}  // namespace
}  // namespace forebay
