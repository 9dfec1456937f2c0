// SPDX-License-Identifier: Apache-2.0
#include "fabric/socket.h"

#include <unistd.h>

namespace forebay::fabric {

void Socket::Close() {
  if (fd_ >= 0) close(std::exchange(fd_, -1));
}

}  // namespace forebay::fabric
