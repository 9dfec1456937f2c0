// SPDX-License-Identifier: Apache-2.0
// ReloadedTls: a server's TlsContext that follows its files: new connections use new certificates without a
// restart. Files that are not good, half replaced ones among them, are left alone, and looked at again.
// Thread-safe.
#pragma once

#include <array>
#include <filesystem>
#include <memory>
#include <string>

#include "auth/tls_context.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/secure_channel.h"

namespace forebay::auth {

class ReloadedTls final : public base::SecureChannels {
 public:
  /// The files are looked at when a connection comes, and this has passed. The control plane's gRPC has the
  /// same.
  static constexpr base::Duration kLookAgain = std::chrono::seconds(10);

  /// Fails as TlsFiles::Load does. `clock` is borrowed.
  static Result<std::unique_ptr<ReloadedTls>> Open(std::string directory, std::string_view protocol,
                                                   const base::Clock& clock);

  Result<std::unique_ptr<base::SecureChannel>> Make() override;

 private:
  /// When each of the files was last changed.
  using Times = std::array<std::filesystem::file_time_type, 3>;

  ReloadedTls(std::string directory, std::string_view protocol, const base::Clock& clock)
      : directory_(std::move(directory)), protocol_(protocol), clock_(clock) {}
  Times LookAtTimes() const;
  Status Load() FB_REQUIRES(mutex_);

  const std::string directory_;
  const std::string protocol_;
  const base::Clock& clock_;
  base::Mutex mutex_;
  std::shared_ptr<TlsContext> context_ FB_GUARDED_BY(mutex_);  // shared with the calls that use the last one
  Times times_ FB_GUARDED_BY(mutex_){};
  base::TimePoint looked_ FB_GUARDED_BY(mutex_){};
};

}  // namespace forebay::auth
