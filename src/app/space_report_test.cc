// SPDX-License-Identifier: Apache-2.0
#include "app/space_report.h"

#include <gtest/gtest.h>

#include "base/bytes.h"

namespace forebay::app {
namespace {

using base::kGiB;
using base::kMiB;

store::MetadataSpace Metadata(uint64_t used_bytes, uint64_t free_bytes) {
  return {.path = "/s/meta", .used_bytes = used_bytes, .free_bytes = free_bytes, .reserve_bytes = 64 * kMiB};
}

TEST(SpaceReport, DataIsNearlyFullFrom95PercentOn) {
  EXPECT_EQ(FullnessOf(0, 1000), Fullness::kOk);
  EXPECT_EQ(FullnessOf(949, 1000), Fullness::kOk);
  EXPECT_EQ(FullnessOf(950, 1000), Fullness::kNearlyFull);
  EXPECT_EQ(FullnessOf(999, 1000), Fullness::kNearlyFull);
  EXPECT_EQ(FullnessOf(1000, 1000), Fullness::kFull);
  EXPECT_EQ(FullnessOf(UINT64_MAX / 2, UINT64_MAX), Fullness::kOk);
}

TEST(SpaceReport, MetadataIsFullBelowItsReserve) {
  EXPECT_EQ(FullnessOf(Metadata(kMiB, 64 * kMiB - 1)), Fullness::kFull);
  EXPECT_EQ(FullnessOf(Metadata(kMiB, 64 * kMiB)), Fullness::kNearlyFull);
  EXPECT_EQ(FullnessOf(Metadata(kMiB, 128 * kMiB - 1)), Fullness::kNearlyFull);
  EXPECT_EQ(FullnessOf(Metadata(kMiB, 128 * kMiB)), Fullness::kOk);
  // 95 GiB that may grow by 5 are at 95 %.
  EXPECT_EQ(FullnessOf(Metadata(95 * kGiB, 5 * kGiB + 64 * kMiB)), Fullness::kNearlyFull);
  EXPECT_EQ(FullnessOf(Metadata(95 * kGiB, 6 * kGiB)), Fullness::kOk);
  EXPECT_EQ(FullnessOf({.used_bytes = 0, .free_bytes = UINT64_MAX, .reserve_bytes = 0}), Fullness::kOk);
}

TEST(SpaceReport, CacheDataFillsNoStore) {
  const store::DeviceSpace data = {.name = "/s/data0", .capacity_bytes = 100 * kMiB, .used_bytes = 98 * kMiB};
  control::ServerSpace server{.space = {.devices = {data}, .metadata = Metadata(kMiB, kGiB), .cache_bytes = 49 * kMiB}};
  const std::string table = SpaceTable(server);
  EXPECT_NE(table.find("49.0 MiB of what is used are cache data"), std::string::npos) << table;
  EXPECT_EQ(SpaceAdvice(server.space), "");
  EXPECT_EQ(table.find("nearly"), std::string::npos) << table;
  server.space.cache_bytes = 0;
  EXPECT_NE(SpaceAdvice(server.space), "");
}

TEST(SpaceReport, TheTableOfAStoreWithRoomEndsWithItsObjects) {
  const store::DeviceSpace data = {.name = "/s/data0", .capacity_bytes = 63 * kMiB, .used_bytes = 7 * kMiB};
  EXPECT_EQ(SpaceTable({.space = {.devices = {data},
                                  .metadata = Metadata(100'000, 40 * kGiB),
                                  .objects = 1,
                                  .object_bytes = 5 * kMiB},
                        .read_only_reason = {}}),
            "            capacity        used        free    use%  state        path\n"
            "data        63.0 MiB     7.0 MiB    56.0 MiB   11.1%  ok           /s/data0\n"
            "metadata           -    97.7 KiB    40.0 GiB       -  ok           /s/meta\n"
            "1 object of 5.0 MiB; 64.0 MiB of the metadata's file system are kept for deletes\n");
}

TEST(SpaceReport, WhatIsFullSaysTheWayOut) {
  store::StoreSpace space = {.devices = {{.name = "/s/data0", .capacity_bytes = 100, .used_bytes = 100},
                                         {.name = "/dev/two", .capacity_bytes = 100, .used_bytes = 89}},
                             .metadata = Metadata(kMiB, kGiB)};
  EXPECT_EQ(SpaceAdvice(space), "") << "one full device leaves puts to the other";
  space.devices[1].used_bytes = 90;
  EXPECT_EQ(SpaceAdvice(space),
            "data is nearly full, and puts that do not fit are refused: delete objects (deletes always work), or add "
            "a device (forebay device add)");
  space.devices[1].used_bytes = 50;
  space.metadata.free_bytes = kMiB;
  EXPECT_EQ(SpaceAdvice(space),
            "metadata is full, and only deletes are taken: make room on the file system of /s/meta, or delete objects");
}

TEST(SpaceReport, AReadOnlyStoreSaysSoFirst) {
  const control::ServerSpace server = {
      .space = {.devices = {{.name = "/s/data0", .capacity_bytes = kGiB, .used_bytes = 0}},
                .metadata = Metadata(kMiB, kGiB)},
      .read_only_reason = "the store is read-only: a flush failed"};
  const std::string table = SpaceTable(server);
  EXPECT_TRUE(table.starts_with("the store is read-only: a flush failed\n")) << table;
  EXPECT_NE(table.find("0.0%  read-only    /s/data0\n"), std::string::npos) << table;
}

TEST(SpaceReport, ADeviceThatIsNotWellSaysSoUnlessItIsFull) {
  store::DeviceSpace mirror = {.name = "a + b",
                               .capacity_bytes = kGiB,
                               .used_bytes = 0,
                               .state = store::DeviceState::kDegraded,
                               .detail = "b is lost (flush failed)"};
  const auto table = [&] { return SpaceTable({.space = {.devices = {mirror}, .metadata = Metadata(kMiB, kGiB)}, .read_only_reason = {}}); };
  EXPECT_NE(table().find("0.0%  degraded     a + b\n"), std::string::npos) << table();
  EXPECT_NE(table().find("\nb is lost (flush failed)\n"), std::string::npos) << table();
  mirror.state = store::DeviceState::kDraining;
  EXPECT_NE(table().find("0.0%  draining     a + b\n"), std::string::npos) << table();
  mirror.used_bytes = kGiB;
  EXPECT_NE(table().find("100.0%  full         a + b\n"), std::string::npos) << table();
}

TEST(SpaceReport, JsonHasAnObjectALineInBytes) {
  EXPECT_EQ(SpaceJson({.space = {.devices = {{.name = "a",
                                              .capacity_bytes = 3000,
                                              .used_bytes = 1000,
                                              .bytes_read = 7,
                                              .bytes_written = 8},
                                             {.name = "b", .capacity_bytes = 1000, .used_bytes = 1000}},
                                 .metadata = {.path = "m", .used_bytes = 9, .free_bytes = 5, .reserve_bytes = 6},
                                 .objects = 2,
                                 .object_bytes = 1234},
                       .read_only_reason = {}}),
            R"({"what":"data","path":"a","state":"ok","detail":"","capacity_bytes":3000,"used_bytes":1000,"free_bytes":2000,)"
            R"("used_percent":33.3,"bytes_read":7,"bytes_written":8})"
            "\n"
            R"({"what":"data","path":"b","state":"full","detail":"","capacity_bytes":1000,"used_bytes":1000,"free_bytes":0,)"
            R"("used_percent":100.0,"bytes_read":0,"bytes_written":0})"
            "\n"
            R"({"what":"metadata","path":"m","state":"full","used_bytes":9,"free_bytes":5,"reserve_bytes":6,)"
            R"("below_reserve":true})"
            "\n"
            R"({"what":"total","path":"2 devices","state":"ok","detail":"","capacity_bytes":4000,"used_bytes":2000,)"
            R"("free_bytes":2000,"used_percent":50.0,"bytes_read":7,"bytes_written":8,"objects":2,"object_bytes":1234,"cache_bytes":0,"read_only_reason":"",)"
            R"("advice":"metadata is full, and only deletes are taken: make room on the file system of m, )"
            R"(or delete objects"})"
            "\n");
}

}  // namespace
}  // namespace forebay::app
