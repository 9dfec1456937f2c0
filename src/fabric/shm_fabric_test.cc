// SPDX-License-Identifier: Apache-2.0
#include "fabric/shm_fabric.h"

#include <unistd.h>

#include <string>
#include <thread>

#include "fabric/fabric_suite.h"
#include "fabric/lent_blocks.h"

namespace forebay::fabric {
namespace {

std::unique_ptr<Fabric> WithRing(base::Random& random, size_t bytes) {
  return std::make_unique<ShmFabric>(random, ShmOptions{.ring_bytes = bytes});
}

/// Whatever can be lent is, at once and both ways, and soon taken back for the next.
std::unique_ptr<Fabric> Lending(base::Random& random) {
  ShmOptions options{.borrows = true};
  options.lent = std::make_shared<LentBlocks>(LentBlocksOptions{.budget_bytes = 8 * base::kMiB,
                                                                .least_bytes = 1,
                                                                .at_first_sight = true,
                                                                .least_stay = base::Duration::zero()});
  return std::make_unique<ShmFabric>(random, std::move(options));
}

// Once as it is, once with a ring that every transfer goes around many times, and once with nothing in it.
INSTANTIATE_TEST_SUITE_P(
    Shm, FabricSuite,
    testing::Values(
        FabricFactory{"shm", "@", [](base::Random& random) { return std::make_unique<ShmFabric>(random); }},
        FabricFactory{"shm_small_ring", "@", [](base::Random& random) { return WithRing(random, 4096); }},
        FabricFactory{"shm_lending", "@", Lending}),
    [](const auto& info) { return info.param.name; });

class ShmFabricTest : public FabricTest {};

// The clock stands still, so nothing is due: whatever the loops did, they would have to do it by asking the
// kernel.
TEST_P(ShmFabricTest, IdleEndsSleep) {
  Connect();
  RoundTrip();
  const auto entries = [](rt::ReactorThread& thread) {
    return thread.Run([&]() -> rt::Task<uint64_t> { co_return thread.reactor().kernel_entries(); });
  };
  const uint64_t a = entries(*initiator_), b = entries(*owner_);
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_LE(entries(*initiator_) - a, 4u);
  EXPECT_LE(entries(*owner_) - b, 4u);
}

TEST_P(ShmFabricTest, PeersAreNamed) {
  Connect();
  EXPECT_EQ(a_->peer(), listener_->address());
  EXPECT_EQ(b_->peer(), "process " + std::to_string(getpid()) + " of user " + std::to_string(geteuid()));
}

INSTANTIATE_TEST_SUITE_P(Shm, ShmFabricTest,
                         testing::Values(FabricFactory{
                             "shm", "@",
                             [](base::Random& random) { return std::make_unique<ShmFabric>(random); }}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace forebay::fabric
