// SPDX-License-Identifier: Apache-2.0
#include "meta/rocks_table_check.h"

#include <gtest/gtest.h>
#include <rocksdb/options.h>
#include <rocksdb/sst_file_writer.h>

#include <fstream>
#include <sstream>

#include "base/random.h"
#include "meta/rocks_options.h"
#include "meta/temporary_directory.h"

namespace forebay::meta {
namespace {

/// A table as RocksDB writes it with the options of a store.
std::string MakeTable() {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/table.sst";
  const RocksSetup setup = MakeSetup({.path = directory.path()});
  rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), rocksdb::Options(setup.db, setup.families[2]));
  EXPECT_TRUE(writer.Open(path).ok());
  for (int i = 100; i < 400; ++i) EXPECT_TRUE(writer.Put(fmt::format("key-{}VERSION1", i), std::string(40, 'v')).ok());
  EXPECT_TRUE(writer.Finish().ok());
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return std::move(out).str();
}

Status Check(const std::string& table) {
  return CheckTable("t.sst", table.size(), [&](uint64_t offset, uint64_t size) -> Result<std::string> {
    EXPECT_LE(offset + size, table.size());
    return table.substr(offset, size);
  });
}

TEST(TableCheckTest, ATableOfOursPasses) {
  const Status status = Check(MakeTable());
  EXPECT_TRUE(status.ok()) << status.ToString();
}

TEST(TableCheckTest, EveryBitFromThePropertiesToTheEndCounts) {
  const std::string table = MakeTable();
  const size_t properties = table.find("rocksdb.block.based.table");  // where the properties block begins, nearly
  ASSERT_NE(properties, std::string::npos);
  for (size_t bit = properties * 8; bit < table.size() * 8; ++bit) {
    std::string damaged = table;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    const Status status = Check(damaged);
    // The footer's index handle may point to another place inside of the file: RocksDB finds a wrong checksum there.
    const bool index_handle = bit / 8 >= table.size() - 53 + 1 && bit / 8 < table.size() - 12;
    if (!index_handle) ASSERT_EQ(status.code(), Code::kDataLoss) << "bit " << bit << " of " << table.size() * 8;
  }
}

TEST(TableCheckTest, AnyLengthAndAnyBytesGetAnAnswer) {
  const std::string table = MakeTable();
  for (size_t size = 0; size < table.size(); size += 1 + size / 50)
    EXPECT_EQ(Check(table.substr(0, size)).code(), Code::kDataLoss);
  base::SeededRandom random(5);
  for (int round = 0; round < 2000; ++round) {
    std::string damaged = table.substr(table.size() - 1000);
    for (int i = 0; i < 3; ++i) damaged[random.Below(damaged.size() - 12)] = static_cast<char>(random.Below(256));
    EXPECT_EQ(Check(damaged).code(), Code::kDataLoss);
  }
}

}  // namespace
}  // namespace forebay::meta
