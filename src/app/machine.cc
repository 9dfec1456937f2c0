// SPDX-License-Identifier: Apache-2.0
#include "app/machine.h"

#include <sys/resource.h>
#include <sys/utsname.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <fmt/format.h>

#include "base/bytes.h"
#include "rt/reactor.h"

namespace forebay::app {
namespace {

namespace fs = std::filesystem;

/// Names in a directory, sorted; none when there is no such directory.
std::vector<std::string> NamesIn(const fs::path& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error))
    names.push_back(entry->path().filename().string());
  std::ranges::sort(names);
  return names;
}

std::string FirstLine(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string Joined(const std::vector<std::string>& parts) {
  std::string all;
  for (const std::string& part : parts) all += (all.empty() ? "" : ", ") + part;
  return all;
}

Finding LookAtRing() {
  utsname system{};
  const bool known = uname(&system) == 0;
  const auto reactor = rt::Reactor::Create({.name = "doctor", .entries = 8});
  if (reactor.ok())
    return {.what = "io_uring",
            .verdict = Verdict::kGood,
            .found = fmt::format("works, kernel {}", known ? system.release : "unknown"),
            .remedy = {}};
  return {.what = "io_uring",
          .verdict = Verdict::kMissing,
          .found = std::string(reactor.status().message()),
          .remedy = "neither server nor client run without it"};
}

/// RDMA registers memory, and so does io_uring for the memory tier.
Finding LookAtMemlock() {
  constexpr uint64_t kPlenty = 4 * base::kGiB;
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0)
    return {
        .what = "memlock", .verdict = Verdict::kBetter, .found = "the limit cannot be read", .remedy = {}};
  if (limit.rlim_cur == RLIM_INFINITY)
    return {.what = "memlock", .verdict = Verdict::kGood, .found = "unlimited", .remedy = {}};
  Finding finding{.what = "memlock",
                  .verdict = Verdict::kGood,
                  .found = base::FormatSize(limit.rlim_cur) + " may be locked",
                  .remedy = {}};
  if (limit.rlim_cur < kPlenty) {
    finding.verdict = Verdict::kBetter;
    finding.remedy =
        "RDMA registers memory, which counts: raise it with LimitMEMLOCK= of systemd, or memlock in "
        "/etc/security/limits.conf";
  }
  return finding;
}

Finding LookAtRdma(const fs::path& root) {
  std::vector<std::string> devices;
  bool active = false;
  for (const std::string& device : NamesIn(root / "sys/class/infiniband")) {
    for (const std::string& port : NamesIn(root / "sys/class/infiniband" / device / "ports")) {
      const fs::path place = root / "sys/class/infiniband" / device / "ports" / port;
      const std::string state = FirstLine(place / "state");
      active = active || state.ends_with("ACTIVE");
      devices.push_back(
          fmt::format("{} port {} ({}, {})", device, port, FirstLine(place / "link_layer"), state));
    }
  }
  if (devices.empty())
    return {.what = "RDMA",
            .verdict = Verdict::kBetter,
            .found = "no RDMA device",
            .remedy =
                "with an RDMA NIC: load its driver (`rdma link` shows it); without one Soft-RoCE "
                "(`rdma link add rxe0 type rxe netdev eth0`) works, at the processor's cost"};
  if (active) return {.what = "RDMA", .verdict = Verdict::kGood, .found = Joined(devices), .remedy = {}};
  return {.what = "RDMA",
          .verdict = Verdict::kBetter,
          .found = Joined(devices),
          .remedy = "no port is active: check the cable, the switch, and `ip link`"};
}

Finding LookAtGpus(const fs::path& root) {
  std::vector<std::string> gpus;
  for (const std::string& gpu : NamesIn(root / "proc/driver/nvidia/gpus")) gpus.push_back("NVIDIA " + gpu);
  if (fs::exists(root / "dev/kfd")) gpus.emplace_back("AMD (kfd)");
  if (gpus.empty())
    return {
        .what = "GPU", .verdict = Verdict::kGood, .found = "none: payload goes to host memory", .remedy = {}};
  const bool peer_memory =
      fs::exists(root / "sys/module/nvidia_peermem") || fs::exists(root / "sys/module/amdgpu");
  if (peer_memory) return {.what = "GPU", .verdict = Verdict::kGood, .found = Joined(gpus), .remedy = {}};
  return {.what = "GPU",
          .verdict = Verdict::kBetter,
          .found = Joined(gpus) + ", without peer memory",
          .remedy = "for RDMA straight into GPU memory: modprobe nvidia_peermem"};
}

Finding LookAtHugePages(const fs::path& root) {
  const std::string mode = FirstLine(root / "sys/kernel/mm/transparent_hugepage/enabled");
  if (mode.find("[never]") == std::string::npos && !mode.empty())
    return {.what = "huge pages", .verdict = Verdict::kGood, .found = "transparent: " + mode, .remedy = {}};
  return {.what = "huge pages",
          .verdict = Verdict::kBetter,
          .found = mode.empty() ? "the kernel has none" : "transparent: " + mode,
          .remedy = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"};
}

}  // namespace

std::vector<Finding> LookAtMachine(const std::string& root) {
  return {LookAtRing(), LookAtMemlock(), LookAtRdma(root), LookAtGpus(root), LookAtHugePages(root)};
}

}  // namespace forebay::app
