// SPDX-License-Identifier: Apache-2.0
// Peers that die or stop in a process of their own, at each edge of a transfer of several chunks, and what an
// endpoint costs: nothing while idle, nothing once it is gone.
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <thread>

#include <gtest/gtest.h>

#include "base/codec.h"
#include "fabric/ofi_fixture.h"
#include "fabric/ofi_limits.h"

extern char** environ;

namespace forebay::fabric {
namespace {

constexpr size_t kChunkBytes = 64 * 1024;
constexpr uint64_t kChunks = 6;

std::string PeerProgram() {
  return std::filesystem::canonical("/proc/self/exe").parent_path() / "fabric_ofi_peer";
}

class PeerProcess {
 public:
  PeerProcess(const std::string& provider, const std::string& address, uint64_t chunks, int signal) {
    const std::string program = PeerProgram();
    std::vector<std::string> arguments = {program,
                                          provider,
                                          address,
                                          std::to_string(chunks),
                                          std::to_string(kChunkBytes),
                                          std::to_string(signal)};
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
  /// Until it has stopped, been killed or exited; gives waitpid's status.
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

class OfiProcessTest : public FabricTest {
 protected:
  /// Accepts the process and tells it a region for kChunks + 2 chunks.
  RegionToken Serve() {
    b_ = *AcceptOn(*owner_);
    const RegionToken region = Offer(memory_, Direction::kPeerWrites);
    std::string message;
    base::Encoder encoder(&message);
    encoder.U64(region.key);
    encoder.U64(region.length);
    EXPECT_TRUE(Send(*owner_, *b_, Bytes(AsBytes(message).begin(), AsBytes(message).end())).ok());
    return region;
  }
  void ExpectChunks(uint64_t count) {
    SyncWithOwner();
    for (size_t at = 0; at < count * kChunkBytes; ++at) ASSERT_EQ(memory_[at], std::byte{0xAA}) << at;
    // Of the two that were begun, anything may be there; behind them nothing.
    for (size_t at = (count + 2) * kChunkBytes; at < memory_.size(); ++at)
      ASSERT_EQ(memory_[at], std::byte{0}) << at;
  }
  void Reclaim() { std::fill(memory_.begin(), memory_.end(), std::byte{0xEE}); }
  void ExpectReclaimed() {
    SyncWithOwner();
    EXPECT_EQ(memory_, Bytes(memory_.size(), std::byte{0xEE}));
    std::fill(memory_.begin(), memory_.end(), std::byte{0});
  }

  Bytes memory_ = Bytes((kChunks + 2) * kChunkBytes);
};

TEST_P(OfiProcessTest, PeerKilledAtEachChunkEdge) {
  Listen();
  for (uint64_t chunks = 0; chunks <= kChunks; ++chunks) {
    SCOPED_TRACE(chunks);
    PeerProcess peer(GetParam().name, listener_->address(), chunks, SIGKILL);
    Serve();
    EXPECT_TRUE(WIFSIGNALED(peer.Wait()));
    // The kernel says that it is gone; no clock was moved.
    EXPECT_EQ(Receive(*owner_, *b_).status().code(), Code::kUnavailable);
    ExpectChunks(chunks);
    Reclaim();
    Fence(*owner_, b_);
    ExpectReclaimed();
  }
}

TEST_P(OfiProcessTest, PeerStoppedAtEachChunkEdge) {
  Listen();
  for (uint64_t chunks = 0; chunks <= kChunks; ++chunks) {
    SCOPED_TRACE(chunks);
    PeerProcess peer(GetParam().name, listener_->address(), chunks, SIGSTOP);
    const RegionToken region = Serve();
    EXPECT_TRUE(WIFSTOPPED(peer.Wait()));
    auto withdraw = owner_->Submit([&]() -> rt::Task<Status> {
      Status status = co_await b_->Withdraw(region);
      Reclaim();
      co_return status;
    });
    owner_->Run([]() -> rt::Task<void> { co_return; });
    Advance(kWithdrawPatience);
    EXPECT_TRUE(withdraw.get().ok());
    EXPECT_EQ(Receive(*owner_, *b_).status().code(), Code::kUnavailable);
    peer.GoOn();
    const int status = peer.Wait();
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    ExpectReclaimed();
    Fence(*owner_, b_);
  }
}

TEST_P(OfiProcessTest, StoppedPeerIsGivenUp) {
  Listen();
  PeerProcess peer(GetParam().name, listener_->address(), 1, SIGSTOP);
  Serve();
  EXPECT_TRUE(WIFSTOPPED(peer.Wait()));
  EXPECT_TRUE(Send(*owner_, *b_, Bytes(1)).ok());
  for (int half_second = 0; half_second < 10; ++half_second) {
    Advance(milliseconds(500));
    owner_->Run([]() -> rt::Task<void> { co_return; });
  }
  EXPECT_EQ(Receive(*owner_, *b_).status().code(), Code::kUnavailable);
}

TEST_P(OfiProcessTest, TooLittleLockedMemoryIsSaidWithTheWayOut) {
  if (GetParam().name != "verbs") GTEST_SKIP() << "sockets need no locked memory";
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to become somebody whose locked memory is limited";
  Listen();
  const std::string command = "prlimit --memlock=65536 setpriv --reuid=65534 --clear-groups " +
                              PeerProgram() + " verbs " + listener_->address() + " 0 4096 9 2>&1";
  FILE* const output = popen(command.c_str(), "r");
  ASSERT_NE(output, nullptr);
  std::string said(4096, '\0');
  said.resize(fread(said.data(), 1, said.size(), output));
  EXPECT_NE(pclose(output), 0);
  EXPECT_NE(said.find("RESOURCE_EXHAUSTED"), std::string::npos) << said;
  EXPECT_NE(said.find("ulimit -l"), std::string::npos) << said;
}

TEST_P(OfiProcessTest, IdleEndpointsSleep) {
  Connect();
  Bytes memory(100);
  EXPECT_TRUE(Write(Offer(memory, Direction::kPeerWrites), 0, Bytes(100)).ok());
  RoundTrip();
  // What is still on its way settles; then only our own looks wake the reactors, a few times each. There is
  // no event to wait for when the claim is that none comes.
  std::this_thread::sleep_for(milliseconds(50));
  const auto entries = [&] {
    uint64_t sum = 0;
    for (rt::ReactorThread* thread : {initiator_.get(), owner_.get()}) {
      sum += thread->Run([thread]() -> rt::Task<uint64_t> { co_return thread->reactor().kernel_entries(); });
    }
    return sum;
  };
  const uint64_t before = entries();
  std::this_thread::sleep_for(milliseconds(200));
  EXPECT_LE(entries() - before, 16u);
}

INSTANTIATE_TEST_SUITE_P(Ofi, OfiProcessTest, testing::ValuesIn(OfiFactories()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace forebay::fabric
