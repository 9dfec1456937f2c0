// SPDX-License-Identifier: Apache-2.0
// HandshakeLog: while it lives, a server's log says of each TLS connection that gRPC refused why. gRPC tells
// its own log and nobody else, through a function that is one for the whole process: so the log of the server
// that was made last gets the lines of all. A few lines a second; how many were left out is said with the
// next. Thread-safe.
#pragma once

#include "base/log.h"

namespace forebay::control {

class HandshakeLog {
 public:
  /// `log` is borrowed.
  explicit HandshakeLog(base::Log& log);
  ~HandshakeLog();
  HandshakeLog(const HandshakeLog&) = delete;
  HandshakeLog& operator=(const HandshakeLog&) = delete;

 private:
  base::Log& log_;
};

/// For QuietLibraryLogs: what gRPC says, to the log that is there.
void TellHandshakeLog(const char* message);

}  // namespace forebay::control
