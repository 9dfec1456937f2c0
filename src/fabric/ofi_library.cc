// SPDX-License-Identifier: Apache-2.0
#include "fabric/ofi_library.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include "fabric/ofi_limits.h"

namespace forebay::fabric {

namespace {

constexpr uint32_t kApiVersion = FI_VERSION(1, 17);

/// libfabric reads its settings once, at its first call. With its registration cache on, the verbs provider
/// registers everything for all rights, and keeps keys alive after they were closed.
void TurnRegistrationCacheOff() {
  static std::once_flag once;
  std::call_once(once, [] {
    const char* const given = std::getenv("FI_MR_CACHE_MAX_COUNT");
    if (given == nullptr || std::string_view(given) != "0") setenv("FI_MR_CACHE_MAX_COUNT", "0", 1);
  });
}

InfoHandle Hints(const OfiCalls& calls, const std::string& provider) {
  InfoHandle hints = calls.NewInfo();
  if (hints == nullptr) return hints;
  hints->caps = FI_MSG | FI_RMA;
  hints->mode = FI_RX_CQ_DATA;  // nobody rightful sends such data
  hints->ep_attr->type = FI_EP_MSG;
  hints->domain_attr->threading = FI_THREAD_SAFE;
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  hints->tx_attr->size = kTransferOps + kSendSlots;
  hints->rx_attr->size = kReceiveSlots;
  hints->fabric_attr->prov_name = strdup(provider.c_str());
  return hints;
}

Status NoProvider(const std::string& provider) {
  if (provider == "verbs") {
    return Status::Unavailable(
        "no RDMA device that libfabric's verbs provider can use: `rdma link` shows what the kernel has, "
        "and a device needs an IP address; or use another fabric");
  }
  return Status::Unavailable("libfabric has no provider `{}` here: `fi_info` lists what it has", provider);
}

}  // namespace

void FidClose::Close(fid* object) { fi_close(object); }

// Rare enough to ask for the functions anew: whoever has such an error has the library loaded.
std::string OfiErrorText(int error) {
  const Result<OfiCalls> calls = OfiCalls::Load();
  return calls.ok() ? calls->strerror(error) : fmt::format("error {}", error);
}

Status FromOfiError(int error, std::string_view what) {
  if (error < FI_ERRNO_OFFSET) return Status::FromErrno(error, what);
  return Status::Unavailable("{}: {}", what, OfiErrorText(error));
}

Result<std::shared_ptr<OfiLibrary>> OfiLibrary::Open(std::string provider) {
  if (provider != "verbs" && provider != "tcp") {
    return Status::InvalidArgument("the ofi fabric has no provider `{}`: verbs or tcp", provider);
  }
  TurnRegistrationCacheOff();
  FB_ASSIGN(const OfiCalls calls, OfiCalls::Load());
  std::shared_ptr<OfiLibrary> library(new OfiLibrary(std::move(provider), calls));
  FB_TRY(library->CheckRegistrations());
  return library;
}

Result<InfoHandle> OfiLibrary::ForConnect(const rt::SocketAddress& to) const { return Find(&to, false); }

// The provider tries a port when it is asked for one, and says "no data" for a port in use: so the port comes
// afterwards.
Result<InfoHandle> OfiLibrary::ForListen(const rt::SocketAddress& at) const {
  FB_ASSIGN(const rt::HostPort parts, rt::SplitHostPort(at.ToString()));
  FB_ASSIGN(const rt::SocketAddress any_port, rt::SocketAddress::Parse(parts.host, 0));
  FB_ASSIGN(InfoHandle info, Find(&any_port, true));
  if (info->src_addr == nullptr || info->src_addrlen != at.size()) {
    return Status::Unavailable("libfabric's {} provider cannot listen on {}", provider_, at.ToString());
  }
  std::memcpy(info->src_addr, at.get(), at.size());
  return info;
}

Result<InfoHandle> OfiLibrary::Ask(const rt::SocketAddress* address, bool listen) const {
  const InfoHandle hints = Hints(calls_, provider_);
  if (hints == nullptr || hints->fabric_attr->prov_name == nullptr)
    return Status::ResourceExhausted("no memory");
  std::string host, service;
  if (address != nullptr) {
    FB_ASSIGN(const rt::HostPort parts, rt::SplitHostPort(address->ToString()));
    host = parts.host;
    service = std::to_string(parts.port);
  }
  fi_info* found = nullptr;
  const int error =
      calls_.getinfo(kApiVersion, address == nullptr ? nullptr : host.c_str(),
                     address == nullptr ? nullptr : service.c_str(),
                     address == nullptr ? 0 : FI_NUMERICHOST | (listen ? FI_SOURCE : 0), hints.get(), &found);
  if (error != 0 && error != -FI_ENODATA) {
    return FromOfiError(-error, address == nullptr ? "look for " + provider_ : address->ToString());
  }
  return calls_.Own(found);
}

Result<InfoHandle> OfiLibrary::Find(const rt::SocketAddress* address, bool listen) const {
  FB_ASSIGN(const InfoHandle list, Ask(address, listen));
  for (const fi_info* info = list.get(); info != nullptr; info = info->next) {
    // A layered provider ("verbs;ofi_rxm") is not what was asked for.
    if (info->fabric_attr->prov_name != provider_) continue;
    InfoHandle copy = calls_.Copy(*info);
    if (copy == nullptr) return Status::ResourceExhausted("no memory");
    return copy;
  }
  if (address == nullptr) return NoProvider(provider_);
  return Status::Unavailable("libfabric's {} provider has no device that reaches {}", provider_,
                             address->ToString());
}

Result<std::vector<std::string>> OfiLibrary::Addresses() const {
  FB_ASSIGN(const InfoHandle list, Ask(nullptr, false));
  std::vector<std::string> addresses;
  for (const fi_info* info = list.get(); info != nullptr; info = info->next) {
    const bool internet = info->addr_format == FI_SOCKADDR_IN || info->addr_format == FI_SOCKADDR_IN6;
    if (info->fabric_attr->prov_name != provider_ || !internet || info->src_addr == nullptr) continue;
    const rt::SocketAddress address(static_cast<const sockaddr*>(info->src_addr),
                                    static_cast<socklen_t>(info->src_addrlen));
    FB_ASSIGN(rt::HostPort parts, rt::SplitHostPort(address.ToString()));
    if (std::find(addresses.begin(), addresses.end(), parts.host) == addresses.end())
      addresses.push_back(std::move(parts.host));
  }
  if (addresses.empty()) return NoProvider(provider_);
  return addresses;
}

Result<fid_fabric*> OfiLibrary::FabricOf(const fi_info& info) {
  base::MutexLock lock(mutex_);
  FidHandle<fid_fabric>& entry = fabrics_[info.fabric_attr->name];
  if (entry == nullptr) {
    fid_fabric* fabric = nullptr;
    const int error = calls_.fabric(info.fabric_attr, &fabric, nullptr);
    if (error != 0) return FromOfiError(-error, "open libfabric's fabric");
    entry.reset(fabric);
  }
  return entry.get();
}

OfiTraits OfiLibrary::TraitsOf(const fi_info& info) {
  const auto mode = static_cast<uint64_t>(info.domain_attr->mr_mode);
  const std::string_view provider = info.fabric_attr->prov_name;
  OfiTraits traits;
  traits.local_registration = (mode & FI_MR_LOCAL) != 0;
  traits.virtual_addresses = (mode & FI_MR_VIRT_ADDR) != 0;
  traits.provider_keys = (mode & FI_MR_PROV_KEY) != 0;
  traits.device = provider == "verbs";
  traits.close_is_final = provider == "verbs";
  traits.ask_delivery = provider != "verbs";
  traits.pieces = std::clamp<size_t>(info.tx_attr->iov_limit, 1, kMaxPieces);
  return traits;
}

// Two registrations of one page have one key when libfabric keeps them in a cache (another user of the
// library in this process has started it before us): then no offer could be ended, and none has one direction
// only.
Status OfiLibrary::CheckRegistrations() {
  FB_ASSIGN(const InfoHandle info, Find(nullptr, false));
  if (!TraitsOf(*info).provider_keys) return Status();
  FB_ASSIGN(fid_fabric* const fabric, FabricOf(*info));
  fid_domain* domain = nullptr;
  if (const int error = fi_domain(fabric, info.get(), &domain, nullptr); error != 0) {
    return FromOfiError(-error, "open an RDMA protection domain");
  }
  const FidHandle<fid_domain> domain_owner(domain);
  constexpr size_t kBytes = 4096;
  void* const page = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return Status::ResourceExhausted("no memory");
  fid_mr* first = nullptr;
  fid_mr* second = nullptr;
  int error = fi_mr_reg(domain, page, kBytes, FI_REMOTE_READ, 0, 0, 0, &first, nullptr);
  if (error == 0) error = fi_mr_reg(domain, page, kBytes, FI_REMOTE_READ, 0, 0, 0, &second, nullptr);
  const bool cached = error == 0 && fi_mr_key(first) == fi_mr_key(second);
  if (second != nullptr) fi_close(&second->fid);
  if (first != nullptr) fi_close(&first->fid);
  munmap(page, kBytes);
  if (error != 0) return RegistrationFailed(-error, kBytes);
  if (!cached) return Status();
  return Status::FailedPrecondition(
      "libfabric's registration cache is on in this process: start it with FI_MR_CACHE_MAX_COUNT=0");
}

}  // namespace forebay::fabric
