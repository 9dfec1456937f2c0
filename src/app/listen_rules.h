// SPDX-License-Identifier: Apache-2.0
// ListenRules: where a server may listen, given what is encrypted and what it was told to leave in the clear.
// On loopback anything goes; beyond it the control plane needs TLS or two flags, and each way of the data
// plane TLS or one. Immutable; thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace forebay::app {

struct ListenRules {
  bool tls = false;                // there are certificates
  bool plaintext_data = false;     // --allow-plaintext
  bool plaintext_control = false;  // --allow-plaintext-control, which needs the other one too

  /// Flags that contradict each other.
  Status Check() const;
  /// InvalidArgument, saying what would make it right. Any address of the machine is one that clients can be
  /// told only by name, so 0.0.0.0 is for the control plane under TLS.
  Status CheckControl(const std::string& address) const;
  /// `option` is what the address came from, for the message; `encrypted`: the mover encrypts what it moves.
  Status CheckData(std::string_view option, const std::string& address, bool encrypted) const;
};

/// What a command on the same machine connects to, where a server listens at `address`.
std::string LocalAddress(const std::string& address);

}  // namespace forebay::app
