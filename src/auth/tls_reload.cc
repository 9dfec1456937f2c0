// SPDX-License-Identifier: Apache-2.0
#include "auth/tls_reload.h"

#include <system_error>
#include <utility>

namespace forebay::auth {

Result<std::unique_ptr<ReloadedTls>> ReloadedTls::Open(std::string directory, std::string_view protocol,
                                                       const base::Clock& clock) {
  std::unique_ptr<ReloadedTls> tls(new ReloadedTls(std::move(directory), protocol, clock));
  base::MutexLock lock(tls->mutex_);
  FB_TRY(tls->Load());
  return tls;
}

ReloadedTls::Times ReloadedTls::LookAtTimes() const {
  Times times{};
  std::error_code error;  // a file that is gone has a time of its own
  for (size_t i = 0; const char* const name : {"/ca.crt", "/tls.crt", "/tls.key"})
    times[i++] = std::filesystem::last_write_time(directory_ + name, error);
  return times;
}

Status ReloadedTls::Load() {
  looked_ = clock_.Now();
  const Times times = LookAtTimes();
  FB_ASSIGN(const TlsFiles files, TlsFiles::Load(directory_, CertificateUse::kServer, clock_.WallNow()));
  FB_ASSIGN(context_, TlsContext::ForServer(files, protocol_));
  times_ = times;  // of before: what changed meanwhile is loaded next time
  return {};
}

Result<std::unique_ptr<base::SecureChannel>> ReloadedTls::Make() {
  std::shared_ptr<TlsContext> context;
  {
    base::MutexLock lock(mutex_);
    if (clock_.Now() - looked_ >= kLookAgain) {
      looked_ = clock_.Now();
      if (LookAtTimes() != times_) (void)Load();  // when they are not good the old ones stay
    }
    context = context_;
  }
  return context->Make();
}

}  // namespace forebay::auth
