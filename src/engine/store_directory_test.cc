// SPDX-License-Identifier: Apache-2.0
#include "engine/store_directory.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "engine/rows.h"
#include "engine/store_config.h"
#include "engine/store_files.h"
#include "meta/temporary_directory.h"

namespace forebay::engine {
namespace {

namespace fs = std::filesystem;

class StoreDirectoryTest : public testing::Test {
 protected:
  StoreDirectory::Environment environment() {
    return {.arena = *arena_, .clock = clock_, .random = random_, .log = *log_};
  }
  std::string directory() const { return temporary_.path() + "/store"; }
  std::string In(const std::string& name) const { return directory() + "/" + name; }

  Result<std::unique_ptr<StoreDirectory>> Create(StoreDirectory::CreateOptions create = {
                                                     .size_bytes = 32 * base::kMiB}) {
    return StoreDirectory::Create(directory(), create, environment(), {});
  }
  Result<std::unique_ptr<StoreDirectory>> Open() {
    return StoreDirectory::Open(directory(), environment(), {});
  }

  Status Put(Engine& engine, const std::string& key, const std::string& content) {
    return reactor_->BlockOn([&]() -> rt::Task<Status> {
      const store::Context context{.reactor = *reactor_};
      FB_CO_ASSIGN(const auto writer, co_await engine.Put(context, "bucket", key, {}));
      FB_CO_ASSIGN(base::Buffer buffer, co_await writer->Allocate(context, content.size()));
      std::memcpy(buffer.writable().data(), content.data(), content.size());
      FB_CO_TRY(co_await writer->Write(context, std::move(buffer)));
      co_return (co_await writer->Commit(context, std::nullopt)).status();
    });
  }
  std::string Get(Engine& engine, const std::string& key) {
    return reactor_->BlockOn([&]() -> rt::Task<std::string> {
      const store::Context context{.reactor = *reactor_};
      const auto reader = co_await engine.Open(context, "bucket", key, {});
      if (!reader.ok()) co_return reader.error().ToString();
      const auto data = co_await (*reader)->Read(context, 0, (*reader)->info().size_bytes);
      if (!data.ok()) co_return data.error().ToString();
      std::string content;
      for (const base::Buffer& buffer : data->buffers) content += AsText(buffer.view());
      co_return content;
    });
  }
  Status CreateBucket(Engine& engine) {
    return reactor_->BlockOn(engine.CreateBucket({.reactor = *reactor_}, {.name = "bucket"}));
  }
  void Close(std::unique_ptr<StoreDirectory> store) { reactor_->BlockOn(store->engine().Drain(*reactor_)); }

  static std::string ReadFile(const std::string& path) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }

