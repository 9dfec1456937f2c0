// SPDX-License-Identifier: Apache-2.0
// What comes before a SecureStream: the handshake on a connected socket, and the first bytes through the
// channel. Each step has a deadline and a token. Reactor-local. The channel is borrowed for the call.
#pragma once

#include "base/secure_channel.h"
#include "base/status.h"
#include "rt/operation.h"
#include "rt/reactor.h"
#include "rt/task.h"

namespace forebay::fabric {

/// Ok when both sides accept each other (of TLS 1.3's client: when it accepts the server; what the server
/// thinks of it comes with the first bytes). On an error the peer has been told why, and given a moment to
/// read it.
rt::Task<Status> ShakeHands(rt::Reactor& reactor, int fd, base::SecureChannel& channel, rt::OpOptions until);
rt::Task<Status> SendSecurely(rt::Reactor& reactor, int fd, base::SecureChannel& channel, ByteView bytes,
                              rt::OpOptions until);
/// Fills `into`.
rt::Task<Status> ReceiveSecurely(rt::Reactor& reactor, int fd, base::SecureChannel& channel,
                                 MutableByteView into, rt::OpOptions until);

}  // namespace forebay::fabric
