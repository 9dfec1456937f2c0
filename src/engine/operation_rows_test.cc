// SPDX-License-Identifier: Apache-2.0
#include "engine/operation_rows.h"

#include <cstdlib>

#include <gtest/gtest.h>

#include "base/checksum.h"
#include "base/codec.h"
#include "base/random.h"

namespace forebay::engine {
namespace {

// The examples of docs/formats/metadata.md; their checksums were made by another program.
constexpr std::string_view kKey = "6f7065726174696f6e2f017f22e279b07cc398c4dc0c0c07398f0000000000000001";
constexpr std::string_view kPut = "01010304030201b5f38997f22f0009839206e30100002a36fe9c971700311c8cb6";
constexpr std::string_view kRefused =
    "01020004030201b5f38997f22f051b6f626a6563742060622f6b6020646f6573206e6f74206578697374f914685c";
constexpr std::string_view kOverwrite = "010d0304030201b5f38997f22f0009839206e30500002a36fe9c9717640d0c0b0a00aa69b19f";
constexpr std::string_view kState = "010200000000000000b079e2227f0100005035f0227f01000043399a01";

OperationId Id() {
  OperationId id;
  EXPECT_TRUE(base::FromHex("017f22e279b07cc398c4dc0c0c07398f", id.bytes));
  return id;
}

store::OperationRecord Put() {
  return {.kind = store::OperationKind::kPut,
          .fingerprint = 0x01020304,
          .recorded_ms = 1'645'557'742'005,
          .content = store::Content{.size_bytes = 9, .crc32c = 0xe3069283},
          .refusal = {},
          .version = 1,
          .modified_ns = 1'700'000'000'000'000'000,
          .etag = "0000000000000001-e3069283"};
}

/// Nine bytes that made an object of a hundred.
store::OperationRecord Overwrite() {
  store::OperationRecord record = Put();
  record.kind = store::OperationKind::kOverwrite;
  record.version = 5;
  record.etag = "0000000000000005-0a0b0c0d";
  record.object = {.size_bytes = 100, .crc32c = 0x0a0b0c0d};
  return record;
}

store::OperationRecord Refused() {
  return {.kind = store::OperationKind::kDelete,
          .fingerprint = 0x01020304,
          .recorded_ms = 1'645'557'742'005,
          .content = {},
          .refusal = Status(Code::kNotFound, "object `b/k` does not exist"),
          .etag = {}};
}

std::string Hex(std::string_view text) { return base::ToHex(AsBytes(text)); }
std::string Sealed(std::string_view key, std::string body) {
  base::Encoder(&body).U32(base::Crc32cExtend(base::Crc32c(AsBytes(key)), AsBytes(body)));
  return body;
}

TEST(OperationRows, HaveTheDocumentedBytes) {
  const std::string key = EncodeOperationKey(Id(), TenantId::kRoot);
  EXPECT_EQ(Hex(key), kKey);
  EXPECT_EQ(Hex(EncodeOperation(key, Put())), kPut);
  EXPECT_EQ(Hex(EncodeOperation(key, Refused())), kRefused);
  EXPECT_EQ(Hex(EncodeOperation(key, Overwrite())), kOverwrite);
  EXPECT_EQ(Hex(EncodeOperations({.count = 2, .floor_ms = 1'645'557'742'000, .clock_ms = 1'645'558'642'000})),
            kState);
}

TEST(OperationRows, ComeBack) {
  const std::string key = EncodeOperationKey(Id(), TenantId{77});
  EXPECT_EQ(DecodeOperationKey(key)->id, Id());
  EXPECT_EQ(DecodeOperationKey(key)->tenant, TenantId{77});
  store::OperationRecord own_etag = Put();
  own_etag.etag = "of-a-frontend";
  store::OperationRecord refused_put = Refused();
  refused_put.kind = store::OperationKind::kPut;
  refused_put.content = store::Content{.size_bytes = 5, .crc32c = 6};
  for (const auto& record : {Put(), own_etag, Refused(), refused_put, Overwrite()})
    EXPECT_EQ(*DecodeOperation(key, EncodeOperation(key, record)), record);
  const OperationsState state{.count = UINT64_MAX, .floor_ms = OperationId::kMaxUnixMs, .clock_ms = 1};
  EXPECT_EQ(*DecodeOperations(EncodeOperations(state)), state);
}

TEST(OperationRows, AreInTheOrderOfTheirTimes) {
  base::SeededRandom random(1);
  EXPECT_LT(EncodeOperationKey(OperationId::Generate(1000, random), TenantId{9}),
            EncodeOperationKey(OperationId::Generate(1001, random), TenantId{1}));
  EXPECT_LT(EncodeOperationKey(OperationId::Generate(1000, random), TenantId{9}), OperationRowsFrom(1001));
  EXPECT_GT(EncodeOperationKey(OperationId::Generate(1001, random), TenantId{1}), OperationRowsFrom(1001));
}

TEST(OperationRows, DamageIsSeen) {
  const std::string key = EncodeOperationKey(Id(), TenantId::kRoot);
  const std::string other = EncodeOperationKey(Id(), TenantId{2});
  for (const auto& record : {Put(), Refused(), Overwrite()}) {
    const std::string value = EncodeOperation(key, record);
    for (size_t bit = 0; bit < value.size() * 8; ++bit) {
      std::string bad = value;
      bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
      EXPECT_FALSE(DecodeOperation(key, bad).ok()) << bit;
    }
    for (size_t size = 0; size < value.size(); ++size)
      EXPECT_FALSE(DecodeOperation(key, value.substr(0, size)).ok());
    EXPECT_FALSE(DecodeOperation(other, value).ok());
  }
  EXPECT_FALSE(DecodeOperationKey(key.substr(1)).ok());
  EXPECT_FALSE(DecodeOperationKey(key + "x").ok());
  std::string version4 = key;
  version4[16] = 0x40;
  EXPECT_FALSE(DecodeOperationKey(version4).ok());
}

TEST(OperationRows, RandomBodiesWithARightChecksumNeverPassTheLimits) {
  const char* given = std::getenv("FOREBAY_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 4711;
  SCOPED_TRACE(testing::Message() << "FOREBAY_SEED=" << seed);
  base::SeededRandom random(seed);
  const std::string key = EncodeOperationKey(Id(), TenantId::kRoot);
  for (int round = 0; round < 4000; ++round) {
    const std::string value = EncodeOperation(key, round % 3 == 0 ? Put() : round % 3 == 1 ? Overwrite() : Refused());
    std::string body = value.substr(0, value.size() - 4);
    for (uint64_t i = 0; i <= random.Below(4); ++i)
      body[1 + random.Below(body.size() - 1)] = static_cast<char>(random.Next64());
    if (random.Below(4) == 0) body.resize(1 + random.Below(body.size()));
    const auto record = DecodeOperation(key, Sealed(key, body));
    if (!record.ok()) {
      EXPECT_EQ(record.status().code(), Code::kDataLoss);
      continue;
    }
    EXPECT_TRUE(store::IsResult(record->refusal.code()));
    EXPECT_LE(record->recorded_ms, OperationId::kMaxUnixMs);
    EXPECT_LE(record->etag.size(), base::kMaxETagBytes);
    EXPECT_LE(record->object.size_bytes, base::kMaxObjectBytes);
    if (record->kind == store::OperationKind::kPut && record->refusal.ok())
      EXPECT_TRUE(record->content.has_value());
  }
}

TEST(OperationRows, ANewerFormatIsRefusedAsSuch) {
  const std::string key = EncodeOperationKey(Id(), TenantId::kRoot);
  const std::string value = EncodeOperation(key, Put());
  std::string body = value.substr(0, value.size() - 4);
  body[0] = 2;
  EXPECT_EQ(DecodeOperation(key, Sealed(key, body)).status().code(), Code::kFailedPrecondition);
}

}  // namespace
}  // namespace forebay::engine
