// SPDX-License-Identifier: Apache-2.0
#include "fabric/movers.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "fabric/shm_fabric.h"
#include "fabric/tcp_fabric.h"

namespace forebay::fabric {

namespace {

constexpr std::array kKinds = {
    MoverKind{.name = "shm", .what = "shared memory, on one host", .automatic = true, .network = false},
    MoverKind{.name = "tcp", .what = "sockets, on every machine", .automatic = true, .network = true},
};

}  // namespace

std::span<const MoverKind> MoverKinds() { return kKinds; }

const MoverKind& KindOf(std::string_view name) {
  const auto* const found = std::ranges::find(kKinds, name, &MoverKind::name);
  FB_CHECK(found != kKinds.end());
  return *found;
}

Result<std::string> ParseMoverName(std::string_view text) {
  std::string name(text);
  std::ranges::replace(name, ':', ';');
  std::string known;
  for (const MoverKind& kind : kKinds) {
    if (kind.name == name) return name;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", kind.name);
  }
  return Status::InvalidArgument("`{}` is no mover; known are {}", text, known);
}

Movers::Found Movers::Look(std::string_view name, base::Random& random) {
  if (name == "shm")
    return {.fabric = std::make_unique<ShmFabric>(random), .detail = "memfd and Unix sockets", .remedy = {}};
  if (name == "tcp")
    return {.fabric = std::make_unique<TcpFabric>(random),
            .detail = "the kernel's TCP, by io_uring",
            .remedy = {}};
  return {.fabric = nullptr, .detail = "not part of this build", .remedy = {}};
}

Movers::Movers(base::Random& random) {
  for (const MoverKind& kind : kKinds) {
    Found found = Look(kind.name, random);
    reports_.push_back({.name = std::string(kind.name),
                        .what = std::string(kind.what),
                        .usable = found.fabric != nullptr,
                        .found = std::move(found.detail),
                        .remedy = std::move(found.remedy)});
    fabrics_.push_back(std::move(found.fabric));
  }
}

Movers::~Movers() = default;

Fabric* Movers::Find(std::string_view name) const {
  for (size_t i = 0; i < kKinds.size(); ++i)
    if (kKinds[i].name == name) return fabrics_[i].get();
  return nullptr;
}

std::vector<Fabric*> Movers::automatic() const {
  std::vector<Fabric*> all;
  for (size_t i = 0; i < kKinds.size(); ++i)
    if (kKinds[i].automatic && fabrics_[i] != nullptr) all.push_back(fabrics_[i].get());
  return all;
}

Status Movers::WhyNot(std::string_view name) const {
  for (const MoverReport& report : reports_) {
    if (report.name != name) continue;
    return Status::FailedPrecondition("the mover `{}` cannot be used here: {}{}{}", name, report.found,
                                      report.remedy.empty() ? "" : "; ", report.remedy);
  }
  return ParseMoverName(name).status();
}

}  // namespace forebay::fabric
