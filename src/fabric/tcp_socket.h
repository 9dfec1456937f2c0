// SPDX-License-Identifier: Apache-2.0
// What the tcp fabric does with a socket before it is an endpoint: connect, and exchange preambles. Each step
// has a deadline and a token; a peer that says nothing, too little or something else costs one descriptor
// until then. Reactor-local.
#pragma once

#include "base/secure_channel.h"
#include "base/status.h"
#include "fabric/byte_stream.h"
#include "fabric/fabric.h"
#include "fabric/socket.h"
#include "fabric/tcp_frames.h"
#include "rt/address.h"
#include "rt/operation.h"
#include "rt/reactor.h"
#include "rt/task.h"

namespace forebay::fabric {

Preamble PreambleOf(const EndpointOptions& options, Role role);

/// Connects and greets. Unavailable when nobody listens there, DeadlineExceeded, FailedPrecondition for
/// another version. `secure`, borrowed for the call, makes the channel to do all that through; null: in the
/// clear.
rt::Task<Result<Greeted>> DialTcp(rt::Reactor& reactor, rt::SocketAddress address, EndpointOptions options,
                                  base::TimePoint deadline, base::SecureChannels* secure);
/// The listener's part: waits for the connector's preamble and answers it.
rt::Task<Result<Greeted>> GreetConnector(rt::Reactor& reactor, Socket socket, EndpointOptions options,
                                         rt::OpOptions until, base::SecureChannels* secure);

}  // namespace forebay::fabric
