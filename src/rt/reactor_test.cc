// SPDX-License-Identifier: Apache-2.0
#include "rt/reactor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "rt/gate.h"
#include "rt/reactor_fixture.h"

namespace forebay::rt {
namespace {

/// A connected pair of stream sockets, or the two ends of a pipe; closed at the end.
class Pair {
 public:
  static Pair Sockets() {
    Pair pair;
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.fds_.data()), 0);
    return pair;
  }
  static Pair Pipe() {
    Pair pair;
    EXPECT_EQ(pipe2(pair.fds_.data(), O_CLOEXEC), 0);
    return pair;
  }
  Pair(Pair&& other) noexcept : fds_(std::exchange(other.fds_, {-1, -1})) {}
  Pair& operator=(Pair&&) = delete;
  ~Pair() {
    for (const int fd : fds_) {
      if (fd >= 0) close(fd);
    }
  }
  int first() const { return fds_[0]; }
  int second() const { return fds_[1]; }

 private:
  Pair() = default;
  std::array<int, 2> fds_{-1, -1};
};

int TemporaryFile() {
  std::string path = testing::TempDir() + "rt_reactor_XXXXXX";
  const int fd = mkostemp(path.data(), O_CLOEXEC);
  EXPECT_GE(fd, 0);
  unlink(path.c_str());
  return fd;
}

TEST_F(ReactorTest, MovesBytesThroughAPipe) {
  Pair pipe = Pair::Pipe();
  reactor().BlockOn([&]() -> Task<void> {
    Gate gate(reactor());
    std::array<char, 8> got{};
    reactor().Spawn(gate, [&]() -> Task<void> { EXPECT_EQ(co_await reactor().Read(pipe.first(), got.data(), 8, 0), 5); });
    co_await Settle();
    EXPECT_EQ(co_await reactor().Write(pipe.second(), "hello", 5, 0), 5);
    co_await gate.Close();
    EXPECT_EQ(std::string(got.data()), "hello");
  });
  EXPECT_EQ(reactor().operations_in_flight(), 0U);
}

TEST_F(ReactorTest, ReadsAndWritesAFileAtOffsets) {
  const int fd = TemporaryFile();
  reactor().BlockOn([&]() -> Task<void> {
    EXPECT_EQ(co_await reactor().Fallocate(fd, 0, 0, 8192), 0);
    EXPECT_EQ(lseek(fd, 0, SEEK_END), 8192);
    EXPECT_EQ(co_await reactor().Write(fd, "forebay", 7, 4096), 7);
    EXPECT_EQ(co_await reactor().Fsync(fd, true), 0);
    EXPECT_EQ(co_await reactor().Fsync(fd, false), 0);
    std::array<char, 7> whole{};
    EXPECT_EQ(co_await reactor().Read(fd, whole.data(), 7, 4096), 7);
    EXPECT_EQ(std::string(whole.data(), 7), "forebay");

    std::array<char, 4> left{};
    std::array<char, 3> right{};
    const std::array<iovec, 2> into{{{left.data(), left.size()}, {right.data(), right.size()}}};
    EXPECT_EQ(co_await reactor().Readv(fd, into.data(), into.size(), 4096), 7);
    EXPECT_EQ(std::string(left.data(), 4) + "|" + std::string(right.data(), 3), "fore|bay");

    std::array<char, 2> a{'x', 'y'};
    std::array<char, 1> b{'z'};
    const std::array<iovec, 2> from{{{a.data(), a.size()}, {b.data(), b.size()}}};
    EXPECT_EQ(co_await reactor().Writev(fd, from.data(), from.size(), 4097), 3);
    EXPECT_EQ(co_await reactor().Read(fd, whole.data(), 7, 4096), 7);
    EXPECT_EQ(std::string(whole.data(), 7), "fxyzbay");
    EXPECT_EQ(co_await reactor().Read(fd, whole.data(), 7, 1 << 20), 0) << "past the end";
  });
  close(fd);
}

