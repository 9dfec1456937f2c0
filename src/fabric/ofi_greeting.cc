// SPDX-License-Identifier: Apache-2.0
#include "fabric/ofi_greeting.h"

#include <utility>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>

#include "fabric/limits.h"

namespace forebay::fabric {

namespace {
EndpointOptions Agreed(const EndpointOptions& own, const OfiPreamble& peer) {
  EndpointOptions theirs;
  theirs.max_message_bytes = peer.max_message_bytes;
  theirs.max_transfer_bytes = peer.max_transfer_bytes;
  theirs.max_transfers = peer.max_transfers;
  return CommonLimits(own, theirs);
}
}  // namespace

Result<std::shared_ptr<OfiDomain>> OfiDomains::For(const fi_info& info) {
  if (!share_) return OfiDomain::Open(library_, info, arenas_);
  base::MutexLock lock(mutex_);
  std::shared_ptr<OfiDomain>& domain = shared_[info.domain_attr->name];
  if (domain == nullptr) {
    FB_ASSIGN(domain, OfiDomain::Open(library_, info, arenas_));
  }
  return domain;
}

OfiPreamble OfiPreambleOf(const EndpointOptions& options, Role role) {
  return {.role = role,
          .max_message_bytes = static_cast<uint32_t>(options.max_message_bytes),
          .max_transfer_bytes = static_cast<uint32_t>(options.max_transfer_bytes),
          .max_transfers = options.max_transfers,
          .slot_bytes = kSlotBytes,
          .slots = kReceiveSlots};
}

Result<std::unique_ptr<OfiLink>> StartDial(OfiDomains& domains, const rt::SocketAddress& address,
                                           const EndpointOptions& options) {
  FB_ASSIGN(const InfoHandle info, domains.library()->ForConnect(address));
  FB_ASSIGN(auto domain, domains.For(*info));
  FB_ASSIGN(auto link, OfiLink::Open(std::move(domain), *info));
  FB_TRY(link->Connect(EncodeOfiPreamble(OfiPreambleOf(options, Role::kConnector))));
  return link;
}

rt::Task<Result<OfiGreeted>> FinishDial(rt::Reactor& reactor, std::unique_ptr<OfiLink> link, std::string peer,
                                        EndpointOptions options, bool offers, base::TimePoint deadline) {
  auto hello = co_await link->AwaitConnected(reactor, {.deadline = deadline});
  if (!hello.ok()) {
    const auto said = DecodeOfiPreamble(link->refusal(), Role::kListener);
    const bool other_version = said.status().code() == Code::kFailedPrecondition;
    co_return (other_version ? said.status() : hello.status()).WithContext("connect to " + peer);
  }
  const auto theirs = DecodeOfiPreamble(*hello, Role::kListener);
  if (!theirs.ok()) co_return theirs.status().WithContext("connect to " + peer);
  co_return OfiGreeted{std::move(link), std::move(peer), Agreed(options, *theirs), *theirs, offers};
}

Result<std::unique_ptr<OfiLink>> AcceptOfi(OfiDomains& domains, const fi_info& request,
                                           const EndpointOptions& options) {
  FB_ASSIGN(auto domain, domains.For(request));
  FB_ASSIGN(auto link, OfiLink::Open(std::move(domain), request));
  FB_TRY(link->Accept(EncodeOfiPreamble(OfiPreambleOf(options, Role::kListener))));
  return link;
}

rt::Task<Result<OfiGreeted>> FinishAccept(rt::Reactor& reactor, std::unique_ptr<OfiLink> link,
                                          OfiPreamble theirs, EndpointOptions options, bool offers,
                                          rt::OpOptions until) {
  FB_CO_TRY(co_await link->AwaitConnected(reactor, until));
  std::string peer = link->PeerAddress();
  co_return OfiGreeted{std::move(link), std::move(peer), Agreed(options, theirs), theirs, offers};
}

}  // namespace forebay::fabric
