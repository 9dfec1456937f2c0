// SPDX-License-Identifier: Apache-2.0
#include "app/listen_rules.h"

#include "rt/address.h"

namespace forebay::app {

Status ListenRules::Check() const {
  if (!plaintext_control) return {};
  if (tls) return Status::InvalidArgument("--tls and --allow-plaintext-control contradict each other");
  if (!plaintext_data)
    return Status::InvalidArgument(
        "--allow-plaintext-control counts only with --allow-plaintext: a control plane in the clear is asked "
        "for twice");
  return {};
}

Status ListenRules::CheckControl(const std::string& address) const {
  const Result<rt::SocketAddress> parsed = rt::SocketAddress::ParseHostPort(address);
  if (!parsed.ok()) return parsed.status().WithContext("--listen");
  if (parsed->is_loopback() || tls) return {};
  if (plaintext_control && !parsed->is_wildcard()) return {};
  return Status::InvalidArgument(
      "--listen {}: beyond loopback the control plane needs TLS: name its certificate with --tls DIR "
      "(`forebay certs "
      "server` makes one){}",
      address,
      plaintext_control
          ? ", or one address to listen on"
          : "; --allow-plaintext --allow-plaintext-control, both, do without on a network that may be "
            "trusted");
}

Status ListenRules::CheckData(std::string_view option, const std::string& address, bool encrypted) const {
  const Result<rt::SocketAddress> parsed = rt::SocketAddress::ParseHostPort(address);
  if (!parsed.ok()) return parsed.status().WithContext(option);
  if (parsed->is_loopback()) return {};
  if (!encrypted && !plaintext_data)
    return Status::InvalidArgument(
        "{} {}: beyond loopback what is moved there would not be encrypted; --tls DIR encrypts tcp, and "
        "--allow-plaintext says that the network may be trusted",
        option, address);
  if (!parsed->is_wildcard()) return {};
  return Status::InvalidArgument(
      "{} {}: clients are told this address; name one that they can reach, with --data-listen", option,
      address);
}

std::string LocalAddress(const std::string& address) {
  const Result<rt::SocketAddress> parsed = rt::SocketAddress::ParseHostPort(address);
  if (!parsed.ok() || !parsed->is_wildcard()) return address;
  return (parsed->family() == AF_INET6 ? "[::1]:" : "127.0.0.1:") + std::to_string(parsed->port());
}

}  // namespace forebay::app
