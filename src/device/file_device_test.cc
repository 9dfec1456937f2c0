// SPDX-License-Identifier: Apache-2.0
#include "device/file_device.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

#include "device/device_suite.h"

namespace forebay::device {
namespace {

/// A fresh directory below TMPDIR, removed at the end.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    const char* base = std::getenv("TMPDIR");
    path_ = std::string(base != nullptr ? base : "/tmp") + "/forebay-device-XXXXXX";
    FB_CHECK(::mkdtemp(path_.data()) != nullptr);
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  std::string File(std::string_view name) const { return path_ + "/" + std::string(name); }

 private:
  std::string path_;
};

std::unique_ptr<Device> MakeFile(uint64_t size, bool direct) {
  static std::vector<std::unique_ptr<TemporaryDirectory>> directories;  // a deleted file takes no flush
  directories.push_back(std::make_unique<TemporaryDirectory>());
  const TemporaryDirectory& directory = *directories.back();
  auto device = FileDevice::Open(directory.File("device"), {.create = true, .size_bytes = size, .direct = direct});
  EXPECT_TRUE(device.ok()) << device.status().ToString();
  return device.ok() ? *std::move(device) : nullptr;
}

INSTANTIATE_TEST_SUITE_P(
    File, DeviceSuite,
    ::testing::Values(DeviceMaker{"direct", [](uint64_t size) { return MakeFile(size, true); }},
                      DeviceMaker{"buffered", [](uint64_t size) { return MakeFile(size, false); }}),
    [](const auto& info) { return info.param.name; });

class FileDeviceTest : public ::testing::Test {
 protected:
  Result<std::unique_ptr<FileDevice>> Create(uint64_t size = base::kMiB) {
    return FileDevice::Open(path_, {.create = true, .size_bytes = size});
  }
  Result<std::unique_ptr<FileDevice>> Open(uint64_t at_least = 0) {
    return FileDevice::Open(path_, {.size_bytes = at_least});
  }

  TemporaryDirectory directory_;
  const std::string path_ = directory_.File("data0");
};

TEST_F(FileDeviceTest, KeepsItsContentWhenReopened) {
  auto reactor = *rt::Reactor::Create();
  const AlignedBytes data = Filled(kUnit, 'k');
  const ByteView view = data.view();
  {
    auto device = Create();
    ASSERT_TRUE(device.ok()) << device.status().ToString();
    ASSERT_TRUE(reactor->BlockOn((*device)->Write(*reactor, kUnit, std::span(&view, 1))).ok());
    ASSERT_TRUE(reactor->BlockOn((*device)->Flush(*reactor)).ok());
  }
  auto device = Open(base::kMiB);
  ASSERT_TRUE(device.ok()) << device.status().ToString();
  EXPECT_EQ((*device)->size_bytes(), base::kMiB);
  AlignedBytes back(kUnit);
  const MutableByteView in = back.writable();
  ASSERT_TRUE(reactor->BlockOn((*device)->Read(*reactor, kUnit, std::span(&in, 1))).ok());
  EXPECT_EQ(AsText(back.view()), std::string(kUnit, 'k'));
}

TEST_F(FileDeviceTest, ANewFileIsPrivateAndHasItsBlocks) {
  ASSERT_TRUE(Create(2 * base::kMiB).ok());
  struct stat info;
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
  EXPECT_EQ(info.st_size, static_cast<off_t>(2 * base::kMiB));
  EXPECT_GE(static_cast<uint64_t>(info.st_blocks) * 512, 2 * base::kMiB);
}

TEST_F(FileDeviceTest, ASparseOneTakesRoomAsItIsWritten) {
  ASSERT_TRUE(FileDevice::Open(path_, {.create = true, .size_bytes = 2 * base::kMiB, .sparse = true}).ok());
  struct stat info;
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_size, static_cast<off_t>(2 * base::kMiB));
  EXPECT_LT(static_cast<uint64_t>(info.st_blocks) * 512, base::kMiB);
}

