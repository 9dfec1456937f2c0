// SPDX-License-Identifier: Apache-2.0
// The parts of the shm fabric by themselves: hello, shared memory, rings, addresses.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "base/random.h"
#include "fabric/fabric_fixture.h"
#include "fabric/kept_descriptors.h"
#include "fabric/shm_fabric.h"
#include "fabric/shm_hello.h"
#include "fabric/shm_memory.h"
#include "fabric/shm_ring.h"
#include "fabric/shm_socket.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace forebay::fabric {
namespace {

Bytes FromHex(std::string hex) {
  std::erase(hex, ' ');
  Bytes bytes(hex.size() / 2);
  EXPECT_TRUE(base::FromHex(hex, bytes));
  return bytes;
}

// ---- hello ----

// The example of docs/formats/fabric-shm.md; made with another program.
const Bytes kConnectorHello = FromHex(
    "46 42 59 53 03 00 01 01 00 00 04 00 00 00 10 00 00 04 00 00 00 00 20 00 40 00 00 00 00 00 00 00 00 00 "
    "00 00 78 e1 01 5d");
const Bytes kListenerHello = FromHex(
    "46 42 59 53 03 00 02 00 00 00 04 00 00 00 10 00 00 04 00 00 00 00 20 00 00 00 00 00 00 00 00 00 00 00 "
    "00 00 0a 89 b0 f0");

TEST(ShmHelloTest, IsAsTheFormatPageSays) {
  ShmHello hello{.role = Role::kConnector,
                 .max_message_bytes = 262'144,
                 .max_transfer_bytes = 1'048'576,
                 .max_transfers = 1024,
                 .ring_bytes = 2'097'152,
                 .borrows = true,
                 .keeps = 64};
  EXPECT_TRUE(std::ranges::equal(EncodeShmHello(hello), kConnectorHello));
  EXPECT_EQ(*DecodeShmHello(kConnectorHello, Role::kConnector), hello);
  hello.role = Role::kListener;
  hello.borrows = false;
  hello.keeps = 0;
  EXPECT_TRUE(std::ranges::equal(EncodeShmHello(hello), kListenerHello));
  EXPECT_EQ(*DecodeShmHello(kListenerHello, Role::kListener), hello);
  hello.keeps = 1;  // of loans that it does not take
  EXPECT_EQ(DecodeShmHello(EncodeShmHello(hello), Role::kListener).status().code(), Code::kInvalidArgument);
  hello.borrows = true;
  EXPECT_TRUE(DecodeShmHello(EncodeShmHello(hello), Role::kListener).ok());
  hello.keeps = KeptDescriptors::kMaxPlaces + 1;
  EXPECT_EQ(DecodeShmHello(EncodeShmHello(hello), Role::kListener).status().code(), Code::kInvalidArgument);
}

TEST(KeptDescriptorsTest, ConnectionsShareAQuarterOfTheProcesssDescriptors) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few = before;
  few.rlim_cur = 400;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  {
    std::vector<KeptDescriptors> kept;
    std::vector<int> places;
    for (int i = 0; i < 9; ++i) places.push_back(kept.emplace_back(KeptDescriptors::Reserve()).places());
    EXPECT_EQ(places, (std::vector<int>{50, 25, 12, 6, 3, 2, 1, 0, 0}));
    kept.erase(kept.begin());
    EXPECT_EQ(KeptDescriptors::Reserve().places(), 25);
  }
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(KeptDescriptors::Reserve().places(), std::min<int>(64, static_cast<int>(before.rlim_cur / 8)));
}

TEST(LentPlacesTest, TheOneThatWasNotUsedForLongestMakesRoom) {
  LentPlaces places(2);
  EXPECT_EQ(places.Find(10), 0);
  const uint16_t first = places.Assign(10), second = places.Assign(11);
  EXPECT_EQ(first + second, 3);  // 1 and 2
  EXPECT_EQ(places.Find(10), first);
  EXPECT_EQ(places.Find(11), second);
  EXPECT_EQ(places.Find(10), first);
  EXPECT_EQ(places.Assign(12), second);
  EXPECT_EQ(places.Find(11), 0);
  EXPECT_EQ(places.Find(12), second);
  LentPlaces none(0);
  EXPECT_EQ(none.Assign(10), 0);
  EXPECT_EQ(none.Find(10), 0);
}

