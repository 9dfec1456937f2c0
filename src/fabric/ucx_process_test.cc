// SPDX-License-Identifier: Apache-2.0
// Peers that die or stop in a process of their own, at each edge of a transfer of several chunks, and what
// endpoints cost: nothing while idle.
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include <gtest/gtest.h>

#include "base/codec.h"
#include "fabric/fabric_fixture.h"
#include "fabric/ucx_fixture.h"

extern char** environ;

namespace forebay::fabric {
namespace {

constexpr size_t kChunkBytes = 64 * 1024;
constexpr uint64_t kChunks = 4;

class PeerProcess {
 public:
  PeerProcess(const std::string& address, uint64_t chunks, int signal) {
    const std::string program =
        std::filesystem::canonical("/proc/self/exe").parent_path() / "fabric_ucx_peer";
    std::vector<std::string> arguments = {program, address, std::to_string(chunks),
                                          std::to_string(kChunkBytes), std::to_string(signal)};
    std::vector<char*> pointers;
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    EXPECT_EQ(posix_spawn(&pid_, program.c_str(), nullptr, nullptr, pointers.data(), environ), 0) << program;
  }
  ~PeerProcess() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  /// Until it has stopped or ended; gives waitpid's status.
  int Wait() {
    int status = 0;
    EXPECT_EQ(waitpid(pid_, &status, WUNTRACED), pid_);
    if (!WIFSTOPPED(status)) pid_ = -1;
    return status;
  }
  void GoOn() { kill(pid_, SIGCONT); }

 private:
  pid_t pid_ = -1;
};

class UcxProcessTest : public FabricTest {
 protected:
  /// Accepts the process and tells it a region.
  RegionToken Serve() {
    b_ = *AcceptOn(*owner_);
    const RegionToken region = Offer(memory_, Direction::kPeerWrites);
    std::string message;
    base::Encoder encoder(&message);
    encoder.U64(region.key);
    encoder.U64(region.length);
    const ByteView bytes = AsBytes(message);
    EXPECT_TRUE(Send(*owner_, *b_, Bytes(bytes.begin(), bytes.end())).ok());
    return region;
  }
  void ExpectChunks(uint64_t count) {
    SyncWithOwner();
    const auto written = memory_.begin() + static_cast<ptrdiff_t>(count * kChunkBytes);
    EXPECT_TRUE(std::all_of(memory_.begin(), written, [](std::byte b) { return b == std::byte{0xAA}; }));
    // Of the two that were under way anything may be there; behind them nothing.
    const auto behind = written + 2 * kChunkBytes;
    EXPECT_TRUE(std::all_of(behind, memory_.end(), [](std::byte b) { return b == std::byte{0}; }));
  }
  void ExpectReclaimed() {
    SyncWithOwner();
    EXPECT_EQ(memory_, Bytes(memory_.size(), std::byte{0xEE}));
    std::ranges::fill(memory_, std::byte{0});
  }

  Bytes memory_ = Bytes((kChunks + 2) * kChunkBytes);
};

TEST_P(UcxProcessTest, PeerKilledAtEachChunkEdge) {
  Listen();
  for (uint64_t chunks = 0; chunks <= kChunks; ++chunks) {
    SCOPED_TRACE(chunks);
    PeerProcess peer(listener_->address(), chunks, SIGKILL);
    Serve();
    EXPECT_TRUE(WIFSIGNALED(peer.Wait()));
    // The kernel tells of it; no clock was moved.
    EXPECT_EQ(Receive(*owner_, *b_).status().code(), Code::kUnavailable);
    ExpectChunks(chunks);
    Fence(*owner_, b_);
    std::ranges::fill(memory_, std::byte{0xEE});
    ExpectReclaimed();
  }
}

TEST_P(UcxProcessTest, PeerStoppedAtEachChunkEdge) {
  Listen();
  for (uint64_t chunks = 0; chunks <= kChunks; ++chunks) {
    SCOPED_TRACE(chunks);
    PeerProcess peer(listener_->address(), chunks, SIGSTOP);
    const RegionToken region = Serve();
    EXPECT_TRUE(WIFSTOPPED(peer.Wait()));
    auto withdraw = owner_->Submit([&]() -> rt::Task<Status> {
      const Status status = co_await b_->Withdraw(region);
      std::ranges::fill(memory_, std::byte{0xEE});
      co_return status;
    });
    SyncWithOwner();
    Advance(seconds(1));  // a stopped peer does not answer
    EXPECT_TRUE(withdraw.get().ok());
    peer.GoOn();  // it writes on, and meets a dead registration
    EXPECT_EQ(Receive(*owner_, *b_).status().code(), Code::kUnavailable);
    EXPECT_TRUE(WIFEXITED(peer.Wait()));
    Fence(*owner_, b_);
    ExpectReclaimed();
  }
}

TEST_P(UcxProcessTest, IdleEndpointsUseNoProcessorTime) {
  Connect();
  RoundTrip();
  const auto used = [] {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  };
  // An emulated machine that waits for a core counts that as used, and what the round trip left to do may
  // take a while: one quiet second of several is enough, since endpoints that are not idle use all of them.
  auto least = std::chrono::nanoseconds::max();
  for (int i = 0; i < 5 && least >= milliseconds(10); ++i) {
    const auto before = used();
    std::this_thread::sleep_for(seconds(1));
    least = std::min<std::chrono::nanoseconds>(least, used() - before);
  }
  EXPECT_LT(least, milliseconds(10));
  RoundTrip();
}

INSTANTIATE_TEST_SUITE_P(Ucx, UcxProcessTest, testing::Values(UcxOverRc()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace forebay::fabric
