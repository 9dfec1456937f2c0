// SPDX-License-Identifier: Apache-2.0
// The installed API against a whole server: control plane over gRPC, data plane over tcp, memory store.
#include "forebay/client.h"

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <future>
#include <thread>

#include <gtest/gtest.h>

#include "auth/credentials.h"
#include "auth/rpc_auth.h"
#include "auth/audit.h"
#include "auth/key_ring.h"
#include "auth/rate_limits.h"
#include "auth/session_table.h"
#include "auth/trusted_clock.h"
#include "base/checksum.h"
#include "base/log.h"
#include "control/capability_authority.h"
#include "control/server.h"
#include "movers_fixture.h"
#include "native/server.h"
#include "rt/reactor_thread.h"
#include "store/memory_store.h"
#include "store/system_records.h"

namespace forebay {
namespace {

Bytes Pattern(size_t size, uint64_t seed) {
  Bytes bytes(size);
  base::SeededRandom(seed).Fill(bytes);
  return bytes;
}

class ClientTest : public testing::TestWithParam<FabricChoice> {
 protected:
  ClientTest()
      : credentials_(auth::Credentials::Generate(random_)),
        fabric_(GetParam().make(random_)),
        thread_(*rt::ReactorThread::Create({.name = "server"})),
        arena_(*base::Arena::Create(256 * base::kMiB)),
        log_(base::Log::Discard()),
        audit_(*log_, clock_),
        store_(*arena_, clock_),
        records_(store_),
        sealer_(credentials_.secret, random_),
        tenants_({.store = store_,
                  .records = records_,
                  .rates = rates_,
                  .clock = clock_,
                  .home = thread_->reactor()}),
        keys_({.records = records_,
               .sealer = sealer_,
               .clock = clock_,
               .random = random_,
               .home = thread_->reactor()}),
        sessions_(clock_, random_),
        authenticator_(
            [this](std::string_view id) {
              return id == credentials_.id ? std::optional(credentials_) : std::nullopt;
            },
            [this](const auth::Capability& capability) { return authority_->Check(capability); }, clock_) {
    char pattern[] = "/tmp/forebay-client-test-XXXXXX";
    directory_ = mkdtemp(pattern);
    EXPECT_EQ(credentials_.Save(directory_ + "/credentials", random_).ToString(), "OK");
    signing_keys_ = *auth::KeyRing::Open(directory_ + "/signing-keys", clock_, random_);
    authority_ = std::make_unique<control::CapabilityAuthority>(
        control::CapabilityAuthority::Parts{.keys = *signing_keys_,
                                            .sessions = sessions_,
                                            .records = records_,
                                            .clock = trusted_clock_,
                                            .random = random_});
    EXPECT_TRUE(thread_->Run([this] { return records_.Open(thread_->reactor()); }).ok());
    EXPECT_TRUE(thread_->Run([this] { return authority_->Load(thread_->reactor()); }).ok());
    StartServer();
  }
  ~ClientTest() override {
    StopServer();
    std::filesystem::remove_all(directory_);
  }

  void StartServer(const std::string& listen = "127.0.0.1:0") {
    data_ = std::make_unique<native::Server>(
        native::ServerOptions{}, std::vector<native::ListenOn>{{*fabric_, GetParam().address}}, store_,
        sessions_, rates_, std::vector<rt::Reactor*>{&thread_->reactor()}, *log_, audit_);
    EXPECT_EQ(thread_->Run([this] { return data_->Start(); }).ToString(), "OK");
    auto control = control::ControlServer::Start(
        {.listen = listen,
         .data_endpoints = {{std::string(fabric_->name()), data_->addresses().front()}},
         .version = "test"},
        {.store = store_,
         .sessions = sessions_,
         .authenticator = authenticator_,
         .rates = rates_,
         .capabilities = *authority_,
         .audit = audit_,
         .random = random_,
         .tenants = tenants_,
         .keys = keys_,
         .reactors = {&thread_->reactor()},
         .clock = clock_,
         .log = *log_});
    EXPECT_TRUE(control.ok()) << control.status().ToString();
    control_ = *std::move(control);
  }
  void StopServer() {
    if (control_) control_->Shutdown(base::Duration::zero());
    if (data_) thread_->Run([this] { return data_->Stop(base::Duration::zero()); });
  }
  ClientOptions Options(unsigned connections = 2) const {
    return {.server = control_->address(),
            .credentials_path = directory_ + "/credentials",
            .connections = connections,
            .timeout = std::chrono::seconds(30),
            .fabric = GetParam().name};
  }
  std::unique_ptr<Client> Connect(unsigned connections = 2) {
    auto client = Client::Connect(Options(connections));
    EXPECT_TRUE(client) << client.error().message;
    EXPECT_TRUE((*client)->CreateBucket("models"));
    return *std::move(client);
  }

