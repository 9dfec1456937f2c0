// SPDX-License-Identifier: Apache-2.0
// The behaviour suite of Device: what each implementation and decorator must do. An implementation's test instantiates
// DeviceSuite with a name and a function that makes a fresh device of a given size, full of zeros.
// Thread-safe: holds no state; a test runs on the main thread.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "device/aligned_bytes.h"
#include "device/device.h"
#include "rt/reactor.h"
#include "rt/reactor_thread.h"
#include "rt/when_all.h"

namespace forebay::device {

struct DeviceMaker {
  std::string name;
  std::function<std::unique_ptr<Device>(uint64_t size_bytes)> make;
  friend void PrintTo(const DeviceMaker& maker, std::ostream* out) { *out << maker.name; }
};

/// `size` aligned bytes, each of them `fill`.
inline AlignedBytes Filled(size_t size, char fill) {
  AlignedBytes bytes(size);
  std::memset(bytes.data(), fill, bytes.size());
  return bytes;
}

class DeviceSuite : public ::testing::TestWithParam<DeviceMaker> {
 protected:
  static constexpr uint64_t kSize = 8 * base::kMiB;

  void SetUp() override {
    auto reactor = rt::Reactor::Create();
    ASSERT_TRUE(reactor.ok()) << reactor.status().ToString();
    reactor_ = *std::move(reactor);
    device_ = GetParam().make(kSize);
    ASSERT_NE(device_, nullptr);
  }

  Status Write(uint64_t offset, ByteView bytes) {
    return reactor_->BlockOn(device_->Write(*reactor_, offset, std::span(&bytes, 1)));
  }
  Status Read(uint64_t offset, MutableByteView bytes) {
    return reactor_->BlockOn(device_->Read(*reactor_, offset, std::span<const MutableByteView>(&bytes, 1)));
  }
  Status Flush() { return reactor_->BlockOn(device_->Flush(*reactor_)); }
  Status ZeroAhead(uint64_t begin, uint64_t end) {
    return reactor_->BlockOn(device_->ZeroAhead(*reactor_, begin, end));
  }
  /// The bytes at `offset`, or "" after an error.
  std::string ReadText(uint64_t offset, size_t size) {
    AlignedBytes bytes(size);
    const Status status = Read(offset, bytes.writable());
    EXPECT_TRUE(status.ok()) << status.ToString();
    return status.ok() ? std::string(AsText(bytes.view())) : std::string();
  }