TEST_F(FileDeviceTest, IsNeverMadeUnasked) {
  EXPECT_EQ(Open().status().code(), Code::kNotFound);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(FileDeviceTest, DoesNotTakeOverAnExistingFile) {
  ASSERT_TRUE(Create().ok());
  EXPECT_EQ(Create().status().code(), Code::kAlreadyExists);
  EXPECT_TRUE(Open(base::kMiB).ok());
}

TEST_F(FileDeviceTest, OnlyOneUserAtATime) {
  auto first = Create();
  ASSERT_TRUE(first.ok());
  const Status second = FileDevice::Open(path_, {.in_use_wait = std::chrono::milliseconds::zero()}).status();
  EXPECT_EQ(second.code(), Code::kFailedPrecondition) << second.ToString();
  first->reset();
  EXPECT_TRUE(Open().ok());
}

TEST_F(FileDeviceTest, WaitsForAKilledUserToLetGo) {
  auto first = Create();
  ASSERT_TRUE(first.ok());
  std::thread killed([&] { first->reset(); });
  EXPECT_TRUE(Open().ok());
  killed.join();
}

TEST_F(FileDeviceTest, AFlushOfADeletedFileFails) {
  auto reactor = *rt::Reactor::Create();
  const auto device = *Create();
  const AlignedBytes data = Filled(kUnit, 'd');
  const ByteView view = data.view();
  ASSERT_TRUE(reactor->BlockOn(device->Write(*reactor, 0, {&view, 1})).ok());
  ASSERT_TRUE(reactor->BlockOn(device->Flush(*reactor)).ok());
  std::filesystem::remove(path_);
  const Status status = reactor->BlockOn(device->Flush(*reactor));
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_NE(status.message().find("was deleted"), std::string_view::npos) << status.message();
}

TEST_F(FileDeviceTest, AShortenedDeviceIsRefused) {
  ASSERT_TRUE(Create(2 * base::kMiB).ok());
  ASSERT_EQ(::truncate(path_.c_str(), base::kMiB), 0);
  EXPECT_EQ(Open(2 * base::kMiB).status().code(), Code::kDataLoss);
}

TEST_F(FileDeviceTest, AFileCutOffWhileOpenIsDataLossWithTheOffset) {
  auto reactor = *rt::Reactor::Create();
  auto device = Create();
  ASSERT_TRUE(device.ok());
  ASSERT_EQ(::truncate(path_.c_str(), 2 * kUnit), 0);
  AlignedBytes back(4 * kUnit);
  const MutableByteView in = back.writable();
  const Status status = reactor->BlockOn((*device)->Read(*reactor, kUnit, std::span(&in, 1)));
  EXPECT_EQ(status.code(), Code::kDataLoss);
  EXPECT_NE(status.message().find("offset 8192"), std::string_view::npos) << status.ToString();
}

TEST_F(FileDeviceTest, TooLargeAFileLeavesNothingBehind) {
  const Status status = Create(uint64_t{1} << 60).status();
  EXPECT_TRUE(status.code() == Code::kResourceExhausted || status.code() == Code::kOutOfRange) << status.ToString();
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(FileDeviceTest, RefusesSizesThatAreNoDevice) {
  EXPECT_EQ(Create(0).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(Create(kUnit + 1).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(Create(UINT64_MAX - kUnit + 1).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(FileDevice::Open("/dev/null", {}).status().code(), Code::kInvalidArgument);
}

TEST_F(FileDeviceTest, ZeroAheadIsRefusedWhileAnotherOneRuns) {
  // The later one could zero what the caller of the earlier one has written by then.
  auto reactor = *rt::Reactor::Create();
  auto device = Create(4 * base::kMiB);
  ASSERT_TRUE(device.ok());
  std::vector<rt::Task<Status>> both;
  both.push_back((*device)->ZeroAhead(*reactor, 0, 2 * base::kMiB));
  both.push_back((*device)->ZeroAhead(*reactor, 0, 4 * base::kMiB));
  const std::vector<Status> outcomes = reactor->BlockOn(rt::WhenAll(std::move(both)));
  EXPECT_TRUE(outcomes[0].ok()) << outcomes[0].ToString();
  EXPECT_EQ(outcomes[1].code(), Code::kFailedPrecondition);
  EXPECT_TRUE(reactor->BlockOn((*device)->ZeroAhead(*reactor, 0, 4 * base::kMiB)).ok());
}

TEST_F(FileDeviceTest, BypassesThePageCacheWhereItCan) {
  auto device = Create();
  ASSERT_TRUE(device.ok());
  const int fd = ::open(path_.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
  if (fd < 0) GTEST_SKIP() << "the file system of " << path_ << " has no O_DIRECT";
  ::close(fd);
  EXPECT_TRUE((*device)->direct());
}

}  // namespace
}  // namespace forebay::device