  const base::SystemClock clock_;
  base::SecureRandom random_;
  const auth::Credentials credentials_;
  const std::unique_ptr<fabric::Fabric> fabric_;
  const std::unique_ptr<rt::ReactorThread> thread_;
  const std::unique_ptr<base::Arena> arena_;
  const std::unique_ptr<base::Log> log_;
  auth::Audit audit_;
  store::MemoryStore store_;
  auth::TrustedClock trusted_clock_{clock_};
  store::SystemRecords records_;
  const auth::Sealer sealer_;
  auth::RateLimits rates_;
  control::TenantRegistry tenants_;
  control::AccessKeys keys_;
  auth::SessionTable sessions_;
  std::unique_ptr<auth::KeyRing> signing_keys_;
  std::unique_ptr<control::CapabilityAuthority> authority_;
  auth::RpcAuthenticator authenticator_;
  std::unique_ptr<native::Server> data_;
  std::unique_ptr<control::ControlServer> control_;
  std::string directory_;
};

INSTANTIATE_TEST_SUITE_P(Movers, ClientTest, testing::ValuesIn(UsableMovers()),
                         [](const auto& info) { return info.param.TestName(); });

TEST_P(ClientTest, PutsGetsStatsListsAndRemoves) {
  const auto client = Connect();
  const Bytes content = Pattern(3 * base::kMiB + 1, 1);
  const auto put = client->Put("models", "dir/a", content, {.metadata = {{"color", "blue"}}});
  ASSERT_TRUE(put) << put.error().message;
  Bytes into(content.size());
  const auto got = client->Get("models", "dir/a", into);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_TRUE(into == content);
  EXPECT_EQ(got->etag, put->etag);

  const auto info = client->Stat("models", "dir/a");
  ASSERT_TRUE(info) << info.error().message;
  EXPECT_EQ(info->size, content.size());
  EXPECT_EQ(info->crc32c, base::Crc32c(content));
  EXPECT_EQ(info->metadata.at("color"), "blue");
  const auto page = client->List("models", {.delimiter = "/"});
  ASSERT_TRUE(page) << page.error().message;
  EXPECT_EQ(page->common_prefixes, std::vector<std::string>{"dir/"});

  EXPECT_EQ(client->Remove("models", "dir/a", "other").error().code, Code::kFailedPrecondition);
  EXPECT_TRUE(client->Remove("models", "dir/a"));
  EXPECT_EQ(client->Get("models", "dir/a", into).error().code, Code::kNotFound);
}

TEST_P(ClientTest, BucketsAndHealth) {
  const auto client = Connect();
  EXPECT_EQ(client->CreateBucket("models").error().code, Code::kAlreadyExists);
  EXPECT_TRUE(client->CreateBucket("cache", BucketClass::kCache));
  const auto buckets = client->ListBuckets();
  ASSERT_TRUE(buckets) << buckets.error().message;
  ASSERT_EQ(buckets->size(), 2u);
  EXPECT_EQ((*buckets)[0].name, "cache");
  EXPECT_EQ((*buckets)[0].bucket_class, BucketClass::kCache);
  EXPECT_EQ(client->GetBucket("models")->bucket_class, BucketClass::kDurable);
  EXPECT_TRUE(client->DeleteBucket("cache"));
  const auto health = client->Health();
  ASSERT_TRUE(health) << health.error().message;
  EXPECT_TRUE(health->serving);
  EXPECT_TRUE(health->writable);
  EXPECT_EQ(health->version, "test");
  EXPECT_EQ(health->capacity_bytes, 256 * base::kMiB);
  EXPECT_EQ(client->path(), GetParam().name + " to " + data_->addresses().front());
  EXPECT_EQ(client->path_reason().find(GetParam().name + " was asked for"), 0u) << client->path_reason();
}

TEST_P(ClientTest, AMissingBucketNamesTheCommand) {
  const auto client = Connect();
  const auto put = client->Put("absent", "a", AsBytes("x"));
  EXPECT_EQ(put.error().code, Code::kNotFound);
  EXPECT_EQ(put.error().message,
            "bucket `absent` does not exist; create it with: forebay bucket create absent");
}

TEST_P(ClientTest, BatchesShareOneRegion) {
  const auto client = Connect();
  Bytes memory = Pattern(32 * 4096, 2);
  const Bytes content = memory;
  const auto region = client->RegisterRegion(memory);
  ASSERT_TRUE(region);
  std::vector<PutItem> puts;
  std::vector<GetItem> gets;
  std::vector<ObjectName> names;
  for (size_t i = 0; i < 32; ++i) {
    const std::string key = "k" + std::to_string(i);
    puts.push_back({.bucket = "models", .key = key, .region_offset = i * 4096, .length = 4096});
    gets.push_back({.bucket = "models", .key = key, .region_offset = i * 4096, .length = 4096});
    names.push_back({"models", key});
  }
  names.push_back({"models", "absent"});
  const auto put = client->PutBatch(*region, puts);
  ASSERT_TRUE(put) << put.error().message;
  EXPECT_TRUE(std::ranges::all_of(*put, [](const auto& result) { return result.has_value(); }));
  const auto found = client->ExistsBatch(names);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(std::ranges::count_if(*found, [](const auto& result) { return result->found; }), 32);
  std::ranges::fill(memory, std::byte{0});
  const auto got = client->GetBatch(*region, gets);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_TRUE(memory == content);
}

TEST_P(ClientTest, AWriterTakesAPipe) {
  const auto client = Connect();
  for (const size_t size : {size_t{0}, size_t{1}, base::kMiB, base::kMiB + 1, 9 * base::kMiB + 77}) {
    const Bytes content = Pattern(size, size + 1);
    auto writer = client->OpenWriter("models", "pipe");
    ASSERT_TRUE(writer) << writer.error().message;
    for (size_t at = 0; at < size; at += 65'521)  // as a pipe gives it: in odd pieces
      ASSERT_TRUE(writer->Write(ByteView(content).subspan(at, std::min<size_t>(65'521, size - at))));
    const auto put = writer->Commit();
    ASSERT_TRUE(put) << put.error().message;
    EXPECT_EQ(put->size, size);
    EXPECT_EQ(put->crc32c, base::Crc32c(content));
    EXPECT_EQ(writer->Commit().error().code, Code::kFailedPrecondition);
    Bytes into(size);
    ASSERT_TRUE(client->Get("models", "pipe", into));
    EXPECT_TRUE(into == content) << size;
  }
}

TEST_P(ClientTest, AnAbandonedWriterLeavesNothing) {
  const auto client = Connect();
  {
    auto writer = client->OpenWriter("models", "pipe");
    ASSERT_TRUE(writer);
    ASSERT_TRUE(writer->Write(Pattern(3 * base::kMiB, 1)));
  }
  Bytes into(1);
  EXPECT_EQ(client->Get("models", "pipe", into).error().code, Code::kNotFound);
  EXPECT_EQ(client->OpenWriter("absent", "pipe").error().code, Code::kNotFound);
  auto late = client->OpenWriter("models", "once", {.if_absent = true});
  ASSERT_TRUE(late);
  ASSERT_TRUE(client->Put("models", "once", AsBytes("x")));
  EXPECT_EQ(late->Commit().error().code, Code::kAlreadyExists);
}

TEST_P(ClientTest, AReaderGivesOneVersionWhateverHappens) {
  const auto client = Connect();
  const Bytes content = Pattern(23 * base::kMiB + 5, 3);
  ASSERT_TRUE(client->Put("models", "a", content));
  const auto read = [&](GetOptions options) {
    Bytes all;
    auto reader = client->OpenReader("models", "a", options);
    EXPECT_TRUE(reader) << reader.error().message;
    EXPECT_EQ(reader->total_size(), content.size());
    for (;;) {
      const auto next = reader->Next();
      EXPECT_TRUE(next) << next.error().message;
      if (!next || next->empty()) break;
      all.insert(all.end(), next->begin(), next->end());
    }
    return all;
  };
  EXPECT_TRUE(read({}) == content);
  EXPECT_TRUE(std::ranges::equal(read({.offset = 5, .length = 3 * base::kMiB}),
                                 ByteView(content).subspan(5, 3 * base::kMiB)));
  EXPECT_TRUE(read({.offset = content.size()}).empty());
  EXPECT_TRUE(read({.length = 0}).empty());
  EXPECT_EQ(client->OpenReader("models", "a", {.offset = content.size() + 1}).error().code,
            Code::kOutOfRange);
  EXPECT_EQ(client->OpenReader("models", "absent").error().code, Code::kNotFound);

  // Overwritten in the middle: an error, never a mixture.
  auto reader = client->OpenReader("models", "a");
  ASSERT_TRUE(reader);
  size_t seen = 0;
  ASSERT_TRUE(client->Put("models", "a", AsBytes("other")));
  Error error;
  for (;;) {
    const auto next = reader->Next();
    if (!next) {
      error = next.error();
      break;
    }
    ASSERT_FALSE(next->empty());
    ASSERT_TRUE(std::ranges::equal(*next, ByteView(content).subspan(seen, next->size())));
    seen += next->size();
  }
  EXPECT_EQ(error.code, Code::kFailedPrecondition) << error.message;
  EXPECT_LT(seen, content.size());
}

TEST_P(ClientTest, CallbacksKeepADeepQueueWithoutThreads) {
  const auto client = Connect(4);
  const Bytes content = Pattern(4096, 4);
  ASSERT_TRUE(client->Put("models", "a", content));
  constexpr int kGets = 2000;
  std::atomic<int> done{0};
  std::atomic<int> wrong{0};
  std::promise<void> all;
  std::vector<Bytes> memory(16, Bytes(4096));
  std::atomic<int> left{kGets};
  // Each callback starts the next get of its slot.
  std::function<void(size_t)> next = [&](size_t slot) {
    if (left.fetch_sub(1) <= 0) return;
    client->GetAsync("models", "a", memory[slot], {}, [&, slot](std::expected<GetResult, Error> got) {
      if (!got || memory[slot] != content) ++wrong;
      Bytes into(1);
      if (done == 0 && client->Get("models", "a", into).error().code != Code::kFailedPrecondition) ++wrong;
      if (++done == kGets)
        all.set_value();
      else
        next(slot);
    });
  };
  for (size_t slot = 0; slot < memory.size(); ++slot) next(slot);
  all.get_future().wait();
  EXPECT_EQ(wrong, 0);
  std::promise<std::expected<PutResult, Error>> put;
  client->PutAsync("models", "b", content, {},
                   [&](std::expected<PutResult, Error> result) { put.set_value(result); });
  EXPECT_EQ(put.get_future().get()->size, 4096u);
}

TEST_P(ClientTest, TheEndOfAClientFailsWhatIsInFlight) {
  auto client = Connect();
  ASSERT_TRUE(client->Put("models", "a", Pattern(64 * base::kMiB, 4)));
  Bytes into(64 * base::kMiB);
  std::promise<std::expected<GetResult, Error>> got;
  client->GetAsync("models", "a", into, {},
                   [&](std::expected<GetResult, Error> result) { got.set_value(std::move(result)); });
  client.reset();
  auto future = got.get_future();
  ASSERT_EQ(future.wait_for(std::chrono::seconds(0)), std::future_status::ready);
  const auto result = future.get();
  if (!result) EXPECT_EQ(result.error().code, Code::kCancelled) << result.error().message;
}

TEST_P(ClientTest, ARestartedServerIsFoundAgain) {
  const auto client = Connect();
  ASSERT_TRUE(client->Put("models", "a", AsBytes("hello")));
  const std::string address = control_->address();
  StopServer();
  control_.reset();
  Bytes into(5);
  const auto refused = client->Get("models", "a", into, {.timeout = std::chrono::milliseconds(300)});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnavailable);
  // Calls that come while it is away find it when it is back.
  std::promise<std::expected<PutResult, Error>> put;
  client->PutAsync("models", "b", AsBytes("put"), {},
                   [&](std::expected<PutResult, Error> result) { put.set_value(std::move(result)); });
  StartServer(address);
  const auto got = client->Get("models", "a", into);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(AsText(into), "hello");
  const auto stored = put.get_future().get();
  EXPECT_TRUE(stored) << stored.error().message;
  EXPECT_TRUE(client->Remove("models", "b"));
}

TEST_P(ClientTest, ConnectSaysWhatIsWrong) {
  ClientOptions options = Options();
  options.connections = 0;
  EXPECT_EQ(Client::Connect(options).error().code, Code::kInvalidArgument);
  options = Options();
  options.credentials_path = directory_ + "/absent";
  EXPECT_EQ(Client::Connect(options).error().code, Code::kNotFound);
  options.credentials_path = directory_ + "/others";
  ASSERT_TRUE(auth::Credentials::Generate(random_).Save(options.credentials_path, random_).ok());
  const auto unknown = Client::Connect(options);
  EXPECT_EQ(unknown.error().code, Code::kUnauthenticated) << unknown.error().message;
  ASSERT_EQ(chmod(options.credentials_path.c_str(), 0644), 0);
  EXPECT_EQ(Client::Connect(options).error().code, Code::kPermissionDenied);
  options = Options();
  options.timeout = std::chrono::seconds(2);
  StopServer();
  EXPECT_EQ(Client::Connect(options).error().code, Code::kUnavailable);
}

}  // namespace
}  // namespace forebay
