// SPDX-License-Identifier: Apache-2.0
// DescriptorMessage: a message on a Unix socket with room for descriptors beside its bytes.
// Reactor-local: it stays put while the kernel uses it.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cstring>
#include <vector>

#include "fabric/socket.h"

namespace forebay::fabric {

struct DescriptorMessage {
  /// More than a rightful peer sends at once, so that those of another are seen and closed.
  static constexpr size_t kMaxDescriptors = 4;

  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxDescriptors * sizeof(int))> control{};
  iovec piece{};
  msghdr header{};

  DescriptorMessage(void* data, size_t size) : piece{data, size} {
    header.msg_iov = &piece;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
  }
  DescriptorMessage(const DescriptorMessage&) = delete;
  DescriptorMessage& operator=(const DescriptorMessage&) = delete;

  /// To send: one descriptor, which stays the caller's.
  void Attach(int fd) {
    header.msg_controllen = CMSG_SPACE(sizeof(int));
    cmsghdr* first = CMSG_FIRSTHDR(&header);
    first->cmsg_level = SOL_SOCKET;
    first->cmsg_type = SCM_RIGHTS;
    first->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(first), &fd, sizeof(fd));
  }
  /// To receive without: the kernel drops what comes.
  void RefuseDescriptors() { header.msg_controllen = 0; }
  /// After a receive: owns what came. False when there were more than there was room for.
  bool Collect(std::vector<Socket>& into) {
    for (cmsghdr* at = CMSG_FIRSTHDR(&header); at != nullptr; at = CMSG_NXTHDR(&header, at)) {
      if (at->cmsg_level != SOL_SOCKET || at->cmsg_type != SCM_RIGHTS) continue;
      const size_t count = (at->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (size_t i = 0; i < count; ++i) {
        int fd = -1;
        std::memcpy(&fd, CMSG_DATA(at) + i * sizeof(int), sizeof(fd));
        into.emplace_back(fd);
      }
    }
    return (header.msg_flags & MSG_CTRUNC) == 0;
  }
};

}  // namespace forebay::fabric
