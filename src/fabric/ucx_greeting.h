// SPDX-License-Identifier: Apache-2.0
// How a ucx connection begins: the connector says HELLO, the listener answers with its own, and both look at
// which transports UCX chose before a byte of memory is offered. Each step has a deadline and a token.
// Reactor-local.
#pragma once

#include <memory>

#include "base/status.h"
#include "fabric/fabric.h"
#include "fabric/ucx_channel.h"
#include "fabric/ucx_connection.h"
#include "rt/address.h"
#include "rt/operation.h"
#include "rt/reactor.h"
#include "rt/task.h"

namespace forebay::fabric {

/// Connects and greets. Unavailable when nobody listens there, DeadlineExceeded, FailedPrecondition for
/// another version, PermissionDenied for a transport that checks no keys.
rt::Task<Result<UcxGreeted>> DialUcx(rt::Reactor& reactor, std::shared_ptr<UcxContext> context,
                                     rt::SocketAddress address, EndpointOptions options, rt::OpOptions until);
/// The listener's part, on a channel that was just taken; closes it when that fails.
rt::Task<Result<UcxGreeted>> GreetUcxConnector(std::unique_ptr<UcxChannel> channel,
                                               std::shared_ptr<UcxContext> context, EndpointOptions options,
                                               rt::OpOptions until);

}  // namespace forebay::fabric