TEST(ShmHelloTest, EveryFlippedBitIsFound) {
  for (size_t bit = 0; bit < kShmHelloBytes * 8; ++bit) {
    Bytes flipped = kConnectorHello;
    flipped[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
    EXPECT_FALSE(DecodeShmHello(flipped, Role::kConnector).ok()) << bit;
  }
}

TEST(ShmHelloFuzz, CorpusAndMutationsRunClean) {
  base::SeededRandom random(TestSeed());
  const auto run = [](const Bytes& bytes) {
    EXPECT_EQ(LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()), 0);
  };
  run({});
  for (const Bytes* hello : {&kConnectorHello, &kListenerHello}) {
    run(*hello);
    for (int i = 0; i < 500; ++i) {
      Bytes mutated = *hello;
      for (uint64_t k = 0; k <= random.Below(3); ++k)
        mutated[random.Below(36)] = static_cast<std::byte>(random.Next64());
      run(mutated);
    }
  }
  for (int i = 0; i < 3000; ++i) {
    // Mostly small steps, so that a run is not over at once.
    Bytes turns(9 * (1 + random.Below(60)));
    random.Fill(turns);
    for (size_t at = 0; at < turns.size(); at += 9) {
      if (random.Below(8) == 0) continue;
      constexpr uint8_t kLikely[] = {1, 3, 4, 5, 6, 5, 6};
      turns[at] = static_cast<std::byte>(kLikely[random.Below(std::size(kLikely))]);
    }
    run(turns);
  }
}

// ---- memory ----

constexpr size_t kSize = kShmControlBytes + kMinShmRingBytes;

TEST(ShmMemoryTest, PeerSeesWhatTheMakerWritesAndCanDoNothingElse) {
  ShmMemory memory = *CreateShm(kSize);
  const int fd = memory.descriptor.fd();
  const ShmMapping peer = *MapPeerShm(fd, kSize);
  memory.mapping.writable()[5000] = std::byte{7};
  EXPECT_EQ(peer.bytes()[5000], std::byte{7});
  // The descriptor is all that a peer has.
  EXPECT_EQ(mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
  EXPECT_EQ(pwrite(fd, "x", 1, 0), -1);
  EXPECT_EQ(ftruncate(fd, 0), -1);
  EXPECT_EQ(ftruncate(fd, 2 * kSize), -1);
  EXPECT_EQ(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kSize), -1);
  EXPECT_EQ(memory.mapping.bytes()[5000], std::byte{7});
}