TEST_F(ReactorTest, ReportsErrorsAsNegativeErrno) {
  reactor().BlockOn([&]() -> Task<void> {
    char byte = 0;
    EXPECT_EQ(co_await reactor().Read(-1, &byte, 1, 0), -EBADF);
    Pair pair = Pair::Sockets();
    shutdown(pair.first(), SHUT_WR);
    // No SIGPIPE: this process would be gone.
    EXPECT_EQ(co_await reactor().Send(pair.first(), &byte, 1, 0), -EPIPE);
  });
}

TEST_F(ReactorTest, PollsForEvents) {
  Pair pair = Pair::Sockets();
  reactor().BlockOn([&]() -> Task<void> {
    EXPECT_EQ(co_await reactor().Poll(pair.first(), POLLOUT), POLLOUT);
    Gate gate(reactor());
    reactor().Spawn(gate, [&]() -> Task<void> { EXPECT_EQ(co_await reactor().Poll(pair.first(), POLLIN), POLLIN); });
    co_await Settle();
    EXPECT_EQ(co_await reactor().Send(pair.second(), "x", 1, 0), 1);
    co_await gate.Close();
  });
}

// The safety that cancelling rests on: once the awaiting coroutine goes on, nobody writes to its buffer any more.
TEST_F(ReactorTest, ACancelledReceiveLeavesItsBufferAlone) {
  Pair pair = Pair::Sockets();
  reactor().BlockOn([&]() -> Task<void> {
    Gate gate(reactor());
    CancelToken token;
    std::vector<char> buffer(64, '#');
    int result = 0;
    reactor().Spawn(gate, [&]() -> Task<void> {
      result = co_await reactor().Recv(pair.first(), buffer.data(), buffer.size(), 0, {.token = &token});
    });
    co_await Settle();
    EXPECT_EQ(reactor().operations_in_flight(), 1U);
    token.Cancel();
    EXPECT_EQ(result, 0) << "Cancel itself does not resume anybody";
    co_await gate.Close();
    EXPECT_EQ(result, -ECANCELED);
    EXPECT_EQ(co_await reactor().Send(pair.second(), "late bytes", 10, 0), 10);
    co_await Settle();
    EXPECT_EQ(std::string(buffer.data(), buffer.size()), std::string(64, '#'));
    EXPECT_EQ(co_await reactor().Recv(pair.first(), buffer.data(), buffer.size(), 0, {.token = &token}), -ECANCELED)
        << "a cancelled token stays so";
    EXPECT_EQ(co_await reactor().Recv(pair.first(), buffer.data(), buffer.size(), 0), 10) << "the bytes are not lost";
  });
}

TEST_F(ReactorTest, AnOperationThatWasDoneBeforeTheCancelGivesItsResult) {
  Pair pair = Pair::Sockets();
  ASSERT_EQ(send(pair.second(), "abc", 3, 0), 3);
  reactor().BlockOn([&]() -> Task<void> {
    Gate gate(reactor());
    CancelToken token;
    std::array<char, 3> buffer{};
    int result = 0;
    reactor().Spawn(gate, [&]() -> Task<void> {
      result = co_await reactor().Recv(pair.first(), buffer.data(), buffer.size(), 0, {.token = &token});
    });
    reactor().Spawn(gate, [&]() -> Task<void> {  // runs in the same turn, before the request goes to the kernel
      token.Cancel();
      co_return;
    });
    co_await gate.Close();
    EXPECT_EQ(result, 3);
  });
}

TEST_F(ReactorTest, AnOperationEndsAtItsDeadline) {
  Pair pair = Pair::Sockets();
  reactor().BlockOn([&]() -> Task<void> {
    Gate gate(reactor());
    char byte = 0;
    int result = 0;
    reactor().Spawn(gate, [&]() -> Task<void> {
      result = co_await reactor().Recv(pair.first(), &byte, 1, 0, {.deadline = In(5ms)});
    });
    co_await Settle();
    co_await Advance(4ms);
    EXPECT_EQ(result, 0);
    clock_.Advance(1ms);
    co_await gate.Close();
    EXPECT_EQ(result, -ETIMEDOUT);
    EXPECT_EQ(co_await reactor().Recv(pair.first(), &byte, 1, 0, {.deadline = clock_.Now()}), -ETIMEDOUT);
    EXPECT_EQ(co_await reactor().Send(pair.second(), "x", 1, 0, {.deadline = In(5ms)}), 1);
    EXPECT_TRUE(reactor().timers().empty()) << "the timer goes with its operation";
  });
}

