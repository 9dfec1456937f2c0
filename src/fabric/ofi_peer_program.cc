// SPDX-License-Identifier: Apache-2.0
// A peer in a process of its own, for ofi_process_test: connects, is told a region, writes chunks into it,
// and after so many of them begins two more and stops or kills itself. For tests only.
//   fabric_ofi_peer PROVIDER ADDRESS CHUNKS CHUNK_BYTES SIGNAL
#include <signal.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "base/arena.h"
#include "base/codec.h"
#include "base/random.h"
#include "fabric/ofi_fabric.h"
#include "rt/reactor.h"
#include "rt/when_all.h"

namespace forebay::fabric {
namespace {

struct Plan {
  std::string provider;
  std::string address;
  uint64_t chunks = 0;
  size_t chunk_bytes = 0;
  int signal = 0;
};

rt::Task<Status> WriteAndDie(rt::Reactor& reactor, Endpoint& endpoint, base::Arena& arena, Plan plan) {
  FB_CO_ASSIGN(const Bytes message, co_await endpoint.Receive());
  base::Decoder decoder(message);
  RegionToken region;
  region.key = decoder.U64();
  region.length = decoder.U64();
  FB_CO_TRY(decoder.Finish("the token"));
  FB_CO_ASSIGN(base::Buffer chunk, arena.Allocate(plan.chunk_bytes));
  std::fill(chunk.writable().begin(), chunk.writable().end(), std::byte{0xAA});
  for (uint64_t i = 0; i < plan.chunks; ++i) {
    FB_CO_TRY(co_await endpoint.Write(region, i * plan.chunk_bytes, {chunk}, base::kNever));
  }
  std::vector<rt::Task<Status>> writes;
  for (uint64_t i = plan.chunks; i < plan.chunks + 2; ++i) {
    writes.push_back(endpoint.Write(region, i * plan.chunk_bytes, {chunk}, base::kNever));
  }
  writes.push_back([](int signal) -> rt::Task<Status> {
    raise(signal);
    co_return Status();
  }(plan.signal));
  for (const Status& status : co_await rt::WhenAll(std::move(writes))) FB_CO_TRY(status);
  // Stopped and going on: until the other side ends it.
  while (true)
    FB_CO_TRY((co_await endpoint.Write(region, 0, {chunk},
                                       base::DeadlineAfter(reactor.Now(), std::chrono::seconds(20)))));
}

rt::Task<Status> Run(rt::Reactor& reactor, Fabric& fabric, base::Arena& arena, Plan plan) {
  FB_CO_ASSIGN(const auto endpoint,
               co_await fabric.Connect(reactor, plan.address, {},
                                       base::DeadlineAfter(reactor.Now(), std::chrono::seconds(20))));
  const Status status = co_await WriteAndDie(reactor, *endpoint, arena, plan);
  co_await endpoint->Fence(Status::Unavailable("done"));
  co_return status;
}

int Main(Plan plan) {
  base::SecureRandom random;
  auto arena = base::Arena::Create(4 * base::kMiB);
  auto reactor = rt::Reactor::Create();
  auto fabric = OfiFabric::Open({.provider = plan.provider}, random);
  if (!arena.ok() || !reactor.ok() || !fabric.ok()) return 2;
  if (!(*arena)->AddRegistrar(&(*fabric)->arenas()).ok()) return 2;
  const Status status = (*reactor)->BlockOn(Run(**reactor, **fabric, **arena, plan));
  (*arena)->RemoveRegistrar(&(*fabric)->arenas());
  // The end that the test looks for: whoever was stopped finds that it was fenced.
  if (status.code() == Code::kUnavailable || status.code() == Code::kPermissionDenied) return 0;
  std::fprintf(stderr, "fabric_ofi_peer: %s\n", status.ToString().c_str());
  return 1;
}

}  // namespace
}  // namespace forebay::fabric

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(stderr, "usage: fabric_ofi_peer PROVIDER ADDRESS CHUNKS CHUNK_BYTES SIGNAL\n");
    return 2;
  }
  return forebay::fabric::Main({.provider = argv[1],
                                .address = argv[2],
                                .chunks = std::strtoull(argv[3], nullptr, 10),
                                .chunk_bytes = std::strtoull(argv[4], nullptr, 10),
                                .signal = std::atoi(argv[5])});
}
