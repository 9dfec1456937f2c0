// SPDX-License-Identifier: Apache-2.0
// Backups: what makes backups of what a server stores, for Admin/StartBackup and GetBackup. Implemented by
// whoever knows the store's engine; a server without one has no such calls. Thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace forebay::control {

struct BackupState {
  bool done = false;
  uint64_t copied_bytes = 0;
  uint64_t total_bytes = 0;  // 0: not known yet
};

class Backups {
 public:
  virtual ~Backups() = default;
  /// Begins a backup into a new directory on the server's machine, and does not wait for it.
  /// `bytes_per_second` 0: no limit. Gives its number, never 0. Does not block. PermissionDenied where no
  /// backups may go; FailedPrecondition while another one is made, or when the server makes none.
  virtual Result<uint64_t> Start(std::string directory, uint64_t bytes_per_second) = 0;
  /// How far it is, or what it failed with; the last one's answer is kept. NotFound for any other. A backup
  /// that nobody asks for for a while is given up.
  virtual Result<BackupState> Get(uint64_t id) = 0;
};

}  // namespace forebay::control