TEST_F(ReactorTest, OneTokenStopsManyOperationsAndChildTokensWithThem) {
  constexpr int kOperations = 20;
  Pair pair = Pair::Sockets();
  reactor().BlockOn([&]() -> Task<void> {
    Gate gate(reactor());
    CancelToken parent;
    CancelToken child(&parent);
    char byte = 0;
    int cancelled = 0;
    for (int i = 0; i < kOperations; ++i) {
      CancelToken* token = i % 2 == 0 ? &parent : &child;
      reactor().Spawn(gate, [&, token]() -> Task<void> {
        if (co_await reactor().Recv(pair.first(), &byte, 1, 0, {.token = token}) == -ECANCELED) ++cancelled;
      });
    }
    co_await Settle();
    parent.Cancel();
    co_await gate.Close();
    EXPECT_EQ(cancelled, kOperations);
    EXPECT_TRUE(child.cancelled());
  });
}

class SmallRingTest : public ReactorTest {
 protected:
  void SetUp() override { Start({.name = "small", .entries = 4, .clock = &clock_}); }
};

/// Writes `count` numbers to a file at once; true when each arrived.
bool AllWritesArrive(Reactor& reactor, uint32_t count) {
  const int fd = TemporaryFile();
  std::vector<uint32_t> values(count);
  std::iota(values.begin(), values.end(), 0U);
  reactor.BlockOn([&]() -> Task<void> {
    Gate gate(reactor);
    for (uint32_t i = 0; i < count; ++i) {
      reactor.Spawn(gate, [&, i]() -> Task<void> { EXPECT_EQ(co_await reactor.Write(fd, &values[i], 4, uint64_t{i} * 4), 4); });
    }
    co_await gate.Close();
  });
  std::vector<uint32_t> back(count);
  EXPECT_EQ(pread(fd, back.data(), back.size() * 4, 0), static_cast<ssize_t>(back.size() * 4));
  close(fd);
  return back == values;
}

/// Starts `count` receives that never end and cancels them after `turns` of the loop; true when each ended with -ECANCELED.
bool AllCancelsArrive(Reactor& reactor, size_t count, size_t turns) {
  Pair pair = Pair::Sockets();
  std::vector<char> bytes(count);
  size_t cancelled = 0;
  reactor.BlockOn([&]() -> Task<void> {
    Gate gate(reactor);
    CancelToken token;
    for (char& byte : bytes) {
      reactor.Spawn(gate, [&, at = &byte]() -> Task<void> {
        if (co_await reactor.Recv(pair.first(), at, 1, 0, {.token = &token}) == -ECANCELED) ++cancelled;
      });
    }
    for (size_t i = 0; i < turns; ++i) co_await reactor.Yield();
    token.Cancel();
    co_await gate.Close();
  });
  return cancelled == count && reactor.operations_in_flight() == 0;
}

/// Receives that get their byte while their cancel requests still wait for room; true when each ended one way or the other.
bool BytesMayOvertakeCancels(Reactor& reactor, size_t count, size_t turns) {
  Pair pair = Pair::Sockets();
  std::vector<char> bytes(count);
  size_t received = 0;
  size_t cancelled = 0;
  reactor.BlockOn([&]() -> Task<void> {
    Gate gate(reactor);
    CancelToken token;
    for (char& byte : bytes) {
      reactor.Spawn(gate, [&, at = &byte]() -> Task<void> {
        const int result = co_await reactor.Recv(pair.first(), at, 1, 0, {.token = &token});
        if (result == 1) ++received;
        if (result == -ECANCELED) ++cancelled;
      });
    }
    for (size_t i = 0; i < turns; ++i) co_await reactor.Yield();
    EXPECT_EQ(send(pair.second(), bytes.data(), count, 0), static_cast<ssize_t>(count));
    token.Cancel();
    co_await gate.Close();
  });
  return received > 0 && received + cancelled == count && reactor.operations_in_flight() == 0;
}

