// SPDX-License-Identifier: Apache-2.0
// Registrations: arenas that are registered once, and protection domains that endpoints share.
#include <gtest/gtest.h>

#include "fabric/ofi_fixture.h"
#include "rt/when_all.h"

namespace forebay::fabric {
namespace {

class OfiDomainTest : public FabricTest {
 protected:
  OfiFabric& ofi() { return static_cast<OfiFabric&>(*fabric_); }
  bool device() const { return GetParam().name == "verbs"; }

  Status SendPayload(const Bytes& head, const Bytes& payload) {
    return initiator_->Run([&] { return a_->SendWithPayload(head, BuffersOf(payload)); });
  }
  uint64_t Copied() { return StatsOf(*initiator_, *a_).payload_bytes_copied; }
};

TEST_P(OfiDomainTest, PayloadInARegisteredArenaIsNotCopied) {
  Connect();
  const Bytes head = Pattern(50, 1), payload = Pattern(100'000, 2);
  Bytes expected = head;
  expected.insert(expected.end(), payload.begin(), payload.end());
  EXPECT_TRUE(SendPayload(head, payload).ok());
  EXPECT_EQ(*Receive(*owner_, *b_), expected);
  EXPECT_EQ(Copied(), device() ? payload.size() : 0u);

  const uint64_t before = Copied();
  ASSERT_TRUE(arena_->AddRegistrar(&ofi().arenas()).ok());
  EXPECT_TRUE(SendPayload(head, payload).ok());
  EXPECT_EQ(*Receive(*owner_, *b_), expected);
  EXPECT_EQ(Copied(), before);
  Bytes memory(payload.size());
  const RegionToken region = Offer(memory, Direction::kPeerWrites);
  EXPECT_TRUE(Write(region, 0, payload).ok());
  EXPECT_EQ(memory, payload);

  // Without the registrar it goes on as before.
  arena_->RemoveRegistrar(&ofi().arenas());
  EXPECT_TRUE(SendPayload(head, payload).ok());
  EXPECT_EQ(*Receive(*owner_, *b_), expected);
  EXPECT_EQ(Copied(), before + (device() ? payload.size() : 0u));
  EXPECT_TRUE(Write(region, 0, Bytes(payload.size())).ok());
}

TEST_P(OfiDomainTest, LargeTransfersGoInManyOperations) {
  EndpointOptions options;
  options.max_transfer_bytes = 16 * base::kMiB;
  Connect(options, options);
  const Bytes data = Pattern(10 * base::kMiB + 123, 3);
  Bytes memory(data.size()), read(data.size());
  const RegionToken writes = Offer(memory, Direction::kPeerWrites),
                    reads = Offer(memory, Direction::kPeerReads);
  const Status written = initiator_->Run([&] {
    std::vector<base::Buffer> buffers;
    for (size_t at = 0; at < data.size(); at += base::kMiB - 5) {
      buffers.push_back(
          BufferOf(ByteView(data).subspan(at, std::min<size_t>(base::kMiB - 5, data.size() - at))));
    }
    return a_->Write(writes, 0, std::move(buffers), kNever);
  });
  EXPECT_TRUE(written.ok()) << written.ToString();
  SyncWithOwner();
  EXPECT_EQ(memory, data);
  EXPECT_TRUE(Read(reads, 0, read).ok());
  EXPECT_EQ(read, data);
}

TEST_P(OfiDomainTest, EndpointsOfASharedDomainOfferNothingAndDoTheRest) {
  // The server's side shares; clients have a domain each, and offer.
  auto server_fabric =
      *OfiFabric::Open({.provider = GetParam().name, .domain = OfiOptions::Domain::kShared}, random_);
  ASSERT_TRUE(arena_->AddRegistrar(&server_fabric->arenas()).ok());
  auto listener = initiator_->Run([&]() -> rt::Task<Result<std::unique_ptr<Listener>>> {
    co_return server_fabric->Listen(initiator_->reactor(), GetParam().address, {});
  });
  ASSERT_TRUE(listener.ok()) << listener.status().ToString();
  const auto connect = [&] {
    auto client =
        owner_->Run([&] { return fabric_->Connect(owner_->reactor(), (*listener)->address(), {}, kNever); });
    EXPECT_TRUE(client.ok()) << client.status().ToString();
    auto server = initiator_->Run([&] { return (*listener)->Accept(initiator_->reactor()); });
    return std::pair(*std::move(client), *std::move(server));
  };
  auto [first_client, first_server] = connect();
  auto [second_client, second_server] = connect();
  Bytes memory(1000);
  const auto offer = [&](rt::ReactorThread& thread, Endpoint& endpoint) {
    return thread.Run([&]() -> rt::Task<Result<RegionToken>> {
      co_return endpoint.Offer(memory, Direction::kPeerWrites, kNever);
    });
  };
  for (Endpoint* server : {first_server.get(), second_server.get()}) {
    EXPECT_EQ(offer(*initiator_, *server).status().code(), Code::kFailedPrecondition);
  }
  for (auto [client, server] : {std::pair(first_client.get(), first_server.get()),
                                std::pair(second_client.get(), second_server.get())}) {
    const auto region = offer(*owner_, *client);
    ASSERT_TRUE(region.ok());
    const Bytes data = Pattern(1000, region->key);
    EXPECT_TRUE(initiator_->Run([&] { return server->Write(*region, 0, BuffersOf(data), kNever); }).ok());
    SyncWithOwner();
    EXPECT_EQ(memory, data);
    // The other session's server cannot use it.
    Endpoint& other = server == first_server.get() ? *second_server : *first_server;
    EXPECT_EQ(initiator_->Run([&] { return other.Write(*region, 0, BuffersOf(data), kNever); }).code(),
              Code::kPermissionDenied);
  }
  Fence(*owner_, first_client);
  Fence(*owner_, second_client);
  Fence(*initiator_, first_server);
  Fence(*initiator_, second_server);
  initiator_->Run([&]() -> rt::Task<void> {
    co_await (*listener)->Close();
    listener->reset();
  });
  arena_->RemoveRegistrar(&server_fabric->arenas());
}

INSTANTIATE_TEST_SUITE_P(Ofi, OfiDomainTest, testing::ValuesIn(OfiFactories()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace forebay::fabric
