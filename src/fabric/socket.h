// SPDX-License-Identifier: Apache-2.0
// Socket: owns the descriptor of a socket, or none.
// Reactor-local; may be handed over.
#pragma once

#include <utility>

namespace forebay::fabric {

class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket() { Close(); }

  int fd() const { return fd_; }
  void Close();

 private:
  int fd_ = -1;
};

}  // namespace forebay::fabric