/// Receives that fill the ring, and behind them the send that they wait for; true when all end.
bool TheLastOneReleasesTheOthers(Reactor& reactor) {
  constexpr size_t kReceives = 9;
  Pair pair = Pair::Sockets();
  std::array<char, kReceives> bytes{};
  reactor.BlockOn([&]() -> Task<void> {
    Gate gate(reactor);
    for (char& byte : bytes) {
      reactor.Spawn(gate, [&, at = &byte]() -> Task<void> { EXPECT_EQ(co_await reactor.Recv(pair.first(), at, 1, 0), 1); });
    }
    reactor.Spawn(gate, [&]() -> Task<void> { EXPECT_EQ(co_await reactor.Send(pair.second(), "123456789", 9, 0), 9); });
    co_await gate.Close();
  });
  std::sort(bytes.begin(), bytes.end());
  return std::string(bytes.data(), bytes.size()) == "123456789";
}

TEST_F(SmallRingTest, LosesNoOperationBeyondItsEntries) { EXPECT_TRUE(AllWritesArrive(reactor(), 1000)); }

// More than the 4096 completions that the ring holds, too.
TEST_F(SmallRingTest, CancelsMoreOperationsThanItHasEntries) { EXPECT_TRUE(AllCancelsArrive(reactor(), 6000, 6000)); }

/// System call number `nr` answers `error`; with `flags_argument`, only when that argument is zero.
void RefuseSystemCall(uint32_t nr, uint32_t error, std::optional<uint32_t> flags_argument = std::nullopt) {
  const uint32_t flags = flags_argument ? offsetof(seccomp_data, args) + *flags_argument * sizeof(uint64_t) : 0;
  std::array<sock_filter, 6> program{{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, flags),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, flags_argument ? 0 : nr, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog filter{program.size(), program.data()};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) _exit(2);
}

using SmallRingDeathTest = SmallRingTest;

// A kernel that is out of memory takes no requests for a while. Here: none while coroutines run (flags 0), only when the
// loop enters it to collect completions; so everything beyond four requests has to wait in the backlog.
TEST_F(SmallRingDeathTest, LosesNothingWhileTheKernelTakesNoRequests) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        RefuseSystemCall(__NR_io_uring_enter, EAGAIN, 3);
        const bool right = AllWritesArrive(reactor(), 1000) && TheLastOneReleasesTheOthers(reactor()) &&
                           AllCancelsArrive(reactor(), 300, 1) && AllCancelsArrive(reactor(), 300, 300) &&
                           BytesMayOvertakeCancels(reactor(), 300, 300);
        _exit(right && !HasFailure() ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(ReactorTest, PostFromFourThreadsLosesNothingAndKeepsEachThreadsOrder) {
  constexpr int kThreads = 4;
  constexpr int kPosts = 5000;
  std::array<int, kThreads> next{};
  int misordered = 0;
  int total = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kPosts; ++i) {
        reactor().Post([&, t, i] {
          if (next[static_cast<size_t>(t)]++ != i) ++misordered;
          if (++total == kThreads * kPosts) reactor().Stop();
        });
        if (i % 100 == 0) std::this_thread::yield();  // so that the loop gets to sleep now and then
      }
    });
  }
  reactor().Run();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(total, kThreads * kPosts);
  EXPECT_EQ(misordered, 0);
}

