// SPDX-License-Identifier: Apache-2.0
// What a put publishes and what a read gives back.
#include "base/checksum.h"
#include "rt/when_all.h"
#include "store/store_suite.h"

namespace forebay::store {
namespace {

constexpr size_t kMiB = base::kMiB;

TEST_P(StoreSuite, ContentOfEverySizeComesBackEqual) {
  uint64_t seed = 1;
  const size_t kSizes[] = {0, 1, 1023, 1024, 1025, 4095, 4096, 4097, 65535, 65536, 65537, 4 * kMiB, kMiB + 1};
  for (const size_t size : kSizes) {
    const std::string key = "size/" + std::to_string(size);
    const std::string content = MakeContent(++seed, size);
    const Result<ObjectInfo> put = Put(key, content);
    ASSERT_TRUE(Is(put, Code::kOk)) << size;
    EXPECT_EQ(put->key, key);
    EXPECT_EQ(put->size_bytes, size);
    EXPECT_EQ(put->crc32c, base::Crc32c(AsBytes(content)));
    EXPECT_FALSE(put->etag.empty());
  }
  Reopen();
  seed = 1;
  for (const size_t size : kSizes) {
    const std::string key = "size/" + std::to_string(size);
    const std::string content = MakeContent(++seed, size);
    const Result<std::string> got = Get(key);
    ASSERT_TRUE(Is(got, Code::kOk)) << size;
    EXPECT_TRUE(*got == content) << size;
    const Result<ObjectInfo> info = Stat(key);
    ASSERT_TRUE(Is(info, Code::kOk)) << size;
    EXPECT_EQ(info->size_bytes, size);
    EXPECT_EQ(info->crc32c, base::Crc32c(AsBytes(content)));
  }
}

TEST_P(StoreSuite, TheSizeOfTheBuffersDoesNotMatter) {
  const std::string content = MakeContent(3, kMiB + 70'001);
  for (const size_t step : {size_t{4096}, size_t{12'288}, size_t{65'536}, kMiB}) {
    const std::string key = "step/" + std::to_string(step);
    ASSERT_TRUE(Is(Put(key, content, {.size_bytes = content.size()}, step), Code::kOk)) << step;
    const Result<std::string> got = Get(key);
    ASSERT_TRUE(Is(got, Code::kOk));
    EXPECT_TRUE(*got == content) << step;
  }
}

TEST_P(StoreSuite, StatAndReaderTellTheSameAsThePut) {
  const Result<ObjectInfo> put = Put("info", "content", {.metadata = {{"a", "1"}}});
  ASSERT_TRUE(Is(put, Code::kOk));
  const Result<ObjectInfo> stat = Stat("info");
  ASSERT_TRUE(Is(stat, Code::kOk));
  const auto reader = Open("info");
  ASSERT_TRUE(Is(reader, Code::kOk));
  for (const ObjectInfo* info : {&*stat, &(*reader)->info()}) {
    EXPECT_EQ(info->key, "info");
    EXPECT_EQ(info->version, put->version);
    EXPECT_EQ(info->size_bytes, 7U);
    EXPECT_EQ(info->etag, put->etag);
    EXPECT_EQ(info->crc32c, put->crc32c);
    EXPECT_EQ(info->modified, put->modified);
    EXPECT_EQ(info->metadata, (UserMetadata{{"a", "1"}}));
  }
}

TEST_P(StoreSuite, ReadsAnyRangeInside) {
  const std::string content = MakeContent(4, 3 * 65'536 + 777);
  ASSERT_TRUE(Is(Put("ranges", content), Code::kOk));
  const auto reader = Open("ranges");
  ASSERT_TRUE(Is(reader, Code::kOk));
  const uint64_t size = content.size();
  const uint64_t kOffsets[] = {0,      1,      4095,    4096,    4097,     65'535,
                               65'536, 65'537, 131'071, 196'608, size - 1, size};
  for (const uint64_t offset : kOffsets) {
    for (const uint64_t length : {uint64_t{0}, uint64_t{1}, uint64_t{4095}, uint64_t{4096}, uint64_t{65'536},
                                  uint64_t{131'072}, size - offset}) {
      if (length > size - offset) continue;
      const Result<std::string> got = Read(**reader, offset, length);
      ASSERT_TRUE(Is(got, Code::kOk)) << offset << " + " << length;
      EXPECT_TRUE(*got == content.substr(offset, length)) << offset << " + " << length;
    }
  }
}

TEST_P(StoreSuite, RefusesRangesThatPassTheEnd) {
  for (const size_t size : {size_t{0}, size_t{100}, size_t{70'000}}) {
    ASSERT_TRUE(Is(Put("short", MakeContent(5, size)), Code::kOk));
    const auto reader = Open("short");
    ASSERT_TRUE(Is(reader, Code::kOk));
    EXPECT_TRUE(Is(Read(**reader, size, 0), Code::kOk));
    EXPECT_TRUE(Is(Read(**reader, size, 1), Code::kOutOfRange));
    EXPECT_TRUE(Is(Read(**reader, 0, size + 1), Code::kOutOfRange));
    EXPECT_TRUE(Is(Read(**reader, size + 1, 0), Code::kOutOfRange));
    EXPECT_TRUE(Is(Read(**reader, UINT64_MAX, 0), Code::kOutOfRange));
    EXPECT_TRUE(Is(Read(**reader, UINT64_MAX, 1), Code::kOutOfRange));
    EXPECT_TRUE(Is(Read(**reader, UINT64_MAX - 4095, 4096), Code::kOutOfRange));
    EXPECT_TRUE(Is(Read(**reader, uint64_t{1} << 63, 4096), Code::kOutOfRange));
  }
}

TEST_P(StoreSuite, RefusesReadsOfMoreThanAChunkAtOnce) {
  ASSERT_TRUE(Is(Put("large", MakeContent(6, 2 * kMiB)), Code::kOk));
  const auto reader = Open("large");
  ASSERT_TRUE(Is(reader, Code::kOk));
  EXPECT_TRUE(Is(Read(**reader, 0, base::kMaxChunkBytes), Code::kOk));
  EXPECT_TRUE(Is(Read(**reader, 0, base::kMaxChunkBytes + 1), Code::kInvalidArgument));
  EXPECT_FALSE(Read(**reader, 0, UINT64_MAX).ok());
}

TEST_P(StoreSuite, NothingIsVisibleBeforeCommit) {
  auto writer = BeginPut("later");
  ASSERT_TRUE(Is(writer, Code::kOk));
  ASSERT_TRUE(Is(Write(**writer, MakeContent(7, 100'000)), Code::kOk));
  EXPECT_TRUE(Is(Stat("later"), Code::kNotFound));
  EXPECT_TRUE(Is(Open("later"), Code::kNotFound));
  EXPECT_TRUE(ListAll({}).empty());
  ASSERT_TRUE(Is(Commit(**writer), Code::kOk));
  EXPECT_TRUE(Is(Stat("later"), Code::kOk));
  EXPECT_EQ(ListAll({}), (std::vector<std::string>{"later"}));
}

TEST_P(StoreSuite, AnAbandonedPutLeavesNothing) {
  ASSERT_TRUE(Is(Put("kept", "old"), Code::kOk));
  for (const std::string key : {"kept", "new"}) {
    auto writer = BeginPut(key);
    ASSERT_TRUE(Is(writer, Code::kOk));
    ASSERT_TRUE(Is(Write(**writer, MakeContent(8, 200'000)), Code::kOk));
    writer->reset();
  }
  EXPECT_TRUE(Is(Stat("new"), Code::kNotFound));
  EXPECT_EQ(Get("kept").value_or(""), "old");
  Reopen();
  EXPECT_EQ(ListAll({}), (std::vector<std::string>{"kept"}));
  EXPECT_EQ(Get("kept").value_or(""), "old");
}

TEST_P(StoreSuite, APutReplacesTheWholeObject) {
  const Result<ObjectInfo> first = Put("o", MakeContent(9, 100'000), {.metadata = {{"m", "1"}}});
  const Result<ObjectInfo> second = Put("o", "short");
  ASSERT_TRUE(Is(first, Code::kOk));
  ASSERT_TRUE(Is(second, Code::kOk));
  EXPECT_GT(second->version, first->version);
  EXPECT_EQ(Get("o").value_or(""), "short");
  const Result<ObjectInfo> info = Stat("o");
  ASSERT_TRUE(Is(info, Code::kOk));
  EXPECT_TRUE(info->metadata.empty());
  EXPECT_EQ(ListAll({}), (std::vector<std::string>{"o"}));
}

TEST_P(StoreSuite, AReaderKeepsItsVersionWhateverHappensToTheName) {
  for (const size_t size : {size_t{10}, size_t{300'000}}) {
    const std::string content = MakeContent(10, size);
    ASSERT_TRUE(Is(Put("o", content), Code::kOk));
    auto old = Open("o");
    ASSERT_TRUE(Is(old, Code::kOk));
    ASSERT_TRUE(Is(Put("o", MakeContent(11, size)), Code::kOk));
    EXPECT_TRUE(Run(ReadContent(**old, MakeContext())).value_or("") == content) << "after overwrite";
    ASSERT_TRUE(Is(Delete("o"), Code::kOk));
    // New content that would take the place of the old if it were free.
    for (uint64_t i = 0; i < 4; ++i)
      ASSERT_TRUE(Is(Put("p" + std::to_string(i), MakeContent(12 + i, size)), Code::kOk));
    EXPECT_TRUE(Run(ReadContent(**old, MakeContext())).value_or("") == content) << "after delete";
    EXPECT_EQ((*old)->info().size_bytes, size);
  }
}

TEST_P(StoreSuite, WhatWasReadStaysAsItWas) {
  ASSERT_TRUE(Is(Put("o", MakeContent(20, 65'536)), Code::kOk));
  auto reader = Open("o");
  ASSERT_TRUE(Is(reader, Code::kOk));
  const Context context = MakeContext();
  const Result<ReadData> data = Run((*reader)->Read(context, 0, 65'536));
  ASSERT_TRUE(Is(data, Code::kOk));
  reader->reset();
  ASSERT_TRUE(Is(Delete("o"), Code::kOk));
  for (uint64_t i = 0; i < 8; ++i) ASSERT_TRUE(Is(Put("o", MakeContent(21 + i, 65'536)), Code::kOk));
  std::string still;
  for (const base::Buffer& buffer : data->buffers) still += AsText(buffer.view());
  EXPECT_TRUE(still == MakeContent(20, 65'536));
}

TEST_P(StoreSuite, SeveralReadsOfOneReaderMayRunAtOnce) {
  const std::string content = MakeContent(30, kMiB);
  ASSERT_TRUE(Is(Put("o", content), Code::kOk));
  const auto reader = Open("o");
  ASSERT_TRUE(Is(reader, Code::kOk));
  std::vector<rt::Task<Result<std::string>>> reads;
  for (uint64_t i = 0; i < 16; ++i) reads.push_back(ReadRange(**reader, MakeContext(), i * 65'536, 65'536));
  const std::vector<Result<std::string>> results = Run(rt::WhenAll(std::move(reads)));
  std::string joined;
  for (const Result<std::string>& result : results) {
    ASSERT_TRUE(Is(result, Code::kOk));
    joined += *result;
  }
  EXPECT_TRUE(joined == content);
}

TEST_P(StoreSuite, AWrongChecksumIsDataLossAndChangesNothing) {
  ASSERT_TRUE(Is(Put("o", "old"), Code::kOk));
  const std::string content = MakeContent(40, 70'000);
  const uint32_t right = base::Crc32c(AsBytes(content));
  const auto put = [&](const std::string& key, uint32_t crc32c) {
    return Run(PutContent(store(), MakeContext(), kBucket, key, content, {}, 65'536, crc32c));
  };
  EXPECT_TRUE(Is(put("o", right ^ 1), Code::kDataLoss));
  EXPECT_TRUE(Is(put("new", right ^ 0x80000000), Code::kDataLoss));
  EXPECT_EQ(Get("o").value_or(""), "old");
  EXPECT_TRUE(Is(Stat("new"), Code::kNotFound));
  EXPECT_TRUE(Is(put("o", right), Code::kOk));
  EXPECT_TRUE(Get("o").value_or("") == content);
}

TEST_P(StoreSuite, ASizeOtherThanTheAnnouncedIsRefused) {
  ASSERT_TRUE(Is(Put("o", "old"), Code::kOk));
  const std::string content = MakeContent(41, 8192);
  EXPECT_FALSE(Put("o", content, {.size_bytes = 8193}).ok());
  EXPECT_FALSE(Put("o", content, {.size_bytes = 8191}).ok());
  EXPECT_FALSE(Put("o", content, {.size_bytes = 0}).ok());
  EXPECT_FALSE(Put("o", "", {.size_bytes = 1}).ok());
  EXPECT_EQ(Get("o").value_or(""), "old");
  EXPECT_TRUE(Is(Put("o", content, {.size_bytes = 8192}), Code::kOk));
  EXPECT_TRUE(Is(Put("o", "", {.size_bytes = 0}), Code::kOk));
}

TEST_P(StoreSuite, RefusesSizesBeyondTheLimit) {
  EXPECT_TRUE(Is(BeginPut("o", {.size_bytes = base::kMaxObjectBytes + 1}), Code::kInvalidArgument));
  EXPECT_TRUE(Is(BeginPut("o", {.size_bytes = UINT64_MAX}), Code::kInvalidArgument));
}

TEST_P(StoreSuite, OnlyTheLastBufferMayBeRagged) {
  auto writer = BeginPut("o");
  ASSERT_TRUE(Is(writer, Code::kOk));
  ASSERT_TRUE(Is(Write(**writer, "ragged"), Code::kOk));
  EXPECT_TRUE(Is(Write(**writer, "more"), Code::kInvalidArgument));
  writer->reset();
  EXPECT_TRUE(Is(Stat("o"), Code::kNotFound));
}

TEST_P(StoreSuite, EveryVersionHasItsOwnETagAndALaterNumber) {
  std::set<std::string> etags;
  uint64_t last = 0;
  for (int i = 0; i < 5; ++i) {
    const Result<ObjectInfo> put = Put("same", "content");
    ASSERT_TRUE(Is(put, Code::kOk));
    EXPECT_TRUE(etags.insert(put->etag).second) << put->etag;
    EXPECT_GT(put->version, last);
    last = put->version;
    if (i == 2) {
      ASSERT_TRUE(Is(Delete("same"), Code::kOk));
    }
    if (i == 3) Reopen();
  }
}

TEST_P(StoreSuite, KeepsAnETagThatTheFrontendChose) {
  const std::string etag(base::kMaxETagBytes, 'e');
  const Result<ObjectInfo> put = Put("o", "content", {.etag = etag});
  ASSERT_TRUE(Is(put, Code::kOk));
  EXPECT_EQ(put->etag, etag);
  Reopen();
  EXPECT_EQ(Stat("o")->etag, etag);
  EXPECT_TRUE(Is(BeginPut("o", {.etag = etag + "e"}), Code::kInvalidArgument));
}

TEST_P(StoreSuite, KeepsMetadataExactlyUpToItsLimit) {
  UserMetadata metadata = {
      {"empty", ""}, {"author", "Åsa"}, {"Case", "A"}, {"case", "b"}, {"line", "a\r\nb\t=;,"}};
  size_t used = 0;
  for (const auto& [name, value] : metadata) used += name.size() + value.size();
  metadata["fill"] = std::string(base::kMaxUserMetadataBytes - used - 4, 'x');
  ASSERT_TRUE(Is(Put("o", "content", {.metadata = metadata}), Code::kOk));
  Reopen();
  const Result<ObjectInfo> info = Stat("o");
  ASSERT_TRUE(Is(info, Code::kOk));
  EXPECT_EQ(info->metadata, metadata);
  metadata["fill"] += 'x';
  EXPECT_TRUE(Is(BeginPut("o", {.metadata = metadata}), Code::kInvalidArgument));
  EXPECT_TRUE(Is(BeginPut("o", {.metadata = {{"", "nameless"}}}), Code::kInvalidArgument));
  EXPECT_TRUE(Is(BeginPut("o", {.metadata = {{"bad", "\xff"}}}), Code::kInvalidArgument));
}

TEST_P(StoreSuite, DeleteTakesTheObjectAway) {
  ASSERT_TRUE(Is(Put("o", MakeContent(50, 100'000)), Code::kOk));
  EXPECT_TRUE(Is(Delete("o"), Code::kOk));
  EXPECT_TRUE(Is(Stat("o"), Code::kNotFound));
  EXPECT_TRUE(Is(Open("o"), Code::kNotFound));
  EXPECT_TRUE(Is(Delete("o"), Code::kNotFound));
  Reopen();
  EXPECT_TRUE(Is(Stat("o"), Code::kNotFound));
  EXPECT_TRUE(ListAll({}).empty());
  EXPECT_TRUE(Is(Put("o", "again"), Code::kOk));
  EXPECT_EQ(Get("o").value_or(""), "again");
}

TEST_P(StoreSuite, IsHealthyAndHasRoom) {
  EXPECT_TRUE(Is(store().health(), Code::kOk));
  const StoreUsage usage = store().usage();
  EXPECT_LE(usage.used_bytes, usage.capacity_bytes);
}

TEST_P(StoreSuite, SaysHowMuchRoomThereIs) {
  FB_SKIP_IF_REFUSED(Refusal::kUsage);
  const auto space = [&] { return Run(store().GetSpace(MakeContext())); };
  ASSERT_TRUE(Is(Put("o", MakeContent(51, 100'000)), Code::kOk));
  ASSERT_TRUE(Is(Put("p", "inline"), Code::kOk));
  const Result<StoreSpace> with_two = space();
  ASSERT_TRUE(Is(with_two, Code::kOk));
  EXPECT_EQ(with_two->objects, 2U);
  EXPECT_EQ(with_two->object_bytes, 100'006U);
  uint64_t capacity = 0;
  for (const DeviceSpace& device : with_two->devices) {
    EXPECT_FALSE(device.name.empty());
    EXPECT_LE(device.used_bytes, device.capacity_bytes);
    capacity += device.capacity_bytes;
  }
  EXPECT_EQ(capacity, store().usage().capacity_bytes);
  EXPECT_FALSE(with_two->metadata.path.empty());
  EXPECT_GE(with_two->metadata.free_bytes, with_two->metadata.reserve_bytes);
  ASSERT_TRUE(Is(Delete("o"), Code::kOk));
  EXPECT_EQ(space()->objects, 1U);
  EXPECT_EQ(space()->object_bytes, 6U);
}

}  // namespace
}  // namespace forebay::store
