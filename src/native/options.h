// SPDX-License-Identifier: Apache-2.0
// The data-plane server's options and limits, in one place.
// Immutable after Open.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/bytes.h"
#include "base/clock.h"
#include "native/admission.h"

namespace forebay::native {

struct ServerOptions {
  std::string name = "forebay";  // told to clients; at most wire::kMaxPeerNameBytes
  uint32_t max_connections = 20'000;
  uint32_t max_requests = 256;  // in flight on one connection; more are refused at once
  uint32_t max_streams = 16;    // puts of unknown size on one connection
  uint32_t max_readers = 64;    // versions that one connection holds open, each for max_request_time at most
  base::Duration hello_within = std::chrono::seconds(5);
  base::Duration stream_idle = std::chrono::seconds(60);
  base::Duration max_request_time = std::chrono::minutes(10);  // caps what a client asks for
  // Payload in flight: store buffers that requests may hold, on all reactors together and for one request.
  // The first is at most half of the store's memory, so that requests never wait for what others hold; each
  // reactor's share of it is at least one chunk, and no request has more than that share.
  size_t window_bytes = 128 * base::kMiB;
  size_t request_window_bytes = 8 * base::kMiB;
  AdmissionOptions fairness{};  // how tenants share a reactor; its window is taken from the above
};

}  // namespace forebay::native
