// SPDX-License-Identifier: Apache-2.0
// Hostile peers in shared memory: the suite of all streams, and what only a neighbour can do: lie in the
// hello, send odd descriptors, write to the rings at any time, die at any time.
#include <fcntl.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/wait.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>

#include "fabric/shm_fabric.h"
#include "fabric/shm_fixture.h"
#include "fabric/stream_listener.h"

namespace forebay::fabric {
std::unique_ptr<RawStream> DialRaw(const std::string& address) { return RawShm::Dial(address); }
std::unique_ptr<RawListener> ListenRaw() { return std::make_unique<RawShmListener>(); }

namespace {

size_t SharedMappings() {
  std::ifstream maps("/proc/self/maps");
  size_t count = 0;
  for (std::string line; std::getline(maps, line);)
    count += line.find("forebay-shm") != std::string::npos ? 1 : 0;
  return count;
}

/// Keeps writing more than a ring holds until the connection ends; a refusal is no end.
rt::Task<Status> WriteUntilGone(Endpoint& from, base::Buffer data) {
  while (true) {
    std::vector<rt::Task<Status>> writes;
    for (int i = 0; i < 4; ++i)
      writes.push_back(from.Write({.key = 5, .length = data.size()}, 0, {data}, kNever));
    for (const Status& status : co_await rt::WhenAll(std::move(writes))) {
      if (!status.ok() && status.code() != Code::kPermissionDenied) co_return status;
    }
  }
}

class ShmHostileTest : public StreamHostileTest {
 protected:
  std::unique_ptr<RawShm> Dial() { return RawShm::Dial(listener_->address()); }
  std::unique_ptr<RawShm> GreetedAttacker() {
    auto peer = Dial();
    EXPECT_TRUE(peer->Greet(Role::kConnector));
    AcceptVictim();
    return peer;
  }
  /// The listener hangs up without a word.
  static void ExpectTurnedAway(RawShm& peer) {
    Bytes answer(1);
    EXPECT_FALSE(peer.ReadExactly(answer));
  }
};

// ---- the hello ----

TEST_P(ShmHostileTest, StrangersAreTurnedAway) {
  ShmHelloBytes broken = EncodeShmHello(RawHello(Role::kConnector));
  broken[39] ^= std::byte{1};
  ShmHello odd_ring = RawHello(Role::kConnector);
  odd_ring.ring_bytes = 5000;
  const ShmHelloBytes hellos[] = {broken, EncodeShmHello(odd_ring), EncodeShmHello(RawHello(Role::kListener)),
                                  ShmHelloBytes{}};
  for (const ShmHelloBytes& hello : hellos) {
    auto peer = Dial();
    const int memory = peer->memory_fd();
    EXPECT_TRUE(SendWithDescriptors(peer->fd(), hello, {&memory, 1}));
    ExpectTurnedAway(*peer);
  }
  ServeGoodPeer();
}

TEST_P(ShmHostileTest, AnotherVersionGetsOurHelloAndNoMore) {
  ShmHello hello = RawHello(Role::kConnector);
  hello.version = 9;
  auto peer = Dial();
  const int memory = peer->memory_fd();
  EXPECT_TRUE(SendWithDescriptors(peer->fd(), EncodeShmHello(hello), {&memory, 1}));
  EXPECT_TRUE(peer->ReceiveHello(Role::kListener));
  ExpectTurnedAway(*peer);
  ServeGoodPeer();
}

TEST_P(ShmHostileTest, OddDescriptorsAreRefusedAndNoneStaysOpen) {
  const size_t before = OpenDescriptors();
  {
    const ShmHelloBytes hello = EncodeShmHello(RawHello(Role::kConnector));
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const Socket pipe_read(ends[0]), pipe_write(ends[1]), event(eventfd(0, 0)),
        zero(open("/dev/zero", O_RDWR));
    const Socket unsealed(memfd_create("t", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    ASSERT_EQ(ftruncate(unsealed.fd(), kRawMemoryBytes), 0);
    const Socket shrinkable(memfd_create("t", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    ASSERT_EQ(ftruncate(shrinkable.fd(), kRawMemoryBytes), 0);
    ASSERT_EQ(fcntl(shrinkable.fd(), F_ADD_SEALS, F_SEAL_GROW | F_SEAL_FUTURE_WRITE), 0);
    const ShmMemory small = *CreateShm(kRawMemoryBytes / 2), good = *CreateShm(kRawMemoryBytes);
    const int g = good.descriptor.fd();
    const std::vector<std::vector<int>> offers = {{},
                                                  {pipe_read.fd()},
                                                  {event.fd()},
                                                  {zero.fd()},
                                                  {unsealed.fd()},
                                                  {shrinkable.fd()},
                                                  {small.descriptor.fd()},
                                                  {g, g},
                                                  {g, g, g, g, g, g, g, g, g, g}};
    for (const std::vector<int>& offer : offers) {
      SCOPED_TRACE(offer.size());
      auto peer = Dial();
      EXPECT_TRUE(SendWithDescriptors(peer->fd(), hello, offer));
      // One that is refused only when it is mapped gets our hello first.
      Bytes byte(1);
      while (peer->ReadExactly(byte)) {
      }
    }
    ServeGoodPeer();
  }
  EXPECT_EQ(OpenDescriptors(), before);
}

TEST_P(ShmHostileTest, SilentConnectionsNeitherHoldUpOthersNorStay) {
  std::vector<std::unique_ptr<RawShm>> silent;
  for (size_t i = 0; i < StreamListener::kMaxWaiting + 50; ++i) {
    silent.push_back(Dial());
    silent.back()->Send(Bytes(1, std::byte{0x46}));
  }
  ServeGoodPeer();
  Advance(kOptions.dead_after);
  for (auto& peer : silent) ExpectTurnedAway(*peer);
  ServeGoodPeer();
}

// ---- the rings ----

TEST_P(ShmHostileTest, ImpossiblePositionsAreFenced) {
  const std::function<void(ShmControl&)> lies[] = {
      [](ShmControl& own) { own.written = kRawRingBytes + 1; },
      [](ShmControl& own) { own.written = UINT64_MAX; },
      [](ShmControl& own) { own.taken = UINT64_MAX; },
      [](ShmControl& own) { own.taken = uint64_t{1} << 40; },
  };
  for (const auto& lie : lies) {
    auto peer = GreetedAttacker();
    Offer(memory_, Direction::kPeerWrites);
    lie(peer->control());
    peer->Ring();
    // A send of the victim's looks at what was taken.
    (void)Send(*owner_, *b_, Bytes(100));
    const Status ended = ReceiveToEnd();
    EXPECT_NE(ended.message().find("broke the protocol"), std::string_view::npos) << ended.ToString();
    EndVictim();
  }
  EXPECT_EQ(memory_, before_);
  ServeGoodPeer();
}

TEST_P(ShmHostileTest, PeerCannotWriteToOurMemory) {
  auto peer = GreetedAttacker();
  const ByteView ours = peer->peer_memory();
  EXPECT_NE(mprotect(const_cast<std::byte*>(ours.data()), ours.size(), PROT_READ | PROT_WRITE), 0);
  EXPECT_EQ(errno, EACCES);
}

TEST_P(ShmHostileTest, RingsWithoutBytesAndDescriptorsWithRingsDoNothing) {
  auto peer = GreetedAttacker();
  const size_t before = OpenDescriptors();
  const int memory = peer->memory_fd();
  for (int i = 0; i < 1000; ++i) {
    peer->Ring();
    EXPECT_TRUE(SendWithDescriptors(peer->fd(), Bytes(1), {&memory, 1}));
  }
  EXPECT_TRUE(peer->SendFrame({.type = FrameType::kMessage, .length = 2}, Bytes(2)));
  EXPECT_EQ(Receive(*owner_, *b_)->size(), 2u);
  EXPECT_EQ(OpenDescriptors(), before);
  ServeGoodPeer();
}

// A neighbour's thread writes at random over everything that it may write to, while the victim sends, writes
// and is offered memory. The victim's connection may end; nothing else may happen.
TEST_P(ShmHostileTest, ScribblingOverTheRingsHarmsNobodyElse) {
  base::SeededRandom random(TestSeed());
  Bytes guarded = Pattern(3 * 4096, 1);
  const Bytes readable = Pattern(4096, 2);
  const base::Buffer block = BufferOf(Bytes(base::kMiB, std::byte{7}));
  const auto end = std::chrono::steady_clock::now() + seconds(3);
  int rounds = 0;
  while (std::chrono::steady_clock::now() < end) {
    ++rounds;
    auto peer = GreetedAttacker();
    const RegionToken region = Offer(MutableByteView(guarded).subspan(4096, 4096), Direction::kPeerWrites);
    Bytes offered = readable;
    Offer(offered, Direction::kPeerReads);
    auto victim = owner_->Submit([&, block] { return WriteUntilGone(*b_, block); });
    // A rightful frame, so that there is something under way when it begins.
    peer->SendFrame(WriteOf(region.key, 0, 4096), Bytes(2048, std::byte{9}));
    std::atomic<uint64_t>* words[] = {&peer->control().written, &peer->control().taken,
                                      &peer->control().data_wait, &peer->control().room_wait};
    const uint64_t actions = 1 + random.Below(3000);
    for (uint64_t i = 0; i < actions; ++i) {
      std::atomic<uint64_t>& word = *words[random.Below(4)];
      switch (random.Below(5)) {
        case 0:
          word = random.Next64();
          break;
        case 1:
        case 2:
          word += random.Below(5000);
          break;
        case 3:
          peer->memory()[kShmControlBytes + random.Below(kRawRingBytes)] =
              static_cast<std::byte>(random.Next64());
          break;
        case 4:
          peer->Ring();
          break;
      }
    }
    peer->Close();
    EXPECT_EQ(victim.get().code(), Code::kUnavailable);
    EndVictim();
    EXPECT_EQ(offered, readable);
    EXPECT_TRUE(std::equal(guarded.begin(), guarded.begin() + 4096, Pattern(3 * 4096, 1).begin()));
    EXPECT_TRUE(std::equal(guarded.begin() + 8192, guarded.end(), Pattern(3 * 4096, 1).begin() + 8192));
  }
  std::cout << rounds << " peers scribbled\n";
  ServeGoodPeer();
}

// ---- other processes ----

/// A child that makes only system calls: it connects, greets, offers nothing, and waits to be killed.
pid_t ForkPeer(const ShmAddress& address, const ShmHelloBytes& hello, int memory, uid_t user) {
  const pid_t child = fork();
  if (child != 0) return child;
  if (user != geteuid() && setresuid(user, user, user) != 0) _exit(3);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(fd, address.get(), address.size()) != 0) _exit(4);
  SendWithDescriptors(fd, hello, {&memory, 1});  // fails when it was turned away already
  char byte = 0;
  if (recv(fd, &byte, 1, 0) <= 0) _exit(5);  // turned away
  while (true) pause();
}

TEST_P(ShmHostileTest, KilledPeersLeaveNothing) {
  const ShmAddress address = *ShmAddress::Parse(listener_->address());
  const ShmHelloBytes hello = EncodeShmHello(RawHello(Role::kConnector));
  const ShmMemory memory = *CreateShm(kRawMemoryBytes);
  ServeGoodPeer();  // whatever is made once, is made
  const size_t descriptors = OpenDescriptors(), mappings = SharedMappings();
  const base::Buffer block = BufferOf(Bytes(base::kMiB, std::byte{7}));
  const size_t free_bytes = arena_->free_bytes();
  for (int round = 0; round < 40; ++round) {
    const pid_t child = ForkPeer(address, hello, memory.descriptor.fd(), geteuid());
    ASSERT_GT(child, 0);
    AcceptVictim();
    Offer(memory_, Direction::kPeerWrites);  // a region held by the dead, and transfers to it
    auto victim = owner_->Submit([&, block] { return WriteUntilGone(*b_, block); });
    owner_->Run([]() -> rt::Task<void> { co_return; });
    kill(child, SIGKILL);
    EXPECT_EQ(waitpid(child, nullptr, 0), child);
    EXPECT_EQ(victim.get().code(), Code::kUnavailable);
    EndVictim();
  }
  EXPECT_EQ(OpenDescriptors(), descriptors);
  EXPECT_EQ(SharedMappings(), mappings);
  EXPECT_EQ(arena_->free_bytes(), free_bytes);
  ServeGoodPeer();
}

TEST_P(ShmHostileTest, ThousandConnectionsThatBreakLeaveNothing) {
  ServeGoodPeer();
  const size_t descriptors = OpenDescriptors(), mappings = SharedMappings();
  for (int round = 0; round < 1000; ++round) {
    auto peer = GreetedAttacker();
    peer->Close();
    EXPECT_EQ(ReceiveToEnd().code(), Code::kUnavailable);
    EndVictim();
  }
  EXPECT_EQ(OpenDescriptors(), descriptors);
  EXPECT_EQ(SharedMappings(), mappings);
  ServeGoodPeer();
}

constexpr uid_t kNobody = 65534;

TEST_P(ShmHostileTest, OtherUsersAreTurnedAway) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user to try it";
  const ShmMemory memory = *CreateShm(kRawMemoryBytes);
  const pid_t child = ForkPeer(*ShmAddress::Parse(listener_->address()),
                               EncodeShmHello(RawHello(Role::kConnector)), memory.descriptor.fd(), kNobody);
  int how = 0;
  EXPECT_EQ(waitpid(child, &how, 0), child);
  EXPECT_TRUE(WIFEXITED(how) && WEXITSTATUS(how) == 5) << how;
  ServeGoodPeer();
}

TEST_P(ShmHostileTest, AllowedUsersAreServed) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user to try it";
  ShmFabric open_fabric(random_, {.allowed_users = {kNobody}});
  std::unique_ptr<Listener> open;
  owner_->Run([&]() -> rt::Task<void> {
    open = *open_fabric.Listen(owner_->reactor(), "@", kOptions);
    co_return;
  });
  const ShmMemory memory = *CreateShm(kRawMemoryBytes);
  const pid_t child = ForkPeer(*ShmAddress::Parse(open->address()),
                               EncodeShmHello(RawHello(Role::kConnector)), memory.descriptor.fd(), kNobody);
  b_ = *owner_->Run([&] { return open->Accept(owner_->reactor()); });
  EXPECT_NE(b_->peer().find("user 65534"), std::string::npos) << b_->peer();
  kill(child, SIGKILL);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
  EndVictim();
  owner_->Run([&]() -> rt::Task<void> {
    co_await open->Close();
    open.reset();
  });
}

TEST_P(ShmHostileTest, ListenersOfOtherUsersAreRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user to try it";
  RawShmListener squatter;
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const Socket read_end(ready[0]), write_end(ready[1]);
  const pid_t child = fork();
  if (child == 0) {
    // Who listens is who called listen last.
    if (setresuid(kNobody, kNobody, kNobody) != 0 || listen(squatter.fd(), 8) != 0) _exit(3);
    (void)!write(write_end.fd(), "r", 1);
    while (true) pause();
  }
  char byte = 0;
  ASSERT_EQ(read(read_end.fd(), &byte, 1), 1);
  const Status status =
      initiator_
          ->Run([&] { return fabric_->Connect(initiator_->reactor(), squatter.address(), kOptions, kNever); })
          .status();
  EXPECT_EQ(status.code(), Code::kPermissionDenied) << status.ToString();
  EXPECT_NE(status.message().find("user 65534"), std::string_view::npos) << status.ToString();
  kill(child, SIGKILL);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
}

TEST_P(StreamHostileServerTest, WrongHellosAreClearErrors) {
  ShmHello newer = RawHello(Role::kListener);
  newer.version = kShmVersion + 1;
  const struct {
    ShmHelloBytes bytes;
    Code code;
    const char* words;
  } cases[] = {
      {EncodeShmHello(newer), Code::kFailedPrecondition, "version 3"},
      {EncodeShmHello(RawHello(Role::kConnector)), Code::kInvalidArgument, "listener"},
      {ShmHelloBytes{}, Code::kInvalidArgument, "does not speak"},
      {EncodeShmHello(RawHello(Role::kListener)), Code::kInvalidArgument, "no shared memory"},
  };
  for (const auto& wrong : cases) {
    auto connecting = StartConnect();
    RawPeer server = AcceptRaw();
    server.Send(wrong.bytes);
    const Status status = connecting.get().status();
    EXPECT_EQ(status.code(), wrong.code) << status.ToString();
    EXPECT_NE(status.message().find(wrong.words), std::string_view::npos) << status.ToString();
  }
}

const FabricFactory kShm{"shm", "@",
                         [](base::Random& random) { return std::make_unique<ShmFabric>(random); }};
const auto kName = [](const auto& info) { return info.param.name; };
INSTANTIATE_TEST_SUITE_P(Shm, StreamHostileTest, testing::Values(kShm), kName);
INSTANTIATE_TEST_SUITE_P(Shm, StreamHostileServerTest, testing::Values(kShm), kName);
INSTANTIATE_TEST_SUITE_P(Shm, ShmHostileTest, testing::Values(kShm), kName);

}  // namespace
}  // namespace forebay::fabric
