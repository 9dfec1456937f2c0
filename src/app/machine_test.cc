// SPDX-License-Identifier: Apache-2.0
#include "app/machine.h"

#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

namespace forebay::app {
namespace {

namespace fs = std::filesystem;

/// A directory that looks like a machine's root.
class MachineTest : public testing::Test {
 protected:
  MachineTest() {
    char pattern[] = "/tmp/forebay-machine-XXXXXX";
    root_ = mkdtemp(pattern);
  }
  ~MachineTest() override { fs::remove_all(root_); }

  void Write(const std::string& path, const std::string& content) const {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << content << "\n";
  }
  Finding Look(const std::string& what) const {
    const auto findings = LookAtMachine(root_.string());
    const auto found = std::ranges::find(findings, what, &Finding::what);
    EXPECT_NE(found, findings.end());
    return found == findings.end() ? Finding{} : *found;
  }

  fs::path root_;
};

TEST_F(MachineTest, WithoutAnRdmaDeviceItSaysHowToGetOne) {
  const Finding rdma = Look("RDMA");
  EXPECT_EQ(rdma.verdict, Verdict::kBetter);
  EXPECT_EQ(rdma.found, "no RDMA device");
  EXPECT_NE(rdma.remedy.find("rdma link add"), std::string::npos);
}

TEST_F(MachineTest, AnActivePortIsGoodAndAPortThatIsDownIsNot) {
  Write("sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN");
  Write("sys/class/infiniband/mlx5_0/ports/1/link_layer", "Ethernet");
  EXPECT_EQ(Look("RDMA").verdict, Verdict::kBetter);
  Write("sys/class/infiniband/rxe0/ports/1/state", "4: ACTIVE");
  Write("sys/class/infiniband/rxe0/ports/1/link_layer", "Ethernet");
  const Finding rdma = Look("RDMA");
  EXPECT_EQ(rdma.verdict, Verdict::kGood);
  EXPECT_EQ(rdma.found, "mlx5_0 port 1 (Ethernet, 1: DOWN), rxe0 port 1 (Ethernet, 4: ACTIVE)");
}

TEST_F(MachineTest, AGpuWithoutPeerMemoryNamesTheModule) {
  EXPECT_EQ(Look("GPU").verdict, Verdict::kGood);  // none is no fault
  Write("proc/driver/nvidia/gpus/0000:01:00.0/information", "Model: H200");
  EXPECT_EQ(Look("GPU").verdict, Verdict::kBetter);
  EXPECT_NE(Look("GPU").remedy.find("nvidia_peermem"), std::string::npos);
  Write("sys/module/nvidia_peermem/refcnt", "0");
  EXPECT_EQ(Look("GPU").verdict, Verdict::kGood);
}

TEST_F(MachineTest, HugePagesThatAreOffCanBeSwitchedOn) {
  Write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never");
  EXPECT_EQ(Look("huge pages").verdict, Verdict::kGood);
  Write("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]");
  EXPECT_EQ(Look("huge pages").verdict, Verdict::kBetter);
}

}  // namespace
}  // namespace forebay::app
