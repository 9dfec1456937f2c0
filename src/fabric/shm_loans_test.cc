// SPDX-License-Identifier: Apache-2.0
// Loans over shm: what they save, and peers that lie about them: borrowers that answer nothing or wrongly,
// and lenders that pass descriptors which are not what they were announced to be.
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>

#include "fabric/borrower.h"
#include "fabric/kept_descriptors.h"
#include "fabric/lent_blocks.h"
#include "fabric/shm_fabric.h"
#include "fabric/shm_fixture.h"
#include "rt/when_all.h"

namespace forebay::fabric {

std::unique_ptr<RawStream> DialRaw(const std::string& address) { return RawShm::Dial(address); }
std::unique_ptr<RawListener> ListenRaw() { return std::make_unique<RawShmListener>(); }

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(StreamHostileTest);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(StreamHostileServerTest);

namespace {

constexpr size_t kLoan = 64 * base::kKiB;

class ShmLoansTest : public FabricTest {
 protected:
  void SetUp() override { Use({.budget_bytes = 16 * kLoan, .least_bytes = kLoan}, true); }
  /// Both ends of what follows lend by these rules.
  void Use(LentBlocksOptions rules, bool borrows) {
    blocks_ = std::make_shared<LentBlocks>(rules);
    fabric_ = std::make_unique<ShmFabric>(random_, ShmOptions{.borrows = borrows, .lent = blocks_});
  }
  RegionToken OfferAtA(MutableByteView memory) {
    return initiator_->Run(
        [&]() -> rt::Task<RegionToken> { co_return *a_->Offer(memory, Direction::kPeerWrites, kNever); });
  }
  /// From b_, the server's end.
  Status WriteFromB(RegionToken region, const base::Buffer& data) {
    SyncWithA();
    const Status status = owner_->Run([&] { return b_->Write(region, 0, {data}, kNever); });
    SyncWithA();
    return status;
  }
  std::future<Status> StartWrite(RegionToken region, const base::Buffer& data,
                                 base::TimePoint deadline = kNever) {
    auto writing =
        owner_->Submit([this, region, data, deadline] { return b_->Write(region, 0, {data}, deadline); });
    owner_->Run([]() -> rt::Task<void> { co_return; });
    return writing;
  }
  /// As SyncWithOwner, between this thread's use of memory and a_'s.
  void SyncWithA() {
    initiator_->Run([]() -> rt::Task<void> { co_return; });
  }
  uint64_t CopiedByB() { return StatsOf(*owner_, *b_).copied_bytes; }
  /// Evicts what is there.
  void TakeBackAll() {
    clock_.Advance(seconds(1));
    for (size_t i = 0; i < 16; ++i) {
      const base::Buffer other = BufferOf(Bytes(kLoan));
      for (int time = 0; time < 2; ++time)
        owner_->Run(
            [&]() -> rt::Task<void> { (void)co_await blocks_->Lend(owner_->reactor(), {&other, 1}); });
    }
  }