TEST(ShmMemoryTest, OnlySealedMemoryOfTheRightSizeIsMapped) {
  EXPECT_EQ(MapPeerShm((*CreateShm(kSize)).descriptor.fd(), kSize + 4096).status().code(),
            Code::kInvalidArgument);
  int missing[] = {F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_FUTURE_WRITE};
  for (const int seal : missing) {
    const Socket memory(memfd_create("t", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    ASSERT_EQ(ftruncate(memory.fd(), kSize), 0);
    ASSERT_EQ(fcntl(memory.fd(), F_ADD_SEALS, (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE) & ~seal),
              0);
    EXPECT_EQ(MapPeerShm(memory.fd(), kSize).status().code(), Code::kInvalidArgument) << seal;
  }
  const Socket file(open(testing::TempDir().c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  ASSERT_GE(file.fd(), 0);
  ASSERT_EQ(ftruncate(file.fd(), kSize), 0);
  EXPECT_EQ(MapPeerShm(file.fd(), kSize).status().code(), Code::kInvalidArgument);
}

// Huge pages can be missing when they are touched: SIGBUS.
TEST(ShmMemoryTest, HugePagesAreRefused) {
  constexpr size_t kHuge = 2 * base::kMiB;
  const Socket memory(memfd_create("t", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB));
  if (memory.fd() < 0) GTEST_SKIP() << "this kernel makes no huge pages";
  ASSERT_EQ(ftruncate(memory.fd(), kHuge), 0);
  ASSERT_EQ(fcntl(memory.fd(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE), 0);
  EXPECT_EQ(MapPeerShm(memory.fd(), kHuge).status().code(), Code::kInvalidArgument);
}

// ---- rings ----

/// Two sides over plain memory.
struct Rings {
  explicit Rings(size_t ring = kMinShmRingBytes)
      : size(ring), a(*CreateShm(kShmControlBytes + ring)), b(*CreateShm(kShmControlBytes + ring)) {}

  ShmControl& control(ShmMemory& of) { return *reinterpret_cast<ShmControl*>(of.mapping.writable().data()); }
  size_t Put(ByteView bytes) {
    const iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
    return writer.Put({&piece, 1}, 0, *writer.Room());
  }
  Bytes Take(size_t size) {
    Bytes bytes(size);
    const iovec place{bytes.data(), size};
    bytes.resize(reader.Take({&place, 1}, 0, *reader.Available()));
    return bytes;
  }

  size_t size;
  ShmMemory a, b;
  ShmRingWriter writer{a.mapping.writable(), b.mapping.bytes()};
  ShmRingReader reader{b.mapping.writable(), a.mapping.bytes()};
};

TEST(ShmRingTest, BytesComeOutAsTheyWentInAroundAndAround) {
  base::SeededRandom random(TestSeed());
  Rings rings;
  const Bytes data = Pattern(200'000, 1);
  size_t put = 0, taken = 0;
  while (taken < data.size()) {
    const size_t some = std::min<size_t>(random.Below(6000), data.size() - put);
    put += rings.Put(ByteView(data).subspan(put, some));
    const Bytes got = rings.Take(random.Below(6000));
    ASSERT_TRUE(std::equal(got.begin(), got.end(), data.begin() + static_cast<ptrdiff_t>(taken)));
    taken += got.size();
    ASSERT_EQ(*rings.reader.Available(), put - taken);
    ASSERT_EQ(*rings.writer.Room(), rings.size - (put - taken));
  }
}

// The example of docs/formats/fabric-shm.md.
TEST(ShmRingTest, MemoryIsAsTheFormatPageSays) {
  Rings rings;
  const Bytes message = FromHex(
      "01 00 00 00 05 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 "
      "00 00 "
      "89 0e d7 02 68 65 6c 6c 6f");
  rings.reader.StartWait();
  EXPECT_EQ(rings.Put(message), 45u);
  const ByteView writer = rings.a.mapping.bytes(), reader = rings.b.mapping.bytes();
  const auto line = [](ByteView memory, size_t at) {
    return Bytes(memory.begin() + at, memory.begin() + at + 16);
  };
  EXPECT_EQ(line(writer, 0), FromHex("2d 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00"));
  EXPECT_TRUE(std::ranges::equal(writer.subspan(4096, 45), message));
  EXPECT_EQ(line(reader, 0), FromHex("00 00 00 00 00 00 00 00 01 00 00 00 00 00 00 00"));
  rings.reader.EndWait();
  EXPECT_EQ(rings.Take(100), message);
  EXPECT_EQ(line(reader, 0), FromHex("00 00 00 00 00 00 00 00 02 00 00 00 00 00 00 00"));
  EXPECT_EQ(line(reader, 64), FromHex("2d 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00"));
}

TEST(ShmRingTest, PiecesAndPlacesOfOddSizesAndSkipsFitTogether) {
  Rings rings;
  Bytes data = Pattern(1000, 1);
  const iovec pieces[] = {{data.data(), 10}, {nullptr, 0}, {data.data() + 10, 300}, {data.data() + 310, 690}};
  EXPECT_EQ(rings.writer.Put(pieces, 15, 4096), 985u);
  Bytes out(985, std::byte{0});
  const iovec places[] = {{nullptr, 0}, {out.data(), 1}, {out.data() + 1, 984}};
  EXPECT_EQ(rings.reader.Take(places, 0, 400), 400u);
  EXPECT_EQ(rings.reader.Take(places, 400, 585), 585u);
  EXPECT_TRUE(std::equal(out.begin(), out.end(), data.begin() + 15));
}

TEST(ShmRingTest, PositionsThatCannotBeAreRefused) {
  {
    Rings rings;
    rings.control(rings.a).written = kMinShmRingBytes + 1;
    EXPECT_EQ(rings.reader.Available().status().code(), Code::kInvalidArgument);
  }
  {
    Rings rings;
    rings.Put(Bytes(100));
    EXPECT_EQ(*rings.reader.Available(), 100u);
    rings.control(rings.a).written = 99;  // back
    EXPECT_EQ(rings.reader.Available().status().code(), Code::kInvalidArgument);
  }
  for (const uint64_t taken : {uint64_t{101}, UINT64_MAX}) {
    Rings rings;
    rings.Put(Bytes(100));
    rings.control(rings.b).taken = taken;
    EXPECT_EQ(rings.writer.Room().status().code(), Code::kInvalidArgument);
  }
  Rings rings;
  rings.Put(Bytes(100));
  rings.control(rings.b).taken = 50;
  EXPECT_TRUE(rings.writer.Room().ok());
  rings.control(rings.b).taken = 49;  // back
  EXPECT_EQ(rings.writer.Room().status().code(), Code::kInvalidArgument);
}

TEST(ShmRingTest, EachSleepIsRungForOnce) {
  Rings rings;
  rings.Put(Bytes(1));
  EXPECT_FALSE(rings.writer.PeerAwaitsData());  // awake
  rings.reader.StartWait();
  EXPECT_TRUE(rings.writer.PeerAwaitsData());
  EXPECT_FALSE(rings.writer.PeerAwaitsData());
  rings.reader.EndWait();
  EXPECT_FALSE(rings.writer.PeerAwaitsData());
  rings.reader.StartWait();
  EXPECT_TRUE(rings.writer.PeerAwaitsData());
}

TEST(ShmRingTest, SleepForRoomIsRungForWhenHalfIsFree) {
  Rings rings;
  EXPECT_EQ(rings.Put(Bytes(5000)), 4096u);
  rings.writer.StartWait();
  rings.Take(1000);
  EXPECT_FALSE(rings.reader.PeerAwaitsRoom());
  rings.Take(1048);
  EXPECT_TRUE(rings.reader.PeerAwaitsRoom());
  EXPECT_FALSE(rings.reader.PeerAwaitsRoom());
}

TEST(ShmRingTest, FrozenReaderSeesNothingNew) {
  Rings rings;
  rings.Put(Bytes(10));
  rings.reader.Freeze();
  rings.Put(Bytes(10));
  EXPECT_EQ(*rings.reader.Available(), 10u);
}

// ---- addresses ----

TEST(ShmAddressTest, PathsAndNamesAreTakenAndNothingElse) {
  EXPECT_EQ(ShmAddress::Parse("/run/forebay/shm")->path(), "/run/forebay/shm");
  EXPECT_EQ(ShmAddress::Parse("@forebay")->path(), "");
  EXPECT_EQ(ShmAddress::Parse("@forebay")->text(), "@forebay");
  for (const std::string& text : {std::string(), std::string("relative/path"), std::string("127.0.0.1:80"),
                                  "/" + std::string(107, 'x'), std::string("/a\0b", 4)}) {
    EXPECT_EQ(ShmAddress::Parse(text).status().code(), Code::kInvalidArgument) << text;
  }
  EXPECT_TRUE(ShmAddress::Parse("/" + std::string(106, 'x')).ok());
}

class ShmPathTest : public testing::Test {
 protected:
  ShmPathTest() {
    std::string pattern = testing::TempDir() + "forebay-XXXXXX";
    directory_ = mkdtemp(pattern.data());
    address_ = *ShmAddress::Parse(directory_ + "/socket");
  }
  ~ShmPathTest() override { std::filesystem::remove_all(directory_); }

  std::string directory_;
  ShmAddress address_;
};

TEST_F(ShmPathTest, SocketIsForItsUserAloneAndGoneAfterwards) {
  {
    auto listening = ListenShm(address_, {});
    ASSERT_TRUE(listening.ok()) << listening.status().ToString();
    EXPECT_EQ((*listening)->address(), address_.text());
    struct stat file{};
    ASSERT_EQ(stat(address_.path().c_str(), &file), 0);
    EXPECT_EQ(file.st_mode & 0777u, 0600u);
    EXPECT_EQ(ListenShm(address_, {}).status().code(), Code::kFailedPrecondition);
  }
  EXPECT_FALSE(std::filesystem::exists(address_.path()));
}

TEST_F(ShmPathTest, AllowedUsersCanReachTheSocketWhateverTheUmask) {
  const mode_t before = umask(077);
  auto listening = ListenShm(address_, {.allowed_users = {65534}});
  umask(before);
  ASSERT_TRUE(listening.ok()) << listening.status().ToString();
  struct stat file{};
  ASSERT_EQ(stat(address_.path().c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777u, 0666u);
}

TEST_F(ShmPathTest, SocketOfADeadProcessIsReplaced) {
  {
    const Socket dead(socket(AF_UNIX, SOCK_STREAM, 0));
    ASSERT_EQ(bind(dead.fd(), address_.get(), address_.size()), 0);
  }
  EXPECT_TRUE(std::filesystem::exists(address_.path()));
  EXPECT_TRUE(ListenShm(address_, {}).ok());
}

TEST_F(ShmPathTest, OtherFilesAreLeftAlone) {
  std::ofstream(address_.path()) << "precious";
  const Status status = ListenShm(address_, {}).status();
  EXPECT_EQ(status.code(), Code::kFailedPrecondition);
  EXPECT_NE(status.message().find("no socket"), std::string_view::npos);
  EXPECT_EQ(std::filesystem::file_size(address_.path()), 8u);
}

TEST_F(ShmPathTest, PlaceThatAnotherTookIsLeftToIt) {
  auto first = *ListenShm(address_, {});
  std::filesystem::remove(address_.path());
  auto second = *ListenShm(address_, {});
  first.reset();
  EXPECT_TRUE(std::filesystem::exists(address_.path()));
}

TEST(ShmFabricTest, RingSizesThatCannotBeAreRefused) {
  base::SeededRandom random(1);
  auto reactor = *rt::Reactor::Create();
  for (const size_t bytes : {size_t{0}, size_t{2048}, size_t{5000}, size_t{32 * base::kMiB}}) {
    ShmFabric fabric(random, {.ring_bytes = bytes});
    EXPECT_EQ(fabric.Listen(*reactor, "@", {}).status().code(), Code::kInvalidArgument) << bytes;
  }
}

}  // namespace
}  // namespace forebay::fabric
