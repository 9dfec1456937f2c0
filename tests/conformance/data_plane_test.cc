// SPDX-License-Identifier: Apache-2.0
#include "data_plane_suite.h"
#include "rt/when_all.h"

namespace forebay {
namespace {

class DataPlane : public DataPlaneSuite {
 protected:
  DataPlane() : DataPlaneSuite(3, true) {}
};
INSTANTIATE_TEST_SUITE_P(Fabrics, DataPlane, testing::ValuesIn(EachFabric()),
                         [](const auto& info) { return info.param.TestName(); });

TEST_P(DataPlane, EverySizeRoundTrips) {
  for (const size_t size :
       {size_t{0}, size_t{1}, size_t{4095}, size_t{4096}, size_t{4097}, size_t{8192}, size_t{8193},
        size_t{65536}, size_t{65537}, base::kMiB, base::kMiB + 1, 13 * base::kMiB + 5}) {
    const Bytes content = Pattern(size, size + 1);
    const auto put = Put("k" + std::to_string(size), content, {.metadata = {{"color", "blue"}}});
    ASSERT_TRUE(put) << size << " " << put.error().message;
    EXPECT_EQ(put->size, size);
    Bytes into(size + 10);
    const auto got = Get("k" + std::to_string(size), into);
    ASSERT_TRUE(got) << size << " " << got.error().message;
    EXPECT_EQ(got->size, size);
    EXPECT_EQ(got->total_size, size);
    EXPECT_EQ(got->etag, put->etag);
    EXPECT_EQ(got->crc32c, base::Crc32c(content));
    EXPECT_TRUE(std::equal(content.begin(), content.end(), into.begin())) << size;
    EXPECT_TRUE(std::all_of(into.end() - 10, into.end(), [](std::byte b) { return b == std::byte{0}; }))
        << size;
  }
}

TEST_P(DataPlane, RandomRangesAreExact) {
  base::SeededRandom random(SuiteSeed());
  const Bytes content = Pattern(3 * base::kMiB + 777, 9);
  ASSERT_TRUE(Stored("a", content));
  for (int round = 0; round < 60; ++round) {
    const uint64_t offset = random.Below(content.size() + 1);
    const uint64_t length = random.Below(round % 2 == 0 ? 10'000 : 2 * base::kMiB);
    Bytes into(length);
    const auto got = Get("a", into, {.offset = offset});
    ASSERT_TRUE(got) << got.error().message;
    const uint64_t expected = std::min<uint64_t>(length, content.size() - offset);
    ASSERT_EQ(got->size, expected) << offset << " " << length;
    ASSERT_TRUE(std::equal(into.begin(), into.begin() + static_cast<long>(expected),
                           content.begin() + static_cast<long>(offset)));
  }
  Bytes one(1);
  EXPECT_EQ(Get("a", one, {.offset = content.size() + 1}).error().code, Code::kOutOfRange);
}

TEST_P(DataPlane, BatchesKeepItemsApart) {
  const Bytes content = Pattern(64 * 5000, 3);
  std::vector<PutItem> puts;
  std::vector<GetItem> gets;
  for (size_t i = 0; i < 64; ++i) {
    const std::string key = "batch/" + std::to_string(i);
    puts.push_back(
        {.bucket = i == 5 ? "absent" : "models", .key = key, .region_offset = i * 5000, .length = 5000});
    gets.push_back({.bucket = "models", .key = key, .region_offset = (63 - i) * 5000, .length = 5000});
  }
  const auto stored = PutBatch(puts, content);
  ASSERT_TRUE(stored.ok()) << stored.status().ToString();
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ((*stored)[i].has_value(), i != 5) << i;
  EXPECT_EQ((*stored)[5].error().code, Code::kNotFound);
  EXPECT_NE((*stored)[5].error().message.find("forebay bucket create absent"), std::string::npos);

  Bytes memory(content.size());
  const auto got = GetBatch(gets, memory);
  ASSERT_TRUE(got.ok()) << got.status().ToString();
  for (size_t i = 0; i < 64; ++i) {
    EXPECT_EQ((*got)[i].has_value(), i != 5) << i;
    if (i == 5) continue;
    EXPECT_TRUE(std::equal(content.begin() + static_cast<long>(i * 5000),
                           content.begin() + static_cast<long>(i * 5000 + 5000),
                           memory.begin() + static_cast<long>((63 - i) * 5000)))
        << i;
  }
}

TEST_P(DataPlane, ConditionsHold) {
  const auto first = Put("a", AsBytes("one"), {.if_absent = true});
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(Put("a", AsBytes("two"), {.if_absent = true}).error().code, Code::kAlreadyExists);
  EXPECT_EQ(Put("a", AsBytes("two"), {.if_match = "other"}).error().code, Code::kFailedPrecondition);
  ASSERT_TRUE(Stored("a", AsBytes("two"), {.if_match = first->etag}));
  Bytes into(3);
  EXPECT_EQ(Get("a", into, {.if_match = first->etag}).error().code, Code::kFailedPrecondition);
  ASSERT_TRUE(Get("a", into));
  EXPECT_EQ(AsText(into), "two");
}

TEST_P(DataPlane, ExistsTellsWhatIsThere) {
  ASSERT_TRUE(Stored("a", AsBytes("hello")));
  const std::vector<ObjectName> names = {{"models", "a"}, {"models", "b"}, {"absent", "a"}};
  const auto found = client_thread_->Run([&] {
    return pool_.With(In(std::chrono::seconds(60)), true, [&](client::DataSession& session) {
      return client::ExistsItems(session, names, In(std::chrono::seconds(60)));
    });
  });
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  EXPECT_TRUE((*found)[0]->found);
  EXPECT_EQ((*found)[0]->size, 5u);
  EXPECT_EQ((*found)[0]->crc32c, base::Crc32c(AsBytes("hello")));
  EXPECT_FALSE((*found)[1]->found);
  EXPECT_FALSE((*found)[2]->found);
}

TEST_P(DataPlane, AStreamOfPiecesBecomesOneObject) {
  const Bytes content = Pattern(5 * base::kMiB + 99, 4);
  const Status status = client_thread_->Run([&]() -> rt::Task<Status> {
    const base::TimePoint deadline = In(std::chrono::seconds(60));
    FB_CO_ASSIGN(client::DataSession* const session, co_await pool_.Next(deadline));
    FB_CO_ASSIGN(const auto hold, session->Hold());
    FB_CO_ASSIGN(const uint64_t handle,
                 co_await client::BeginStream(*session, {"models", "stream"}, {},
                                              OperationId::Generate(random_), deadline));
    std::vector<rt::Task<Status>> pieces;  // all in flight at once
    for (size_t at = 0; at < content.size(); at += base::kMiB) {
      const ByteView piece = ByteView(content).subspan(at, std::min<size_t>(base::kMiB, content.size() - at));
      pieces.push_back(client::SendPiece(*session, handle, at, piece, base::Crc32c(piece), deadline));
    }
    for (const Status& sent : co_await rt::WhenAll(std::move(pieces))) FB_CO_TRY(sent);
    FB_CO_ASSIGN(const PutResult put, co_await client::CommitStream(*session, handle, content.size(),
                                                                    base::Crc32c(content), deadline));
    co_return put.size == content.size() ? Status() : Status::Internal("wrong size");
  });
  ASSERT_EQ(status.ToString(), "OK");
  Bytes into(content.size());
  ASSERT_TRUE(Get("stream", into));
  EXPECT_EQ(into, content);
}

TEST_P(DataPlane, ALostConnectionIsMadeAnewAndGetsGoOn) {
  ASSERT_TRUE(Stored("a", AsBytes("hello")));
  const int before = sessions_opened_;
  // Ends the connection of every lane.
  for (int lane = 0; lane < 3; ++lane) {
    client_thread_->Run([&]() -> rt::Task<void> {
      const auto session = co_await pool_.Next(In(std::chrono::seconds(10)));
      EXPECT_TRUE(session.ok());
      (void)(*session)->Distrust(Status::Internal("a test"));
    });
  }
  Bytes into(5);
  const auto got = Get("a", into);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(AsText(into), "hello");
  EXPECT_GT(sessions_opened_, before);
}

TEST_P(DataPlane, AStoppedServerFailsCallsWithUnavailable) {
  ASSERT_TRUE(Stored("a", AsBytes("hello")));
  StopServer();
  Bytes into(5);
  const auto got = Get("a", into, {}, std::chrono::seconds(5));
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Code::kUnavailable) << got.error().message;
}

TEST_P(DataPlane, TooLargeABatchIsRefusedHere) {
  std::vector<GetItem> items(257, GetItem{.bucket = "models", .key = "a"});
  Bytes memory(1);
  EXPECT_EQ(GetBatch(items, memory).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(GetBatch({}, memory).status().code(), Code::kInvalidArgument);
  const GetItem outside{.bucket = "models", .key = "a", .region_offset = 1, .length = 1};
  EXPECT_EQ(GetBatch({&outside, 1}, memory).status().code(), Code::kInvalidArgument);
  // 200 puts with 4 KiB of metadata each are more than a message may hold.
  std::vector<PutItem> puts(
      200, PutItem{.bucket = "models", .key = "a", .metadata = {{"n", std::string(4000, 'v')}}});
  const auto refused = PutBatch(puts, {});
  EXPECT_EQ(refused.status().code(), Code::kInvalidArgument);
  EXPECT_NE(refused.status().message().find("split the batch"), std::string::npos);
}

}  // namespace
}  // namespace forebay
