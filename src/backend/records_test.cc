// SPDX-License-Identifier: Apache-2.0
#include "backend/records.h"

#include <gtest/gtest.h>

#include "backend/records_fuzz.h"
#include "base/checksum.h"
#include "base/codec.h"
#include "base/random.h"

namespace forebay::backend {
namespace {

ObjectRecord SomeObject() {
  return {.revision = 7, .version = 6, .size_bytes = 5, .file_modified_ns = 1, .modified_ns = -1, .crc32c = 0xe3069283,
          .etag = "e", .metadata = {{"m", "1"}}, .attributes = {{"posix.mode", "644"}}};
}

std::vector<std::string> OneOfEach() {
  JournalEntry intent{.kind = JournalEntry::Kind::kIntent, .number = 9, .tenant = TenantId::kRoot, .bucket = "b", .key = "k",
                      .inode = 3, .removes = true, .revision = 2};
  intent.result.content = store::Content{.size_bytes = 1, .crc32c = 2};
  intent.result.refusal = Status::NotFound("gone");
  return {Encode(SomeObject()),
          Encode(ChecksumRecord{.inode = 1, .size_bytes = 2, .modified_ns = 3, .changed_ns = 4, .crc32c = 5}),
          Encode(BucketRecord{.owner = TenantId{3}, .created_ns = 4}),
          Encode(UploadRecord{.key = "k", .created_ns = 5, .metadata = {{"a", "b"}}}),
          Encode(Quotas{{TenantId{3}, {.max_bytes = 1, .max_objects = 2}}}),
          Encode(intent),
          Encode(JournalEntry{.kind = JournalEntry::Kind::kHorizon, .number = 1, .floor_ms = 2, .time_ms = 3})};
}

/// As how many kinds of record the bytes can be read.
int Kinds(std::string_view bytes) {
  return DecodeObject(bytes).ok() + DecodeChecksum(bytes).ok() + DecodeBucket(bytes).ok() + DecodeUpload(bytes).ok() +
         DecodeQuotas(bytes).ok() + DecodeJournalEntry(bytes).ok();
}

// The worked example of docs/formats/directory.md.
TEST(Records, AnObjectsRecordIsAsTheFormatSays) {
  const std::string bytes = Encode(SomeObject());
  EXPECT_EQ(base::ToHex(AsBytes(bytes).first(bytes.size() - 4)),
            "4f01" "07" "06" "05" "0100000000000000" "ffffffffffffffff" "839206e3" "0165" "01016d0131" "010a706f7369782e6d6f646503363434");
  const auto read = DecodeObject(bytes);
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(*read, SomeObject());
}

TEST(Records, EachIsReadBackAndNoOther) {
  for (const std::string& bytes : OneOfEach()) {
    EXPECT_TRUE(FuzzRecords(AsBytes(bytes)));
    EXPECT_EQ(Kinds(bytes), 1);
  }
}

TEST(Records, ACutOrChangedByteIsNoticed) {
  for (const std::string& bytes : OneOfEach()) {
    for (size_t size = 0; size < bytes.size(); ++size) EXPECT_EQ(Kinds(std::string_view(bytes).substr(0, size)), 0) << size;
    for (size_t at = 0; at < bytes.size(); ++at) {
      std::string changed = bytes;
      changed[at] = static_cast<char>(changed[at] ^ 0x20);
      EXPECT_EQ(Kinds(changed), 0) << at;
    }
  }
}

/// Whoever writes to the tree can make checksums too.
TEST(Records, HostileBytesWithARightChecksumDoNoHarm) {
  base::SeededRandom random(20240702);
  const std::vector<std::string> some = OneOfEach();
  int read = 0;
  for (int i = 0; i < 50'000; ++i) {
    std::string bytes = some[random.Below(some.size())];
    bytes.resize(bytes.size() - 4);
    for (uint64_t left = 1 + random.Below(4); left != 0; --left)
      bytes[2 + random.Below(bytes.size() - 2)] = static_cast<char>(random.Below(256));
    if (random.Below(4) == 0) bytes.resize(2 + random.Below(bytes.size() - 1));
    const uint32_t crc32c = base::Crc32c(AsBytes(bytes));
    base::Encoder(&bytes).U32(crc32c);
    read += FuzzRecords(AsBytes(bytes)) ? 1 : 0;
  }
  EXPECT_GT(read, 0) << "some of them mean something else";
}

TEST(Records, ANewerFormatIsNamed) {
  std::string bytes = Encode(SomeObject());
  bytes.resize(bytes.size() - 4);
  bytes[1] = 2;
  const uint32_t crc32c = base::Crc32c(AsBytes(bytes));
  base::Encoder(&bytes).U32(crc32c);
  const auto read = DecodeObject(bytes);
  ASSERT_FALSE(read.ok());
  EXPECT_NE(read.status().message().find("format 2"), std::string_view::npos) << read.status().ToString();
}

}  // namespace
}  // namespace forebay::backend