  std::shared_ptr<LentBlocks> blocks_;
};

TEST_P(ShmLoansTest, HotPayloadIsCopiedTwiceAndThenNoMore) {
  Connect();
  const base::Buffer data = BufferOf(Pattern(kLoan, 1));
  Bytes memory(kLoan);
  const RegionToken region = OfferAtA(memory);
  for (uint64_t time = 1; time <= 5; ++time) {
    std::ranges::fill(memory, std::byte{0});
    ASSERT_TRUE(WriteFromB(region, data).ok());
    EXPECT_EQ(memory, Pattern(kLoan, 1));
    EXPECT_EQ(CopiedByB(), std::min<uint64_t>(time, 2) * kLoan);
  }
  EXPECT_EQ(StatsOf(*owner_, *b_).bytes_written, 5 * kLoan);
  EXPECT_EQ(StatsOf(*initiator_, *a_).peer_bytes_written, 5 * kLoan);
}

TEST_P(ShmLoansTest, OneBlockIsForAllWhoAreSentTheSame) {
  Connect();
  const base::Buffer data = BufferOf(Pattern(kLoan, 1));
  Bytes memory(kLoan), other(kLoan);
  const RegionToken region = OfferAtA(memory);
  for (int time = 0; time < 2; ++time) ASSERT_TRUE(WriteFromB(region, data).ok());
  Fence(*initiator_, a_);
  Fence(*owner_, b_);
  a_ = *ConnectFrom(*initiator_);
  b_ = *AcceptOn(*owner_);
  ASSERT_TRUE(WriteFromB(OfferAtA(other), data).ok());
  EXPECT_EQ(other, Pattern(kLoan, 1));
  EXPECT_EQ(CopiedByB(), 0u);
  EXPECT_EQ(blocks_->blocks(), 1u);
}

TEST_P(ShmLoansTest, WhoDoesNotBorrowIsSentCopies) {
  Use({.least_bytes = kLoan}, false);
  Connect();
  const base::Buffer data = BufferOf(Pattern(kLoan, 1));
  Bytes memory(kLoan);
  const RegionToken region = OfferAtA(memory);
  for (int time = 0; time < 3; ++time) ASSERT_TRUE(WriteFromB(region, data).ok());
  EXPECT_EQ(CopiedByB(), 3 * kLoan);
  EXPECT_EQ(blocks_->blocks(), 0u);
}

TEST_P(ShmLoansTest, WhatIsTakenBackFromAStoppedPeerIsSentAfterAll) {
  Connect();
  const base::Buffer data = BufferOf(Pattern(kLoan, 1));
  Bytes memory(kLoan);
  const RegionToken region = OfferAtA(memory);
  for (int time = 0; time < 2; ++time) ASSERT_TRUE(WriteFromB(region, data).ok());
  std::ranges::fill(memory, std::byte{0});
  const uint64_t copied = CopiedByB();
  {
    Stopped stopped(initiator_->reactor());
    auto writing = StartWrite(region, data);
    TakeBackAll();
    EXPECT_EQ(writing.wait_for(seconds(0)), std::future_status::timeout);
    stopped.Resume();
    EXPECT_TRUE(writing.get().ok());
  }
  SyncWithA();
  EXPECT_EQ(memory, Pattern(kLoan, 1));
  EXPECT_EQ(CopiedByB(), copied + kLoan);
}

TEST_P(ShmLoansTest, DeadlineWhileABorrowerIsStoppedLeavesTheRestInStep) {
  Connect();
  const base::Buffer data = BufferOf(Pattern(kLoan, 1)), other = BufferOf(Pattern(kLoan, 2));
  Bytes memory(kLoan);
  const RegionToken region = OfferAtA(memory);
  for (int time = 0; time < 2; ++time) ASSERT_TRUE(WriteFromB(region, data).ok());
  for (int time = 0; time < 2; ++time) ASSERT_TRUE(WriteFromB(region, other).ok());
  Stopped stopped(initiator_->reactor());
  auto late = StartWrite(region, data, clock_.Now() + seconds(1));
  TakeBackAll();  // what comes of it does not matter any more
  owner_->reactor().Poke();
  EXPECT_EQ(late.get().code(), Code::kDeadlineExceeded);
  stopped.Resume();
  ASSERT_TRUE(WriteFromB(region, other).ok());
  EXPECT_EQ(memory, Pattern(kLoan, 2));
}

// ---- borrowers that lie ----

class HostileBorrowerTest : public ShmLoansTest {
 protected:
  void SetUp() override {
    ShmLoansTest::SetUp();
    Use({.budget_bytes = 16 * kLoan, .least_bytes = 4096, .at_first_sight = true}, false);
    Listen();
  }
  std::unique_ptr<RawShm> Attacker(uint16_t keeps = 0) {
    if (b_) Fence(*owner_, b_);
    auto peer = RawShm::Dial(listener_->address());
    peer->Borrow(keeps);
    EXPECT_TRUE(peer->Greet(Role::kConnector));
    b_ = *AcceptOn(*owner_);
    return peer;
  }
  FrameHeader NextHeader(RawShm& peer) {
    HeaderBytes bytes;
    EXPECT_TRUE(peer.ReadExactly(bytes));
    const auto header = DecodeHeader(bytes, {.max_message_bytes = kRawMaxMessage,
                                             .max_transfer_bytes = kRawMaxTransfer,
                                             .borrows = true,
                                             .keeps = KeptDescriptors::kMaxPlaces});
    EXPECT_TRUE(header.ok()) << header.status().ToString();
    Bytes payload(header->length);
    EXPECT_TRUE(peer.ReadExactly(payload));
    return *header;
  }
  /// How a write of `data` came, which `peer` then says it has read.
  FrameHeader Lend(RawShm& peer, const base::Buffer& data) {
    auto written = StartWrite({.key = 5}, data);
    const FrameHeader header = NextHeader(peer);
    peer.SendFrame({.type = FrameType::kWriteDone, .id = header.id}, {});
    EXPECT_TRUE(written.get().ok());
    return header;
  }
  std::future<std::vector<Status>> StartWrites(int count, const base::Buffer& data) {
    return owner_->Submit([this, count, data]() -> rt::Task<std::vector<Status>> {
      std::vector<rt::Task<Status>> writes;
      for (int i = 0; i < count; ++i) writes.push_back(b_->Write({.key = 5}, 0, {data}, kNever));
      return rt::WhenAll(std::move(writes));
    });
  }
};

TEST_P(HostileBorrowerTest, WhoAnswersNothingIsLentOnlySoMuchAndLeavesNothingWhenItIsGone) {
  const base::Buffer data = BufferOf(Pattern(4096, 1));
  (void)Attacker();  // whatever is made once, is made
  owner_->Run([&]() -> rt::Task<void> { (void)co_await blocks_->Lend(owner_->reactor(), {&data, 1}); });
  Fence(*owner_, b_);
  const size_t descriptors = OpenDescriptors(), free_bytes = arena_->free_bytes();
  auto peer = Attacker();
  auto writes = StartWrites(100, data);
  size_t lent = 0, sent = 0;
  while (lent + sent < 100) ++(NextHeader(*peer).type == FrameType::kLent ? lent : sent);
  EXPECT_EQ(lent, Borrower::kMaxLoans);
  peer.reset();
  for (const Status& status : writes.get()) EXPECT_EQ(status.code(), Code::kUnavailable);
  Fence(*owner_, b_);
  EXPECT_EQ(OpenDescriptors(), descriptors);
  EXPECT_EQ(arena_->free_bytes(), free_bytes);
}

TEST_P(HostileBorrowerTest, WhatIsKeptIsLentAgainWithoutADescriptor) {
  const base::Buffer one = BufferOf(Pattern(4096, 1)), two = BufferOf(Pattern(4096, 2)), three = BufferOf(Pattern(4096, 3));
  auto peer = Attacker(2);
  const auto lent = [&](const base::Buffer& data) {
    const FrameHeader header = Lend(*peer, data);
    EXPECT_EQ(header.type, FrameType::kLent);
    EXPECT_TRUE(CheckLentMemory(peer->TakeDescriptor().fd()).ok());
    return header.code;
  };
  const auto lent_again = [&](const base::Buffer& data) {
    const FrameHeader header = Lend(*peer, data);
    EXPECT_EQ(header.type, FrameType::kLentAgain);
    return header.code;
  };
  const uint16_t first = lent(one), second = lent(two);
  EXPECT_EQ(first + second, 3);
  EXPECT_EQ(lent_again(one), first);
  EXPECT_EQ(lent(three), second);  // in the place of two, which was not lent for longest
  EXPECT_EQ(lent_again(three), second);
  EXPECT_EQ(lent(two), first);
  peer = Attacker(0);  // a descriptor for each, as it keeps none
  for (int time = 0; time < 3; ++time) EXPECT_EQ(lent(one), 0);
}

TEST_P(HostileBorrowerTest, ReturnOfWhatWasNotLentEndsTheConnection) {
  const base::Buffer data = BufferOf(Pattern(4096, 1)), small = BufferOf(Pattern(100, 1));
  auto peer = Attacker();
  auto sent = StartWrite({.key = 5}, small);
  EXPECT_EQ(NextHeader(*peer).type, FrameType::kWrite);
  peer->SendFrame({.type = FrameType::kWriteDone, .code = kTakenBack, .id = 1}, {});
  EXPECT_EQ(sent.get().code(), Code::kUnavailable);
  // One that was lent comes once more, as a copy, and cannot be returned again.
  peer = Attacker();
  auto lent = StartWrite({.key = 5}, data);
  EXPECT_EQ(NextHeader(*peer).type, FrameType::kLent);
  peer->SendFrame({.type = FrameType::kWriteDone, .code = kTakenBack, .id = 1}, {});
  const FrameHeader again = NextHeader(*peer);
  EXPECT_EQ(again, (FrameHeader{.type = FrameType::kWrite, .length = 4096, .id = 1, .key = 5}));
  peer->SendFrame({.type = FrameType::kWriteDone, .code = kTakenBack, .id = 1}, {});
  EXPECT_EQ(lent.get().code(), Code::kUnavailable);
}

TEST_P(HostileBorrowerTest, WhoShortensABlockTakesNothingFromOthers) {
  const base::Buffer data = BufferOf(Pattern(4096, 1));
  auto peer = Attacker();
  auto lent = StartWrite({.key = 5}, data);
  const Socket reading = peer->TakeDescriptor();
  ASSERT_TRUE(CheckLentMemory(reading.fd()).ok());
  const std::string path = "/proc/self/fd/" + std::to_string(reading.fd());
  const Socket writing(open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (writing.fd() < 0) GTEST_SKIP() << "this user cannot open it for writing at all";
  ASSERT_EQ(ftruncate(writing.fd(), 100), 0);
  Fence(*owner_, b_);
  EXPECT_EQ(lent.get().code(), Code::kUnavailable);

  ShmFabric good(random_, {.borrows = true});
  a_ = *initiator_->Run(
      [&] { return good.Connect(initiator_->reactor(), listener_->address(), kOptions, kNever); });
  b_ = *AcceptOn(*owner_);
  Bytes memory(4096);
  ASSERT_TRUE(WriteFromB(OfferAtA(memory), data).ok());
  EXPECT_EQ(memory, Pattern(4096, 1));
}

TEST_P(HostileBorrowerTest, WhoLendsToOneWhoDoesNotBorrowIsFenced) {
  auto peer = Attacker();
  Bytes memory = Pattern(4096, 42);
  const RegionToken region = Offer(memory, Direction::kPeerWrites);
  const size_t before = OpenDescriptors();
  const int any = peer->memory_fd();
  for (int i = 0; i < 100; ++i) peer->Pass({&any, 1});
  peer->SendFrame({.type = FrameType::kLent, .id = 1, .key = region.key, .count = 4096}, {});
  const Status ended = Receive(*owner_, *b_).status();
  EXPECT_NE(ended.message().find("do not exist"), std::string_view::npos) << ended.ToString();
  EXPECT_EQ(OpenDescriptors(), before);
  EXPECT_EQ(memory, Pattern(4096, 42));
}

// ---- lenders that lie ----

class HostileLenderTest : public ShmLoansTest {
 protected:
  void SetUp() override { Use({}, true); }
  /// Connects a_, which borrows, to a lender.
  std::unique_ptr<RawShm> Lender() {
    if (a_) Fence(*initiator_, a_);
    auto connecting = initiator_->Submit(
        [this] { return fabric_->Connect(initiator_->reactor(), listening_.address(), kOptions, kNever); });
    auto lender = std::make_unique<RawShm>(accept(listening_.fd(), nullptr, nullptr));
    EXPECT_TRUE(lender->Greet(Role::kListener));
    a_ = *connecting.get();
    return lender;
  }
  static FrameHeader LoanOf(uint64_t key, uint32_t count, uint64_t id = 1, uint64_t offset = 0) {
    return {.type = FrameType::kLent, .id = id, .key = key, .offset = offset, .count = count};
  }
  /// As a good lender makes it, but for the size.
  static Socket Memory(ByteView content) {
    const Socket memory = *CreateLentMemory();
    EXPECT_EQ(pwrite(memory.fd(), content.data(), content.size(), 0), static_cast<ssize_t>(content.size()));
    return *SealLentMemory(memory);
  }
  /// The code of the next WRITE_DONE; -1 at the end.
  static int Answer(RawShm& lender) {
    HeaderBytes bytes;
    while (lender.ReadExactly(bytes)) {
      const auto header = DecodeHeader(
          bytes, {.max_message_bytes = kRawMaxMessage, .max_transfer_bytes = kRawMaxTransfer, .lends = true});
      if (!header.ok()) return -2;
      Bytes payload(header->length);
      if (!lender.ReadExactly(payload)) return -1;
      if (header->type == FrameType::kWriteDone) return header->code;
    }
    return -1;
  }
  bool Fenced() {
    return !initiator_->Run([&]() -> rt::Task<Status> { co_return a_->state(); }).ok();
  }
  Status ReasonOfA() {
    return initiator_->Run([&]() -> rt::Task<Status> {
      while (true) {
        auto message = co_await a_->Receive();
        if (!message.ok()) co_return message.status();
      }
    });
  }

  RawShmListener listening_;
  Bytes memory_ = Pattern(3 * 4096, 42);  // the region is its middle
  const Bytes before_ = memory_;
  MutableByteView middle() { return MutableByteView(memory_).subspan(4096, 4096); }
};

TEST_P(HostileLenderTest, OddDescriptorsEndTheConnectionAndNoneStaysOpen) {
  (void)Lender();
  Fence(*initiator_, a_);
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  int pair[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  const std::string fifo_path = testing::TempDir() + "/forebay-loan-" + std::to_string(getpid());
  ASSERT_EQ(mkfifo(fifo_path.c_str(), 0600), 0);
  const Socket fifo(open(fifo_path.c_str(), O_RDWR | O_CLOEXEC));  // a read of it would wait
  const Socket file(open(fifo_path.c_str(), O_PATH | O_CLOEXEC));
  unlink(fifo_path.c_str());
  const Socket pipe_read(ends[0]), pipe_write(ends[1]), socket_a(pair[0]), socket_b(pair[1]),
      event(eventfd(0, EFD_CLOEXEC)), zero(open("/dev/zero", O_RDONLY | O_CLOEXEC)),
      regular(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  const auto sealed = [](int seals) {
    Socket memory(memfd_create("t", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    EXPECT_EQ(pwrite(memory.fd(), Bytes(4096).data(), 4096, 0), 4096);
    if (seals != 0) EXPECT_EQ(fcntl(memory.fd(), F_ADD_SEALS, seals), 0);
    const std::string path = "/proc/self/fd/" + std::to_string(memory.fd());
    return Socket(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  };
  const Socket unsealed = sealed(0), may_change = sealed(F_SEAL_GROW | F_SEAL_SEAL),
               may_grow = sealed(F_SEAL_FUTURE_WRITE | F_SEAL_SEAL),
               may_seal = sealed(F_SEAL_FUTURE_WRITE | F_SEAL_GROW);
  const Socket writing = *CreateLentMemory();
  ASSERT_EQ(pwrite(writing.fd(), Bytes(4096).data(), 4096, 0), 4096);
  const Socket reading = *SealLentMemory(writing);
  const size_t before = OpenDescriptors();
  for (const Socket* odd : {&fifo, &file, &pipe_read, &pipe_write, &socket_a, &event, &zero, &regular,
                            &unsealed, &may_change, &may_grow, &may_seal, &writing}) {
    SCOPED_TRACE(odd->fd());
    auto lender = Lender();
    const RegionToken region = OfferAtA(middle());
    const int fd = odd->fd();
    lender->Pass({&fd, 1});
    lender->SendFrame(LoanOf(region.key, 4096), {});
    const Status reason = ReasonOfA();
    EXPECT_NE(reason.message().find("lent"), std::string_view::npos) << reason.ToString();
    Fence(*initiator_, a_);
    lender.reset();
    EXPECT_EQ(memory_, before_);
    EXPECT_EQ(OpenDescriptors(), before);
  }
}

TEST_P(HostileLenderTest, LoansThatBreakARegionsRulesAreRefusedAndTheNextOneIsInStep) {
  auto lender = Lender();
  const RegionToken region = OfferAtA(middle());
  const RegionToken reads = initiator_->Run(
      [&]() -> rt::Task<RegionToken> { co_return *a_->Offer(middle(), Direction::kPeerReads, kNever); });
  const struct {
    FrameHeader loan;
    Refusal expected;
  } attacks[] = {
      {LoanOf(region.key + 1, 4096), Refusal::kUnknownKey},
      {LoanOf(region.key, 4097), Refusal::kOutOfRange},
      {LoanOf(region.key, 1, 1, 4096), Refusal::kOutOfRange},
      {LoanOf(region.key, 4096, 1, UINT64_MAX - 100), Refusal::kOutOfRange},
      {LoanOf(reads.key, 4096), Refusal::kWrongDirection},
  };
  const Socket wrong = Memory(Bytes(8192, std::byte{0xAA}));
  const int wrong_fd = wrong.fd();
  for (const auto& attack : attacks) {
    lender->Pass({&wrong_fd, 1});
    lender->SendFrame(attack.loan, {});
    EXPECT_EQ(Answer(*lender), static_cast<int>(attack.expected));
  }
  SyncWithA();
  EXPECT_EQ(memory_, before_);
  SyncWithA();
  const Socket right = Memory(Pattern(4096, 7));
  const int right_fd = right.fd();
  lender->Pass({&right_fd, 1});
  lender->SendFrame(LoanOf(region.key, 4096), {});
  EXPECT_EQ(Answer(*lender), 0);
  SyncWithA();
  EXPECT_TRUE(std::ranges::equal(middle(), Pattern(4096, 7)));
  EXPECT_TRUE(std::equal(memory_.begin(), memory_.begin() + 4096, before_.begin()));
  EXPECT_TRUE(std::equal(memory_.begin() + 8192, memory_.end(), before_.begin() + 8192));
}

TEST_P(HostileLenderTest, WhatWasPutIntoAPlaceIsReadFromThereUntilAnotherIs) {
  auto lender = Lender();
  const RegionToken region = OfferAtA(middle());
  const Socket one = *CreateLentMemory(), two = *CreateLentMemory();
  ASSERT_EQ(pwrite(one.fd(), Pattern(4096, 1).data(), 4096, 0), 4096);
  ASSERT_EQ(pwrite(two.fd(), Pattern(4096, 2).data(), 4096, 0), 4096);
  const Socket reading_one = *SealLentMemory(one), reading_two = *SealLentMemory(two);
  const auto loan = [&](FrameType type, uint16_t place, uint64_t key) {
    FrameHeader header = LoanOf(key, 4096);
    header.type = type;
    header.code = place;
    SyncWithA();
    lender->SendFrame(header, {});
    const int answer = Answer(*lender);
    SyncWithA();
    return answer;
  };
  const auto pass = [&](const Socket& memory) {
    const int fd = memory.fd();
    lender->Pass({&fd, 1});
  };
  const auto got = [&](uint64_t seed) { return std::ranges::equal(middle(), Pattern(4096, seed)); };
  pass(reading_one);
  EXPECT_EQ(loan(FrameType::kLent, 1, region.key), 0);
  EXPECT_TRUE(got(1));
  pass(reading_two);  // kept, though nothing is read
  EXPECT_EQ(loan(FrameType::kLent, 2, region.key + 1), static_cast<int>(Refusal::kUnknownKey));
  EXPECT_EQ(loan(FrameType::kLentAgain, 2, region.key), 0);
  EXPECT_TRUE(got(2));
  EXPECT_EQ(loan(FrameType::kLentAgain, 1, region.key), 0);
  EXPECT_TRUE(got(1));
  EXPECT_EQ(loan(FrameType::kLentAgain, 1, region.key + 1), static_cast<int>(Refusal::kUnknownKey));
  pass(reading_two);
  EXPECT_EQ(loan(FrameType::kLent, 1, region.key), 0);
  std::ranges::fill(middle(), std::byte{0});
  EXPECT_EQ(loan(FrameType::kLentAgain, 1, region.key), 0);
  EXPECT_TRUE(got(2));
  ASSERT_EQ(ftruncate(two.fd(), 0), 0);
  EXPECT_EQ(loan(FrameType::kLentAgain, 1, region.key), kTakenBack);
  EXPECT_FALSE(Fenced());
}

TEST_P(HostileLenderTest, PlacesThatHoldNothingOrAreNotThereEndTheConnection) {
  const Socket memory = Memory(Bytes(4096, std::byte{0xAA}));
  const int fd = memory.fd();
  (void)Lender();
  Fence(*initiator_, a_);
  const size_t before = OpenDescriptors();
  const struct {
    FrameType type;
    uint16_t place;
    std::string_view why;
  } lies[] = {{FrameType::kLentAgain, 2, "put nothing"},
              {FrameType::kLentAgain, 0, "names place 0"},
              {FrameType::kLentAgain, KeptDescriptors::kMaxPlaces + 1, "names place 65"},
              {FrameType::kLent, KeptDescriptors::kMaxPlaces + 1, "names place 65"},
              {FrameType::kLent, UINT16_MAX, "names place 65535"}};
  for (const auto& lie : lies) {
    SCOPED_TRACE(lie.why);
    auto lender = Lender();
    const RegionToken region = OfferAtA(middle());
    for (uint16_t place : {uint16_t{1}, lie.place}) {
      FrameHeader header = LoanOf(region.key + 1, 4096, place);
      header.type = place == 1 ? FrameType::kLent : lie.type;
      header.code = place;
      if (header.type == FrameType::kLent) lender->Pass({&fd, 1});
      lender->SendFrame(header, {});
    }
    const Status reason = ReasonOfA();
    EXPECT_NE(reason.message().find(lie.why), std::string_view::npos) << reason.ToString();
    Fence(*initiator_, a_);
    lender.reset();
    EXPECT_EQ(OpenDescriptors(), before);  // what was kept is closed too
    EXPECT_EQ(memory_, before_);
  }
}

TEST_P(HostileLenderTest, MemoryThatIsShorterThanAnnouncedIsSentBack) {
  auto lender = Lender();
  const RegionToken region = OfferAtA(middle());
  for (const size_t size : {0, 1, 4095}) {
    const Socket memory = Memory(Bytes(size, std::byte{0xAA}));
    const int fd = memory.fd();
    lender->Pass({&fd, 1});
    lender->SendFrame(LoanOf(region.key, 4096), {});
    EXPECT_EQ(Answer(*lender), kTakenBack);
  }
  SyncWithA();
  EXPECT_TRUE(std::equal(memory_.begin(), memory_.begin() + 4096, before_.begin()));
  EXPECT_TRUE(std::equal(memory_.begin() + 8191, memory_.end(), before_.begin() + 8191));
  EXPECT_FALSE(Fenced());
}

TEST_P(HostileLenderTest, AnswersThatWaitForEachOtherAllCome) {
  auto lender = Lender();
  const RegionToken region = OfferAtA(middle());
  const Socket memory = Memory(Pattern(4096, 7)), little = Memory(Bytes(1));
  const int fds[] = {memory.fd(), little.fd()};
  for (uint64_t id = 1; id <= 40; ++id) {
    const int fd = fds[id % 3 == 0];  // each third one is sent back
    lender->Pass({&fd, 1});
    lender->SendFrame(LoanOf(region.key + (id % 5 == 0), 4096, id), {});  // each fifth one is refused
  }
  for (uint64_t id = 1; id <= 40; ++id) {
    const int unknown = static_cast<int>(Refusal::kUnknownKey);
    EXPECT_EQ(Answer(*lender), id % 5 == 0 ? unknown : id % 3 == 0 ? kTakenBack : 0) << id;
  }
  // And so does that of the first of two, while the second one waits for its descriptor.
  const int fd = memory.fd();
  lender->Pass({&fd, 1});
  lender->SendFrame(LoanOf(region.key, 4096, 1), {});
  lender->SendFrame(LoanOf(region.key, 4096, 2), {});
  EXPECT_EQ(Answer(*lender), 0);
  EXPECT_TRUE(initiator_->Run([&] { return a_->Withdraw(region); }).ok());
  lender->Pass({&fd, 1});
  EXPECT_EQ(Answer(*lender), static_cast<int>(Refusal::kWithdrawn));
}

TEST_P(HostileLenderTest, LoanWhoseDescriptorDoesNotComeHoldsUpNobody) {
  auto lender = Lender();
  const RegionToken region = OfferAtA(middle());
  lender->SendFrame(LoanOf(region.key, 4096), {});
  lender->SendFrame({.type = FrameType::kMessage, .length = 2}, Bytes(2));
  EXPECT_EQ(Receive(*initiator_, *a_)->size(), 2u);
  EXPECT_TRUE(initiator_->Run([&] { return a_->Withdraw(region); }).ok());
  const Socket memory = Memory(Bytes(4096, std::byte{0xAA}));
  const int fd = memory.fd();
  lender->Pass({&fd, 1});
  EXPECT_EQ(Answer(*lender), static_cast<int>(Refusal::kWithdrawn));
  SyncWithA();
  EXPECT_EQ(memory_, before_);
  EXPECT_EQ(StatsOf(*initiator_, *a_).refused, 1u);
  // And one that is fenced while it waits.
  const RegionToken other = OfferAtA(middle());
  lender->SendFrame(LoanOf(other.key, 4096), {});
  lender->SendFrame({.type = FrameType::kMessage, .length = 2}, Bytes(2));
  EXPECT_TRUE(Receive(*initiator_, *a_).ok());
  Fence(*initiator_, a_);
  lender->Pass({&fd, 1});
  EXPECT_EQ(memory_, before_);
}

TEST_P(HostileLenderTest, MoreDescriptorsOrLoansThanThereMayBeEndTheConnection) {
  const Socket memory = Memory(Bytes(4096, std::byte{0xAA}));
  const std::vector<int> many(10, memory.fd());
  (void)Lender();
  Fence(*initiator_, a_);
  const size_t before = OpenDescriptors();
  for (const std::string_view kind : {"one by one", "at once", "loans"}) {
    SCOPED_TRACE(kind);
    auto lender = Lender();
    const RegionToken region = OfferAtA(middle());
    if (kind == "at once") lender->Pass(many);
    for (size_t i = 0; i <= Borrower::kMaxLoans; ++i) {
      if (kind == "one by one") lender->Pass({many.data(), 1});
      if (kind == "loans") lender->SendFrame(LoanOf(region.key, 4096, i + 1), {});
    }
    EXPECT_EQ(ReasonOfA().code(), Code::kUnavailable);
    Fence(*initiator_, a_);
    lender.reset();
    EXPECT_EQ(OpenDescriptors(), before);
    EXPECT_EQ(memory_, before_);
  }
}

TEST_P(HostileLenderTest, MemoryTakenBackInTheMiddleGivesAllOfTheBytesOrAnAnswerThatSaysSo) {
  base::SeededRandom random(TestSeed());
  auto lender = Lender();
  Bytes target(base::kMiB);
  const RegionToken region = OfferAtA(target);
  const Bytes content = Pattern(base::kMiB, 5);
  int whole = 0, back = 0;
  for (uint64_t id = 1; id <= 60; ++id) {
    const Socket memory = *CreateLentMemory();
    ASSERT_EQ(pwrite(memory.fd(), content.data(), content.size(), 0), static_cast<ssize_t>(content.size()));
    const Socket reading = *SealLentMemory(memory);
    const int fd = reading.fd();
    std::ranges::fill(target, std::byte{0xEE});
    SyncWithA();
    lender->Pass({&fd, 1});
    lender->SendFrame(LoanOf(region.key, base::kMiB, id), {});
    for (uint64_t spin = random.Below(200'000); spin != 0; --spin)
      std::atomic_signal_fence(std::memory_order_seq_cst);
    ASSERT_EQ(ftruncate(memory.fd(), 0), 0);
    const int code = Answer(*lender);
    ASSERT_TRUE(code == 0 || code == kTakenBack) << code;
    SyncWithA();
    if (code == 0) EXPECT_EQ(target, content);
    ++(code == 0 ? whole : back);
  }
  std::cout << whole << " came whole, " << back << " were taken back\n";
}

const FabricFactory kShm{"shm", "@",
                         [](base::Random& random) { return std::make_unique<ShmFabric>(random); }};
const auto kName = [](const auto& info) { return info.param.name; };
INSTANTIATE_TEST_SUITE_P(Shm, ShmLoansTest, testing::Values(kShm), kName);
INSTANTIATE_TEST_SUITE_P(Shm, HostileBorrowerTest, testing::Values(kShm), kName);
INSTANTIATE_TEST_SUITE_P(Shm, HostileLenderTest, testing::Values(kShm), kName);

}  // namespace
}  // namespace forebay::fabric
