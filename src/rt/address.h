// SPDX-License-Identifier: Apache-2.0
// SocketAddress: an IPv4 or IPv6 address with a port, as a value. Parse takes numbers only and never blocks; Resolve asks
// the system's resolver and does.
// Immutable after construction.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace forebay::rt {

class SocketAddress {
 public:
  SocketAddress() = default;  ///< of no family; invalid for everything
  /// Copies what the kernel filled in; `size` is cut to what fits.
  SocketAddress(const sockaddr* address, socklen_t size);

  /// A numeric host ("127.0.0.1", "::1", "[::1]", "fe80::1%eth0") and a port. InvalidArgument for anything else, names included.
  static Result<SocketAddress> Parse(std::string_view host, uint16_t port);
  /// "host:port", with IPv6 hosts in brackets.
  static Result<SocketAddress> ParseHostPort(std::string_view text);
  /// The address that the socket is bound to, or connected to.
  static Result<SocketAddress> LocalOf(int fd);
  static Result<SocketAddress> PeerOf(int fd);

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  socklen_t size() const { return size_; }
  int family() const { return storage_.ss_family; }
  uint16_t port() const;
  bool is_loopback() const;
  bool is_wildcard() const;  ///< 0.0.0.0 or ::, every address of this machine: nobody can connect to it by this name
  /// "127.0.0.1:7400", "[::1]:7400".
  std::string ToString() const;

  friend bool operator==(const SocketAddress& a, const SocketAddress& b);

 private:
  sockaddr_storage storage_{};
  socklen_t size_ = 0;
};

/// Splits "host:port" ("[::1]:7400" for IPv6) without looking at what the host is.
struct HostPort {
  std::string host;
  uint16_t port = 0;
};
Result<HostPort> SplitHostPort(std::string_view text);

/// Addresses of a name or number, in the resolver's order. BLOCKS for as long as name resolution takes: call it at start,
/// or through Offload. NotFound when the name has no address.
Result<std::vector<SocketAddress>> Resolve(const std::string& host, uint16_t port);

}  // namespace forebay::rt