  std::unique_ptr<rt::Reactor> reactor_;
  std::unique_ptr<Device> device_;
};

TEST_P(DeviceSuite, HasTheSizeItWasMadeWith) { EXPECT_EQ(device_->size_bytes(), kSize); }

TEST_P(DeviceSuite, AFreshDeviceReadsAsZeros) {
  AlignedBytes bytes = Filled(2 * kUnit, 'x');
  ASSERT_TRUE(Read(kSize - 2 * kUnit, bytes.writable()).ok());
  EXPECT_EQ(AsText(bytes.view()), std::string(2 * kUnit, '\0'));
}

TEST_P(DeviceSuite, ReadsBackWhatWasWritten) {
  ASSERT_TRUE(Write(3 * kUnit, Filled(2 * kUnit, 'a').view()).ok());
  ASSERT_TRUE(Write(4 * kUnit, Filled(kUnit, 'b').view()).ok());
  EXPECT_EQ(ReadText(2 * kUnit, 4 * kUnit), std::string(kUnit, '\0') + std::string(kUnit, 'a') +
                                                std::string(kUnit, 'b') + std::string(kUnit, '\0'));
  EXPECT_TRUE(Flush().ok());
  EXPECT_EQ(ReadText(3 * kUnit, kUnit), std::string(kUnit, 'a'));
}

TEST_P(DeviceSuite, WritesAndReadsUpToItsEnd) {
  ASSERT_TRUE(Write(kSize - kUnit, Filled(kUnit, 'z').view()).ok());
  EXPECT_EQ(ReadText(kSize - kUnit, kUnit), std::string(kUnit, 'z'));
}

TEST_P(DeviceSuite, ABufferListIsUsedInOrder) {
  const AlignedBytes a = Filled(kUnit, 'a'), b = Filled(2 * kUnit, 'b');
  const ByteView out[] = {b.view(), {}, a.view()};
  ASSERT_TRUE(reactor_->BlockOn(device_->Write(*reactor_, kUnit, out)).ok());
  AlignedBytes first(kUnit), second(2 * kUnit);
  const MutableByteView in[] = {first.writable(), second.writable()};
  ASSERT_TRUE(reactor_->BlockOn(device_->Read(*reactor_, kUnit, in)).ok());
  EXPECT_EQ(AsText(first.view()), std::string(kUnit, 'b'));
  EXPECT_EQ(AsText(second.view()), std::string(kUnit, 'b') + std::string(kUnit, 'a'));
}

TEST_P(DeviceSuite, ABufferListMayBeLongerThanOneKernelCallTakes) {
  constexpr size_t kCount = 1500;  // IOV_MAX is 1024
  AlignedBytes data(kCount * kUnit), back(kCount * kUnit);
  std::vector<ByteView> out;
  std::vector<MutableByteView> in;
  for (size_t i = 0; i < kCount; ++i) {
    std::memset(data.data() + i * kUnit, static_cast<int>('a' + i % 26), kUnit);
    out.push_back(data.view().subspan(i * kUnit, kUnit));
    in.push_back(back.writable().subspan(i * kUnit, kUnit));
  }
  ASSERT_TRUE(reactor_->BlockOn(device_->Write(*reactor_, 0, out)).ok());
  ASSERT_TRUE(reactor_->BlockOn(device_->Read(*reactor_, 0, in)).ok());
  EXPECT_TRUE(AsText(back.view()) == AsText(data.view()));
}

TEST_P(DeviceSuite, NothingToDoIsNoError) {
  EXPECT_TRUE(reactor_->BlockOn(device_->Write(*reactor_, 0, {})).ok());
  EXPECT_TRUE(reactor_->BlockOn(device_->Read(*reactor_, kSize, {})).ok());
  EXPECT_TRUE(Flush().ok());
}

TEST_P(DeviceSuite, RefusesUnalignedRequests) {
  AlignedBytes bytes(2 * kUnit);
  EXPECT_EQ(Write(512, bytes.view()).code(), Code::kInvalidArgument);
  EXPECT_EQ(Write(0, bytes.view().first(100)).code(), Code::kInvalidArgument);
  EXPECT_EQ(Write(0, bytes.view().subspan(8, kUnit)).code(), Code::kInvalidArgument);
  EXPECT_EQ(Read(1, bytes.writable()).code(), Code::kInvalidArgument);
  EXPECT_EQ(Read(0, bytes.writable().first(kUnit + 1)).code(), Code::kInvalidArgument);
  EXPECT_EQ(Read(0, bytes.writable().subspan(512, kUnit)).code(), Code::kInvalidArgument);
}

TEST_P(DeviceSuite, RefusesWhatLiesBeyondItsEnd) {
  AlignedBytes bytes(2 * kUnit);
  EXPECT_EQ(Write(kSize, bytes.view()).code(), Code::kOutOfRange);
  EXPECT_EQ(Write(kSize - kUnit, bytes.view()).code(), Code::kOutOfRange);
  EXPECT_EQ(Write(UINT64_MAX - kUnit + 1, bytes.view()).code(), Code::kOutOfRange);
  EXPECT_EQ(Read(kSize - kUnit, bytes.writable()).code(), Code::kOutOfRange);
  EXPECT_EQ(Read(UINT64_MAX - 2 * kUnit + 1, bytes.writable()).code(), Code::kOutOfRange);
}

TEST_P(DeviceSuite, AMessageNamesTheDevice) {
  AlignedBytes bytes(kUnit);
  EXPECT_NE(Write(kSize, bytes.view()).message().find(device_->name()), std::string_view::npos);
}

TEST_P(DeviceSuite, ManyRequestsMayBeUnderwayAtOnce) {
  constexpr size_t kCount = 64;
  std::vector<AlignedBytes> data;
  std::vector<ByteView> views;
  for (size_t i = 0; i < kCount; ++i) data.push_back(Filled(kUnit, static_cast<char>('0' + i)));
  for (size_t i = 0; i < kCount; ++i) views.push_back(data[i].view());
  std::vector<rt::Task<Status>> writes;
  for (size_t i = 0; i < kCount; ++i)
    writes.push_back(device_->Write(*reactor_, i * 3 * kUnit, std::span(&views[i], 1)));
  for (const Status& status : reactor_->BlockOn(rt::WhenAll(std::move(writes))))
    EXPECT_TRUE(status.ok()) << status.ToString();
  for (size_t i = 0; i < kCount; ++i)
    EXPECT_EQ(ReadText(i * 3 * kUnit, kUnit), std::string(kUnit, static_cast<char>('0' + i)));
}

TEST_P(DeviceSuite, SeveralReactorsMayUseItAtOnce) {
  auto other = rt::ReactorThread::Create({});
  ASSERT_TRUE(other.ok());
  rt::Reactor& there = (*other)->reactor();
  const AlignedBytes a = Filled(kUnit, 'a'), b = Filled(kUnit, 'b');
  const ByteView view_b = b.view();
  auto written = (*other)->Submit([&]() -> rt::Task<Status> {
    for (uint64_t i = 0; i < 32; ++i) FB_CO_TRY(co_await device_->Write(there, (2 * i + 1) * kUnit, std::span(&view_b, 1)));
    co_return co_await device_->Flush(there);
  });
  for (uint64_t i = 0; i < 32; ++i) ASSERT_TRUE(Write(2 * i * kUnit, a.view()).ok());
  ASSERT_TRUE(Flush().ok());
  ASSERT_TRUE(written.get().ok());
  for (uint64_t i = 0; i < 32; ++i)
    EXPECT_EQ(ReadText(2 * i * kUnit, 2 * kUnit), std::string(kUnit, 'a') + std::string(kUnit, 'b'));
}

TEST_P(DeviceSuite, ZeroAheadLeavesWhatIsBelowItsBeginning) {
  ASSERT_TRUE(Write(0, Filled(2 * kUnit, 'a').view()).ok());
  ASSERT_TRUE(ZeroAhead(2 * kUnit, 2 * base::kMiB).ok());
  EXPECT_EQ(ReadText(0, 3 * kUnit), std::string(2 * kUnit, 'a') + std::string(kUnit, '\0'));
}

TEST_P(DeviceSuite, ZeroAheadDoesNotTouchWhatItPreparedBefore) {
  ASSERT_TRUE(ZeroAhead(0, 2 * base::kMiB).ok());
  ASSERT_TRUE(Write(kUnit, Filled(kUnit, 'a').view()).ok());
  ASSERT_TRUE(ZeroAhead(0, 4 * base::kMiB).ok());
  EXPECT_EQ(ReadText(kUnit, kUnit), std::string(kUnit, 'a'));
}

TEST_P(DeviceSuite, ZeroAheadStaysInside) {
  EXPECT_TRUE(ZeroAhead(0, kSize).ok());
  EXPECT_EQ(ZeroAhead(0, kSize + kUnit).code(), Code::kOutOfRange);
  EXPECT_EQ(ZeroAhead(0, kUnit + 1).code(), Code::kInvalidArgument);
}

}  // namespace forebay::device
