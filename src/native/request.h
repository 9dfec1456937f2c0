// SPDX-License-Identifier: Apache-2.0
// Request: one request that is being served: its message, its deadline, and what Cancel needs to stop it. The
// connection owns it from the message's arrival to its reply. Reactor-local.
#pragma once

#include <utility>

#include "base/bytes.h"
#include "base/clock.h"
#include "rt/cancel.h"
#include "rt/sync.h"
#include "store/object_store.h"
#include "wire/message.h"

namespace forebay::native {

struct Request {
  /// `view` is of `bytes`: moving a vector leaves its memory where it is.
  Request(rt::Reactor& reactor, Bytes bytes, const wire::MessageView& view, TenantId tenant,
          base::TimePoint deadline)
      : message(std::move(bytes)),
        header(view.header),
        body(view.body),
        payload(view.payload),
        context{
            .reactor = reactor, .tenant = tenant, .operation = view.header.operation, .deadline = deadline},
        transfers(reactor),
        cancels(reactor) {}

  /// Why nothing more is begun for it; ok while it may go on. Asked before each transfer.
  Status Stopped() const {
    if (cancel.cancelled()) return Status::Cancelled("the request was cancelled");
    if (context.reactor.Now() >= context.deadline)
      return Status::DeadlineExceeded("the deadline passed while the server worked on a {}",
                                      wire::TypeName(header.type));
    return {};
  }

  const Bytes message;
  const wire::Header header;
  const ByteView body;
  const ByteView payload;
  const store::Context context;
  rt::CancelToken cancel;
  rt::WaitGroup transfers;  // one-sided operations under way; none starts once `cancel` is cancelled
  rt::WaitGroup cancels;    // Cancel requests that wait for `transfers`
};

}  // namespace forebay::native
