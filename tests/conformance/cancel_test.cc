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

/// What a machine may be late for other reasons; an emulated one (scripts/guest sets GUEST_HOSTS) is slow.
const base::Duration kSlack = std::chrono::milliseconds(std::getenv("GUEST_HOSTS") != nullptr ? 4000 : 500);

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
  ASSERT_TRUE(Put("flush", Pattern(200'000, 5)));
  ASSERT_TRUE(Put("a", Pattern(32 * base::kMiB, 1)));
  Bytes into(32 * base::kMiB);
  for (const int after_us : {0, 500, 2000}) {
    base::TimePoint began;
    {
      auto call =
          std::async(std::launch::async, [&] { return Get("a", into, {}, std::chrono::milliseconds(300)); });
      std::this_thread::sleep_for(std::chrono::microseconds(after_us));
      const Stopped stopped(server_thread_->reactor());
      began = clock_.Now();
      const auto got = call.get();
      if (!got) {
        EXPECT_TRUE(got.error().code == Code::kDeadlineExceeded || got.error().code == Code::kUnavailable)
            << got.error().message;
      }
      EXPECT_LT(clock_.Now() - began, std::chrono::milliseconds(300 + 1000) + kSlack);  // N1
      std::ranges::fill(into, std::byte{0x5a});
    }
    Flush();
    EXPECT_TRUE(AllAre(into, std::byte{0x5a})) << after_us;
  }
}

TEST_P(CancelPlane, AServerStoppedInTheMiddleOfAPutReadsNothingLater) {
  ASSERT_TRUE(Put("flush", Pattern(200'000, 5)));
  Bytes content = Pattern(32 * base::kMiB, 1);
  const Bytes before = content;
  const PutItem item{.bucket = "models", .key = "k", .region_offset = 0, .length = content.size()};
  const auto tickets = *client::TicketsFor({&item, 1}, content, ids_);
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
  ASSERT_TRUE(Put("flush", Pattern(200'000, 5)));
  const Bytes content = Pattern(2 * base::kMiB, 1);
  ASSERT_TRUE(Put("a", content));
  constexpr size_t kWorkers = 8;
  constexpr size_t kRounds = 125;
  std::vector<Bytes> memory(kWorkers, Bytes(content.size()));
  size_t early = 0;
  size_t changed = 0;
  size_t wrong = 0;
  client_thread_->Run([&]() -> rt::Task<void> {
    rt::Gate gate(client_thread_->reactor());
    for (size_t worker = 0; worker < kWorkers; ++worker) {
      client_thread_->reactor().Spawn(gate, [&, worker]() -> rt::Task<void> {
        Bytes& into = memory[worker];
        for (size_t round = 0; round < kRounds; ++round) {
          const base::TimePoint deadline = In(std::chrono::microseconds(random.Below(30'000)));
          const GetItem item{.bucket = "models", .key = "a", .region_offset = 0, .length = into.size()};
          const auto got = co_await pool_.With(deadline, false, [&](client::DataSession& session) {
            return client::GetItems(session, {&item, 1}, into, deadline);
          });
          if (got.ok() && got->front()) {
            wrong += into == content ? 0 : 1;
            continue;
          }
          ++early;
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
  EXPECT_GT(early, kWorkers * kRounds / 10);  // otherwise the deadlines were too generous for this machine
  std::cout << early << " of " << kWorkers * kRounds << " calls ended early, " << sessions_opened_
            << " sessions\n";
}

}  // namespace
}  // namespace forebay
