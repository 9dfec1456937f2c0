// SPDX-License-Identifier: Apache-2.0
#include "fabric/movers.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "fabric/lent_blocks.h"
#include "fabric/shm_fabric.h"
#include "fabric/tcp_fabric.h"
#ifdef FOREBAY_HAS_OFI
#include "fabric/ofi_fabric.h"
#endif
#ifdef FOREBAY_HAS_UCX
#include "fabric/ucx_fabric.h"
#endif

namespace forebay::fabric {

namespace {

constexpr std::array<MoverKind, kMoverKinds> kKinds = {{
    {.name = "shm", .what = "shared memory, on one host", .automatic = true, .network = false},
    {.name = "ofi;verbs", .what = "RDMA, by libfabric", .automatic = true, .network = true},
    {.name = "ucx;rc",
     .what = "RDMA, by UCX, inside of one trust domain",
     .automatic = false,
     .network = true},
    {.name = "tcp", .what = "sockets, on every machine", .automatic = true, .network = true},
    {.name = "tcp;tls",
     .what = "sockets, under TLS 1.3",
     .automatic = true,
     .network = true,
     .encrypted = true},
    {.name = "ofi;tcp",
     .what = "libfabric over sockets: the code of ofi;verbs on any machine",
     .automatic = false,
     .network = true},
}};

size_t IndexOf(std::string_view name) {
  const auto* const found = std::ranges::find(kKinds, name, &MoverKind::name);
  FB_CHECK(found != kKinds.end());
  return static_cast<size_t>(found - kKinds.begin());
}

/// Cheap, where asking libfabric is not.
bool HasRdmaDevice() {
  std::error_code error;
  const std::filesystem::directory_iterator devices("/sys/class/infiniband", error);
  return !error && devices != std::filesystem::directory_iterator();
}

}  // namespace

std::span<const MoverKind, kMoverKinds> MoverKinds() { return kKinds; }
const MoverKind& KindOf(std::string_view name) { return kKinds[IndexOf(name)]; }

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

// ---- looking ----

const Movers::Found& Movers::Look(size_t kind) const {
  Slot& slot = slots_[kind];
  std::call_once(slot.looked, [&] { slot.found = LookFor(kKinds[kind].name); });
  return slot.found;
}

Movers::Found Movers::LookFor(std::string_view name) const {
  Found found;
  if (name == "shm") {
    ShmOptions options{.borrows = side_ == Side::kClient};
    if (lend_bytes_ != 0)
      options.lent = std::make_shared<LentBlocks>(LentBlocksOptions{.budget_bytes = lend_bytes_});
    found.fabric = std::make_unique<ShmFabric>(random_, std::move(options));
    found.detail = "memfd and Unix sockets";
  } else if (name == "tcp") {
    found.fabric = std::make_unique<TcpFabric>(random_);
    found.detail = "the kernel's TCP, by io_uring";
  } else if (name == "tcp;tls" && secure_ != nullptr) {
    found.fabric = std::make_unique<TcpFabric>(random_, secure_);
    found.detail = "the kernel's TCP, by io_uring, and OpenSSL";
  } else if (name == "tcp;tls") {
    found.detail = "no certificates";
    found.remedy = "certificates: --tls DIR, which `forebay certs` makes";
  } else if (name == "ofi;tcp") {
    found = LookForOfi("tcp");
  } else {
    if (HasRdmaDevice()) return name == "ucx;rc" ? LookForUcx() : LookForOfi("verbs");
    found.detail = "no RDMA device";
    found.remedy = "an RDMA NIC with its driver, or Soft-RoCE, and an IP address on it";
  }
  return found;
}

#ifdef FOREBAY_HAS_OFI

Movers::Found Movers::LookForOfi(const std::string& provider) const {
  OfiOptions options;
  options.provider = provider;
  options.domain = side_ == Side::kServer ? OfiOptions::Domain::kShared : OfiOptions::Domain::kPerEndpoint;
  Found found;
  auto opened = OfiFabric::Open(options, random_);
  if (!opened.ok()) {
    found.detail = std::string(opened.status().message());
    return found;
  }
  found.detail = "libfabric, provider " + provider;
  if (provider == "verbs") {
    const auto addresses = (*opened)->Addresses();
    if (addresses.ok()) found.hosts = *addresses;
    for (const std::string& host : found.hosts) found.detail += ", " + host;
  }
  found.arenas = &(*opened)->arenas();
  found.fabric = *std::move(opened);
  return found;
}

#else

Movers::Found Movers::LookForOfi(const std::string&) const {
  Found found;
  found.detail = "this build has no libfabric";
  found.remedy = "build with libfabric-dev installed";
  return found;
}

#endif

#ifdef FOREBAY_HAS_UCX

Movers::Found Movers::LookForUcx() const {
  Found found;
  auto opened = UcxFabric::Open(random_, "rc");
  if (opened.ok()) {
    found.detail = "UCX, transport rc";
    found.fabric = *std::move(opened);
  } else {
    found.detail = std::string(opened.status().message());
  }
  return found;
}

#else

Movers::Found Movers::LookForUcx() const {
  Found found;
  found.detail = "this build has no UCX";
  found.remedy = "build with libucx-dev installed";
  return found;
}

#endif

// ---- telling ----

Fabric* Movers::Find(std::string_view name) const { return Look(IndexOf(name)).fabric.get(); }

std::vector<Fabric*> Movers::automatic() const {
  std::vector<Fabric*> all;
  for (size_t i = 0; i < kKinds.size(); ++i)
    if (kKinds[i].automatic && Look(i).fabric != nullptr) all.push_back(Look(i).fabric.get());
  return all;
}

std::vector<MoverReport> Movers::reports() const {
  std::vector<MoverReport> reports;
  for (size_t i = 0; i < kKinds.size(); ++i) {
    const Found& found = Look(i);
    reports.push_back({.name = std::string(kKinds[i].name),
                       .what = std::string(kKinds[i].what),
                       .usable = found.fabric != nullptr,
                       .found = found.detail,
                       .remedy = found.remedy});
  }
  return reports;
}

const std::string& Movers::Detail(std::string_view name) const { return Look(IndexOf(name)).detail; }

Status Movers::WhyNot(std::string_view name) const {
  const Found& found = Look(IndexOf(name));
  return Status::FailedPrecondition("the mover `{}` cannot be used here: {}{}{}", name, found.detail,
                                    found.remedy.empty() ? "" : "; it needs ", found.remedy);
}

const std::vector<std::string>& Movers::HostsOf(std::string_view name) const {
  return Look(IndexOf(name)).hosts;
}

base::ArenaRegistrar* Movers::ArenasOf(std::string_view name) const { return Look(IndexOf(name)).arenas; }

}  // namespace forebay::fabric
