// SPDX-License-Identifier: Apache-2.0
#include "control/handshake_log.h"

#include <chrono>
#include <string_view>

#include "base/mutex.h"

namespace forebay::control {

namespace {

/// A stranger who tries again and again fills no disk.
constexpr uint64_t kLinesASecond = 8;

/// As much of a global as the library's log function is one.
struct Listening {
  base::Mutex mutex;
  base::Log* log FB_GUARDED_BY(mutex) = nullptr;
  std::chrono::steady_clock::time_point second FB_GUARDED_BY(mutex){};  // when the present one began
  uint64_t refused FB_GUARDED_BY(mutex) = 0;                            // since then
};
Listening& TheListening() {
  static Listening listening;
  return listening;
}

/// In words that help, where there are better ones than OpenSSL's.
std::string_view WordsFor(std::string_view reason) {
  if (reason.find("peer did not return a certificate") != std::string_view::npos)
    return "the client has no certificate: its commands need --tls DIR";
  if (reason.find("certificate verify failed") != std::string_view::npos)
    return "the client's certificate is not accepted: another authority's, expired, or not for clients; "
           "`forebay certs "
           "show` on its side tells which";
  if (reason.find("wrong version number") != std::string_view::npos ||
      reason.find("http request") != std::string_view::npos)
    return "the client does not speak TLS: its commands need --tls DIR";
  if (reason.find("alert unknown ca") != std::string_view::npos ||
      reason.find("certificate expired") != std::string_view::npos ||
      reason.find("bad certificate") != std::string_view::npos ||
      reason.find("certificate unknown") != std::string_view::npos)
    return "the client does not accept this server's certificate, and has said so on its side";
  const size_t last = reason.rfind(':');
  return last == std::string_view::npos ? reason : reason.substr(last + 1);
}

}  // namespace

HandshakeLog::HandshakeLog(base::Log& log) : log_(log) {
  base::MutexLock lock(TheListening().mutex);
  TheListening().log = &log;
}

HandshakeLog::~HandshakeLog() {
  base::MutexLock lock(TheListening().mutex);
  if (TheListening().log == &log_) TheListening().log = nullptr;
}

void TellHandshakeLog(const char* message) {
  const std::string_view text = message;
  if (text.find("Handshake failed") == std::string_view::npos) return;
  Listening& listening = TheListening();
  base::MutexLock lock(listening.mutex);
  if (listening.log == nullptr) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - listening.second >= std::chrono::seconds(1)) {
    if (listening.refused > kLinesASecond)
      listening.log->Warning("control: {} more TLS connections were refused",
                             listening.refused - kLinesASecond);
    listening.second = now;
    listening.refused = 0;
  }
  if (++listening.refused > kLinesASecond) return;
  listening.log->Warning("control: a TLS connection was refused: {}", WordsFor(text));
}

}  // namespace forebay::control
