// SPDX-License-Identifier: Apache-2.0
#include "rt/address.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netdb.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>

namespace forebay::rt {

namespace {

const sockaddr_in& AsV4(const SocketAddress& address) { return *reinterpret_cast<const sockaddr_in*>(address.get()); }
const sockaddr_in6& AsV6(const SocketAddress& address) { return *reinterpret_cast<const sockaddr_in6*>(address.get()); }

template <int (*kAsk)(int, sockaddr*, socklen_t*)>
Result<SocketAddress> Ask(int fd, std::string_view what) {
  sockaddr_storage storage{};
  socklen_t size = sizeof(storage);
  auto* address = reinterpret_cast<sockaddr*>(&storage);
  if (kAsk(fd, address, &size) != 0) return Status::FromErrno(errno, what);
  return SocketAddress(address, size);
}

int GetSockName(int fd, sockaddr* address, socklen_t* size) { return getsockname(fd, address, size); }
int GetPeerName(int fd, sockaddr* address, socklen_t* size) { return getpeername(fd, address, size); }

}  // namespace

SocketAddress::SocketAddress(const sockaddr* address, socklen_t size)
    : size_(std::min<socklen_t>(size, sizeof(storage_))) {
  std::memcpy(&storage_, address, size_);
}

Result<SocketAddress> SocketAddress::Parse(std::string_view host, uint16_t port) {
  std::string_view number = host;
  if (number.size() >= 2 && number.front() == '[' && number.back() == ']') number = number.substr(1, number.size() - 2);
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(port);
  if (inet_pton(AF_INET, std::string(number).c_str(), &v4.sin_addr) == 1) {
    return SocketAddress(reinterpret_cast<const sockaddr*>(&v4), sizeof(v4));
  }
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(port);
  const size_t percent = number.find('%');
  if (percent != std::string_view::npos) {
    v6.sin6_scope_id = if_nametoindex(std::string(number.substr(percent + 1)).c_str());
    if (v6.sin6_scope_id == 0) {
      return Status::InvalidArgument("address `{}`: there is no network interface `{}`", host, number.substr(percent + 1));
    }
  }
  if (inet_pton(AF_INET6, std::string(number.substr(0, percent)).c_str(), &v6.sin6_addr) == 1) {
    return SocketAddress(reinterpret_cast<const sockaddr*>(&v6), sizeof(v6));
  }
  return Status::InvalidArgument("`{}` is not a numeric IPv4 or IPv6 address", host);
}

Result<SocketAddress> SocketAddress::ParseHostPort(std::string_view text) {
  FB_ASSIGN(const HostPort parts, SplitHostPort(text));
  return Parse(parts.host, parts.port);
}

Result<SocketAddress> SocketAddress::LocalOf(int fd) { return Ask<GetSockName>(fd, "getsockname"); }
Result<SocketAddress> SocketAddress::PeerOf(int fd) { return Ask<GetPeerName>(fd, "getpeername"); }

uint16_t SocketAddress::port() const {
  switch (family()) {
    case AF_INET: return ntohs(AsV4(*this).sin_port);
    case AF_INET6: return ntohs(AsV6(*this).sin6_port);
    default: return 0;
  }
}

bool SocketAddress::is_loopback() const {
  constexpr uint32_t kLoopbackNet = 127;
  switch (family()) {
    case AF_INET: return ntohl(AsV4(*this).sin_addr.s_addr) >> 24 == kLoopbackNet;
    case AF_INET6: {
      const in6_addr& address = AsV6(*this).sin6_addr;
      return IN6_IS_ADDR_LOOPBACK(&address) || (IN6_IS_ADDR_V4MAPPED(&address) && address.s6_addr[12] == kLoopbackNet);
    }
    default: return false;
  }
}

bool SocketAddress::is_wildcard() const {
  switch (family()) {
    case AF_INET: return AsV4(*this).sin_addr.s_addr == htonl(INADDR_ANY);
    case AF_INET6: return IN6_IS_ADDR_UNSPECIFIED(&AsV6(*this).sin6_addr);
    default: return false;
  }
}

std::string SocketAddress::ToString() const {
  std::array<char, INET6_ADDRSTRLEN> text{};
  switch (family()) {
    case AF_INET:
      inet_ntop(AF_INET, &AsV4(*this).sin_addr, text.data(), text.size());
      return fmt::format("{}:{}", text.data(), port());
    case AF_INET6: {
      const sockaddr_in6& address = AsV6(*this);
      inet_ntop(AF_INET6, &address.sin6_addr, text.data(), text.size());
      std::array<char, IF_NAMESIZE> interface{};
      if (address.sin6_scope_id != 0 && if_indextoname(address.sin6_scope_id, interface.data()) != nullptr) {
        return fmt::format("[{}%{}]:{}", text.data(), interface.data(), port());
      }
      return fmt::format("[{}]:{}", text.data(), port());
    }
    default: return "(no address)";
  }
}

bool operator==(const SocketAddress& a, const SocketAddress& b) {
  if (a.family() != b.family() || a.port() != b.port()) return false;
  switch (a.family()) {
    case AF_INET: return AsV4(a).sin_addr.s_addr == AsV4(b).sin_addr.s_addr;
    case AF_INET6:
      return AsV6(a).sin6_scope_id == AsV6(b).sin6_scope_id &&
             std::memcmp(&AsV6(a).sin6_addr, &AsV6(b).sin6_addr, sizeof(in6_addr)) == 0;
    default: return true;
  }
}

Result<HostPort> SplitHostPort(std::string_view text) {
  const size_t colon = text.rfind(':');
  const bool bracketed = !text.empty() && text.front() == '[';
  const auto wrong = [&] {
    return Status::InvalidArgument("`{}` is not host:port (IPv6 hosts stand in brackets: [::1]:7400)", text);
  };
  if (colon == std::string_view::npos || colon == 0) return wrong();
  std::string_view host = text.substr(0, colon);
  if (bracketed) {
    if (host.size() < 3 || host.back() != ']') return wrong();
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return wrong();
  }
  const std::string_view digits = text.substr(colon + 1);
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (digits.empty() || error != std::errc() || end != digits.data() + digits.size()) return wrong();
  return HostPort{std::string(host), port};
}

Result<std::vector<SocketAddress>> Resolve(const std::string& host, uint16_t port) {
  if (auto number = SocketAddress::Parse(host, port); number.ok()) return std::vector{*number};
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_ADDRCONFIG | AI_NUMERICSERV;
  addrinfo* first = nullptr;
  const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &first);
  if (error != 0) {
    const std::string reason = error == EAI_SYSTEM ? strerror(errno) : gai_strerror(error);
    if (error == EAI_AGAIN) return Status::Unavailable("host `{}` could not be resolved now: {}", host, reason);
    return Status::NotFound("host `{}` has no address: {}", host, reason);
  }
  std::vector<SocketAddress> addresses;
  for (const addrinfo* at = first; at != nullptr; at = at->ai_next) addresses.emplace_back(at->ai_addr, at->ai_addrlen);
  freeaddrinfo(first);
  return addresses;
}

}  // namespace forebay::rt
