// SPDX-License-Identifier: Apache-2.0
// A peer in a process of its own, for ucx_process_test: connects, is told a region, writes chunks into it,
// and with two more under way sends itself a signal. For tests only.
//   fabric_ucx_peer ADDRESS CHUNKS CHUNK_BYTES SIGNAL
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "base/arena.h"
#include "base/codec.h"
#include "base/random.h"
#include "fabric/ucx_fabric.h"
#include "rt/reactor.h"
#include "rt/when_all.h"

namespace forebay::fabric {
namespace {

struct Plan {
  std::string address;
  uint64_t chunks = 0;
  size_t chunk_bytes = 0;
  int signal = 0;
};

rt::Task<Status> Raise(int signal) {
  raise(signal);
  co_return Status();
}

rt::Task<Status> WriteAndRaise(Endpoint& endpoint, base::Arena& arena, Plan plan) {
  FB_CO_ASSIGN(const Bytes message, co_await endpoint.Receive());
  base::Decoder decoder(message);
  RegionToken region;
  region.key = decoder.U64();
  region.length = decoder.U64();
  FB_CO_TRY(decoder.Finish("the token of the region"));
  FB_CO_ASSIGN(base::Buffer chunk, arena.Allocate(plan.chunk_bytes));
  std::ranges::fill(chunk.writable(), std::byte{0xAA});
  for (uint64_t i = 0; i < plan.chunks; ++i) {
    FB_CO_TRY(co_await endpoint.Write(region, i * plan.chunk_bytes, {chunk}, base::kNever));
  }
  std::vector<rt::Task<Status>> tasks;
  for (uint64_t i = plan.chunks; i < plan.chunks + 2; ++i) {
    tasks.push_back(endpoint.Write(region, i * plan.chunk_bytes, {chunk}, base::kNever));
  }
  tasks.push_back(Raise(plan.signal));
  for (const Status& status : co_await rt::WhenAll(std::move(tasks))) FB_CO_TRY(status);
  // Stopped, and going on: until the other side ends it.
  while (true) FB_CO_TRY(co_await endpoint.Write(region, 0, {chunk}, base::kNever));
}

rt::Task<Status> Run(rt::Reactor& reactor, Fabric& fabric, base::Arena& arena, Plan plan) {
  FB_CO_ASSIGN(const auto endpoint,
               co_await fabric.Connect(reactor, plan.address, {}, reactor.Now() + std::chrono::seconds(30)));
  const Status status = co_await WriteAndRaise(*endpoint, arena, plan);
  co_await endpoint->Fence(status);
  co_return status;
}

}  // namespace
}  // namespace forebay::fabric

int main(int count, char** arguments) {
  namespace fabric = forebay::fabric;
  namespace rt = forebay::rt;
  namespace base = forebay::base;
  if (count != 5) return 2;
  const fabric::Plan plan{arguments[1], std::strtoull(arguments[2], nullptr, 10),
                          std::strtoull(arguments[3], nullptr, 10), std::atoi(arguments[4])};
  base::SecureRandom random;
  const auto ucx = fabric::UcxFabric::Open(random, "rc");
  if (!ucx.ok()) {
    (void)std::fprintf(stderr, "fabric_ucx_peer: %s\n", ucx.status().ToString().c_str());
    return 1;
  }
  const auto reactor = *rt::Reactor::Create();
  const auto arena = *base::Arena::Create(base::kMiB);
  return reactor->BlockOn(fabric::Run(*reactor, **ucx, *arena, plan)).ok() ? 0 : 1;
}
