// SPDX-License-Identifier: Apache-2.0
// ControlConnection: the control plane of the server that flags, environment, profile or default name, for
// commands that move no bytes and so need no data connection. Thread-safe.
#pragma once

#include <memory>

#include "app/invocation.h"
#include "base/clock.h"
#include "base/random.h"
#include "base/status.h"
#include "control/client.h"

namespace forebay::app {

class ControlConnection {
 public:
  static Result<std::unique_ptr<ControlConnection>> Open(const Invocation& invocation);

  control::ControlClient& client() { return *client_; }
  base::Random& random() { return random_; }

 private:
  const base::SystemClock clock_;
  base::SecureRandom random_;
  std::unique_ptr<control::ControlClient> client_;
};

/// What a human reads of a time: to the second.
std::string FormatWallTime(base::WallTime time);

}  // namespace forebay::app