// Each post finds the loop asleep or about to sleep: one lost wake-up and this hangs.
TEST_F(ReactorTest, PostWakesALoopThatIsGoingToSleep) {
  constexpr int kRounds = 5000;
  auto sleepy = Reactor::Create({.name = "sleepy", .spin = Duration::zero()}).value();
  std::atomic<int> answered{0};
  std::thread other([&] {
    for (int i = 0; i < kRounds; ++i) {
      sleepy->Post([&] { answered.fetch_add(1); });
      while (answered.load() <= i) {
      }
    }
    sleepy->Stop();
  });
  sleepy->Run();
  other.join();
  EXPECT_EQ(answered.load(), kRounds);
}

TEST_F(ReactorTest, StopBeforeRunMakesRunReturn) {
  reactor().Stop();
  reactor().Run();
  // And the next Run runs again.
  bool ran = false;
  reactor().Post([&] {
    ran = true;
    reactor().Stop();
  });
  reactor().Run();
  EXPECT_TRUE(ran);
}

TEST_F(ReactorTest, WhatIsPostedAfterTheLastRunIsDestroyedUnrun) {
  auto held = std::make_shared<int>(1);
  bool ran = false;
  reactor().Post([held, &ran] { ran = true; });
  EXPECT_EQ(held.use_count(), 2);
  reactor_.reset();
  EXPECT_EQ(held.use_count(), 1);
  EXPECT_FALSE(ran);
}

TEST_F(ReactorTest, KnowsWhetherTheCallerIsInside) {
  EXPECT_FALSE(reactor().InReactor());
  reactor().BlockOn([&]() -> Task<void> {
    EXPECT_TRUE(reactor().InReactor());
    co_return;
  });
  EXPECT_FALSE(reactor().InReactor());
}

// An idle loop sleeps in the kernel: it enters once for the wait and not again.
TEST_F(ReactorTest, DoesNotSpinWhenIdle) {
  auto real = Reactor::Create().value();
  real->BlockOn([&]() -> Task<void> {
    co_await real->Yield();
    const uint64_t before = real->kernel_entries();
    co_await real->Sleep(20ms);
    EXPECT_LE(real->kernel_entries() - before, 3U);
  });
}

TEST_F(ReactorTest, RunsOnTheCoreItIsPinnedTo) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  int cpu = 0;
  while (!CPU_ISSET(cpu, &allowed)) ++cpu;
  std::thread([cpu] {  // pinning stays with the thread
    auto pinned = Reactor::Create({.name = "pinned", .cpu = cpu}).value();
    pinned->BlockOn([cpu]() -> Task<void> {
      EXPECT_EQ(sched_getcpu(), cpu);
      co_return;
    });
  }).join();
}

TEST_F(ReactorTest, RefusesACoreItMayNotUse) {
  const auto refused = Reactor::Create({.name = "nowhere", .cpu = 1 << 20});
  EXPECT_EQ(refused.status().code(), Code::kInvalidArgument);
  EXPECT_NE(refused.status().ToString().find("core 1048576"), std::string::npos) << refused.status().ToString();
  EXPECT_EQ(Reactor::Create({.name = "empty", .entries = 0}).status().code(), Code::kInvalidArgument);
}

using ReactorDeathTest = ReactorTest;

// What a container without io_uring does: io_uring_setup answers EPERM.
void CreateUnderSeccomp() {
  RefuseSystemCall(__NR_io_uring_setup, EPERM);
  const Status status = Reactor::Create().status();
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  _exit(status.code() == Code::kFailedPrecondition ? 0 : 1);
}

TEST_F(ReactorDeathTest, ARefusedRingNamesTheWayOut) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(CreateUnderSeccomp(), testing::ExitedWithCode(0), "io_uring is forbidden here.*seccomp");
}

TEST_F(ReactorDeathTest, DestroyingItWithAnOperationInFlightIsCaught) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        Pair pair = Pair::Sockets();
        auto gate = std::make_unique<Gate>(reactor());
        char byte = 0;
        reactor().Spawn(*gate, [&]() -> Task<void> { co_await reactor().Recv(pair.first(), &byte, 1, 0); });
        reactor().BlockOn(Settle());
        reactor_.reset();
      },
      "check failed: in_flight_ == 0");
}

}  // namespace
}  // namespace forebay::rt