  meta::TemporaryDirectory temporary_;
  base::SystemClock clock_;
  base::SecureRandom random_;
  std::unique_ptr<base::Log> log_ = base::Log::Discard();
  std::unique_ptr<base::Arena> arena_ = *base::Arena::Create(16 * base::kMiB);
  std::unique_ptr<rt::Reactor> reactor_ = *rt::Reactor::Create();
};

TEST_F(StoreDirectoryTest, IsNotMadeAmongOtherFiles) {
  fs::create_directories(In("lost+found"));  // as on a fresh file system
  std::ofstream(In("thesis.tex")) << "years of work";
  const auto refused = Create();
  EXPECT_EQ(refused.status().code(), Code::kFailedPrecondition);
  EXPECT_NE(refused.status().message().find("thesis.tex"), std::string::npos) << refused.status().ToString();
  EXPECT_FALSE(fs::exists(In("lock")));
  fs::remove(In("thesis.tex"));
  EXPECT_TRUE(Create().ok());
}

TEST_F(StoreDirectoryTest, MakesAStoreThatOpensAgainWithItsContent) {
  const std::string content(100'000, 'c');
  {
    auto store = Create();
    ASSERT_TRUE(store.ok()) << store.status().ToString();
    ASSERT_TRUE(CreateBucket((*store)->engine()).ok());
    ASSERT_TRUE(Put((*store)->engine(), "small", "inline").ok());
    ASSERT_TRUE(Put((*store)->engine(), "large", content).ok());
    Close(*std::move(store));
  }
  for (const char* name : {"store.toml", "data0", "meta", "lock"}) EXPECT_TRUE(fs::exists(In(name))) << name;
  EXPECT_EQ(fs::file_size(In("data0")), 32 * base::kMiB);
  auto store = Open();
  ASSERT_TRUE(store.ok()) << store.status().ToString();
  EXPECT_EQ(Get((*store)->engine(), "small"), "inline");
  EXPECT_EQ(Get((*store)->engine(), "large"), content);
  Close(*std::move(store));
}

TEST_F(StoreDirectoryTest, NotFoundTellsHowToMakeOneAndLeavesNothing) {
  const auto store = Open();
  EXPECT_EQ(store.status().code(), Code::kNotFound);
  EXPECT_NE(store.status().message().find("forebay serve"), std::string::npos);
  EXPECT_FALSE(fs::exists(directory()));
}

TEST_F(StoreDirectoryTest, ASecondServerIsToldWhoHasIt) {
  const auto first = Create();
  ASSERT_TRUE(first.ok());
  const auto second = Open();
  ASSERT_EQ(second.status().code(), Code::kFailedPrecondition);
  EXPECT_NE(
      second.status().message().find("in use by another process (process " + std::to_string(::getpid())),
      std::string::npos)
      << second.status().ToString();
}

TEST_F(StoreDirectoryTest, DoesNotMakeAStoreTwice) {
  ASSERT_TRUE(Create().ok());
  EXPECT_EQ(Create().status().code(), Code::kAlreadyExists);
}

TEST_F(StoreDirectoryTest, ACreationThatWasInterruptedStartsOver) {
  ASSERT_TRUE(Create().ok());
  fs::rename(In("store.toml"), In("store.toml.new"));
  EXPECT_EQ(Open().status().code(), Code::kNotFound);
  const auto store = Create();
  ASSERT_TRUE(store.ok()) << store.status().ToString();
  EXPECT_FALSE(fs::exists(In("store.toml.new")));
}

TEST_F(StoreDirectoryTest, ACreationThatWasInterruptedInItsFirstWriteStartsOver) {
  fs::create_directories(directory());
  std::ofstream(In("store.toml.new")) << "format = 1\nsto";
  EXPECT_TRUE(Create().ok());
}

TEST_F(StoreDirectoryTest, DoesNotTouchAStoreThatLostItsConfiguration) {
  ASSERT_TRUE(Create().ok());
  const std::string config = ReadFile(In("store.toml"));
  fs::remove(In("store.toml"));
  EXPECT_EQ(Create().status().code(), Code::kFailedPrecondition);
  std::ofstream(In("store.toml")) << config;
  EXPECT_TRUE(Open().ok());
}

TEST_F(StoreDirectoryTest, DoesNotTakeOverADeviceThatHoldsSomething) {
  const std::string device = temporary_.path() + "/device";
  {
    std::ofstream(device) << std::string(4 << 20, 'x');
  }
  const auto store = Create({.size_bytes = 0, .devices = {device}});
  ASSERT_EQ(store.status().code(), Code::kFailedPrecondition);
  EXPECT_NE(store.status().message().find("is not empty"), std::string::npos);
  EXPECT_EQ(ReadFile(device), std::string(4 << 20, 'x'));
}

TEST_F(StoreDirectoryTest, SeveralDevicesBelongTogetherInTheirOrder) {
  const std::vector<std::string> devices = {temporary_.path() + "/a", temporary_.path() + "/b"};
  {
    auto store = Create({.size_bytes = 8 * base::kMiB, .devices = devices});
    ASSERT_TRUE(store.ok()) << store.status().ToString();
    EXPECT_EQ((*store)->engine().usage().capacity_bytes, 14 * base::kMiB);
  }
  StoreConfig config = *ParseStoreConfig(ReadFile(In("store.toml")), "store.toml");
  std::swap(config.devices[0], config.devices[1]);
  std::ofstream(In("store.toml")) << FormatStoreConfig(config);
  EXPECT_EQ(Open().status().code(), Code::kFailedPrecondition);
}

TEST_F(StoreDirectoryTest, AMissingPartIsNotAnEmptyStore) {
  ASSERT_TRUE(Create().ok());
  fs::rename(In("meta"), In("moved"));
  EXPECT_EQ(Open().status().code(), Code::kDataLoss);
  fs::rename(In("moved"), In("meta"));
  fs::rename(In("data0"), In("moved"));
  EXPECT_EQ(Open().status().code(), Code::kDataLoss);
}

TEST_F(StoreDirectoryTest, ANewerFormatIsRefused) {
  ASSERT_TRUE(Create().ok());
  std::string config = ReadFile(In("store.toml"));
  config.replace(config.find("format = 1"), 10, "format = 3");
  std::ofstream(In("store.toml")) << config << "something = \"new\"\n";
  const auto store = Open();
  EXPECT_EQ(store.status().code(), Code::kFailedPrecondition);
  EXPECT_NE(store.status().message().find("use a newer forebay"), std::string::npos);
}

TEST_F(StoreDirectoryTest, CheckFindsAStoreCleanAndThenItsDamage) {
  {
    auto store = Create();
    ASSERT_TRUE(CreateBucket((*store)->engine()).ok());
    ASSERT_TRUE(Put((*store)->engine(), "object", std::string(100'000, 'o')).ok());
    Close(*std::move(store));
  }
  const auto clean = StoreDirectory::Check(directory(), {.verify_data = true}, environment());
  ASSERT_TRUE(clean.ok()) << clean.status().ToString();
  EXPECT_TRUE(clean->clean()) << clean->errors[0];
  EXPECT_EQ(clean->objects, 1U);
  EXPECT_EQ(clean->verified_bytes, 100'000U);
  {
    std::string data = ReadFile(In("data0"));
    data[data.find("oooo") + 70'000] = 'x';
    std::ofstream(In("data0")) << data;
  }
  const auto damaged = StoreDirectory::Check(directory(), {.verify_data = true}, environment());
  ASSERT_TRUE(damaged.ok());
  EXPECT_EQ(damaged->error_count, 2U) << "the extent and the object";
}

TEST(StoreConfigTest, ComesBack) {
  StoreConfig config{.store = {}, .devices = {{.path = "data0"}, {.path = "/dev/disk/by-id/nvme \"quoted\" \\ path"}}};
  ASSERT_TRUE(Uuid::Parse("00112233-4455-4677-8899-aabbccddeeff", &config.store));
  const Result<StoreConfig> back = ParseStoreConfig(FormatStoreConfig(config), "store.toml");
  ASSERT_TRUE(back.ok()) << back.status().ToString();
  EXPECT_EQ(*back, config);
}

TEST(StoreConfigTest, MirrorsAndRemovedDevicesHaveAFormatThatOlderProgramsRefuse) {
  StoreConfig config{.store = {},
                     .devices = {{.path = "gone", .removed = true}, {.path = "a", .mirror = "b"}, {.path = "c"}}};
  ASSERT_TRUE(Uuid::Parse("00112233-4455-4677-8899-aabbccddeeff", &config.store));
  const std::string text = FormatStoreConfig(config);
  EXPECT_NE(text.find("\nformat = 2\n"), std::string::npos);
  EXPECT_NE(text.find("\nremoved0 = \"gone\"\ndevice1 = \"a\"\nmirror1 = \"b\"\ndevice2 = \"c\"\n"), std::string::npos);
  EXPECT_EQ(*ParseStoreConfig(text, "store.toml"), config);
  std::string older = text;
  older.replace(older.find("format = 2"), 10, "format = 1");
  EXPECT_EQ(ParseStoreConfig(older, "s.toml").status().code(), Code::kInvalidArgument);
  const std::string none = "format = 2\nstore = \"00112233-4455-4677-8899-aabbccddeeff\"\nremoved0 = \"a\"\n";
  EXPECT_NE(ParseStoreConfig(none, "s.toml").status().message().find("all devices are removed"), std::string::npos);
}

TEST(StoreConfigTest, NamesTheLineThatIsWrong) {
  const std::string good = "format = 1\nstore = \"00112233-4455-4677-8899-aabbccddeeff\"\n";
  const auto message = [&](const std::string& more) {
    return std::string(ParseStoreConfig(good + more, "s.toml").status().message());
  };
  EXPECT_NE(message("device0 = data0\n").find("s.toml:3: expected"), std::string::npos);
  EXPECT_NE(message("device0 = \"data0\n").find("s.toml:3: expected"), std::string::npos);
  EXPECT_NE(message("device0 = \"a\"\ndevice0 = \"b\"\n").find("s.toml:4: `device0` is there twice"),
            std::string::npos);
  EXPECT_NE(message("device0 = \"a\"\ncolor = 3 # red\n").find("s.toml:4: `color` is not known"),
            std::string::npos);
  EXPECT_NE(message("device1 = \"a\"\n").find("`device0` is missing"), std::string::npos);
  EXPECT_NE(message("device0 = 7\n").find("wants text in quotes"), std::string::npos);
}

/// Changes a row behind the engine's back.
class DamageTransaction final : public meta::Transaction {
 public:
  DamageTransaction(meta::Family family, std::string key, std::string value)
      : family_(family), key_(std::move(key)), value_(std::move(value)) {}
  Status Prepare(meta::View& /*view*/, meta::Batch& batch) override {
    batch.Put(family_, key_, value_);
    return {};
  }
  bool needs_data_flush() const override { return false; }
  void Done(const Status& /*outcome*/) override {}

 private:
  const meta::Family family_;
  const std::string key_;
  const std::string value_;
};

TEST_F(StoreDirectoryTest, ADamagedStoreIsRepairedAndWhatWentIsKept) {
  {
    auto store = *Create();
    ASSERT_TRUE(CreateBucket(store->engine()).ok());
    ASSERT_TRUE(Put(store->engine(), "key", std::string(5000, 'x')).ok());
    Close(std::move(store));
  }
  {
    const auto meta = *OpenMeta(StorePaths(directory()).meta(), {}, clock_);
    for (const auto& [family, key] : {std::pair(meta::Family::kBuckets, std::string("bucket")),
                                      std::pair(meta::Family::kInline, NumberKey(77))})
      ASSERT_TRUE(
          reactor_->BlockOn(meta->Commit(*reactor_, std::make_unique<DamageTransaction>(family, key, "nonsense")))
              .ok());
  }
  const auto planned = StoreDirectory::Repair(directory(), {}, {}, false, environment());
  ASSERT_TRUE(planned.ok()) << planned.status().ToString();
  EXPECT_FALSE(planned->before.clean());
  EXPECT_FALSE(planned->plan.empty());
  EXPECT_EQ(planned->record, "");
  EXPECT_FALSE(fs::exists(In("lost"))) << "nothing was touched";
  const auto repaired = StoreDirectory::Repair(directory(), {}, {}, true, environment());
  ASSERT_TRUE(repaired.ok()) << repaired.status().ToString();
  EXPECT_TRUE(repaired->after.clean());
  const std::string record = ReadFile(repaired->record);
  EXPECT_NE(record.find("\nbuckets 6275636b6574 6e6f6e73656e7365 the row of bucket `bucket`\n"), std::string::npos)
      << record;
  EXPECT_TRUE(repaired->record.starts_with(In("lost/repair-"))) << repaired->record;
  const auto again = StoreDirectory::Repair(directory(), {}, {}, true, environment());
  EXPECT_EQ(again->record, "") << "there was nothing to do";
  auto store = Open();
  ASSERT_TRUE(store.ok()) << store.status().ToString();
  EXPECT_EQ(Get((*store)->engine(), "key"), std::string(5000, 'x'));
  Close(*std::move(store));
}

}  // namespace
}  // namespace forebay::engine
