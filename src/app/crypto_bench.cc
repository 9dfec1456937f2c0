// SPDX-License-Identifier: Apache-2.0
#include "app/crypto_bench.h"

#include <algorithm>
#include <ctime>
#include <memory>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "app/exit_status.h"
#include "app/json.h"
#include "auth/certificates.h"
#include "auth/mac.h"
#include "auth/tls_context.h"
#include "base/clock.h"
#include "base/random.h"

namespace forebay::app {
namespace {

/// A header and the body of a get of one object, about; what src/auth/README.md counts with.
constexpr size_t kMessageBytes = 160;
/// Signed and verified by each side: the request by one, the reply by the other.
constexpr int kMacsOfARequest = 4;
constexpr double kSeconds = 0.5;
/// Of something so short that looking at the clock would count.
constexpr int kRepeats = 256;

struct Cost {
  std::string what;
  size_t bytes = 0;
  double seconds = 0;  // of processor time, each time

  double seconds_per_gib() const {
    return seconds * static_cast<double>(base::kGiB) / static_cast<double>(bytes);
  }
};

/// Of this thread: what others take of a busy machine is not counted.
double CpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

/// The mean over half a second of processor time. `function` gives ok while it works.
template <typename Function>
Result<double> SecondsOf(Function function) {
  const double begun = CpuSeconds();
  uint64_t times = 0;
  for (; CpuSeconds() - begun < kSeconds; ++times) FB_TRY(function());
  return (CpuSeconds() - begun) / static_cast<double>(times);
}

Result<Cost> CostOfMac() {
  base::SecureRandom random;
  const auth::Secret key = auth::Secret::Generate(random);
  const auth::MessageMac mac(key.view());
  Bytes message(kMessageBytes);
  FB_ASSIGN(const double seconds, SecondsOf([&] {
              for (int i = 0; i < kRepeats; ++i)
                message[0] = mac.Compute(message)[0];  // so that the work is needed
              return Status();
            }));
  return Cost{.what = fmt::format("MAC of a message of {} bytes", kMessageBytes),
              .bytes = kMessageBytes,
              .seconds = seconds / kRepeats};
}

/// Both ends of a connection that exists in memory only.
struct TlsPair {
  std::unique_ptr<base::SecureChannel> client;
  std::unique_ptr<base::SecureChannel> server;

  static Result<TlsPair> Make();
  static void Carry(base::SecureChannel& from, base::SecureChannel& to) {
    const ByteView bytes = from.outgoing();
    const size_t size = std::min(bytes.size(), to.incoming().size());
    std::copy_n(bytes.begin(), size, to.incoming().begin());
    to.Received(size);
    from.Sent(size);
  }
  /// From the server's memory to the client's.
  Status Move(ByteView from, MutableByteView to) const {
    while (!to.empty()) {
      const iovec piece{const_cast<std::byte*>(from.data()), from.size()};  // only read
      FB_ASSIGN(const size_t sealed, server->Seal({&piece, 1}));
      from = from.subspan(sealed);
      Carry(*server, *client);
      const iovec place{to.data(), to.size()};
      FB_ASSIGN(const size_t opened, client->Open({&place, 1}));
      to = to.subspan(opened);
    }
    return {};
  }
};

Result<auth::TlsFiles> FilesOf(const auth::CertifiedKey& authority, auth::CertificateUse use,
                               base::WallTime now) {
  FB_ASSIGN(auth::CertifiedKey leaf,
            auth::Issue(authority, {.name = "bench", .hosts = {"bench"}, .use = use}, now));
  auth::TlsFiles files;
  files.directory = "memory";
  files.authority_pem = authority.certificate_pem;
  files.certificate_pem = std::move(leaf.certificate_pem);
  files.key_pem = std::move(leaf.key_pem);
  return files;
}

Result<TlsPair> TlsPair::Make() {
  const base::WallTime now = base::SystemClock().WallNow();
  FB_ASSIGN(const auth::CertifiedKey authority, auth::MakeAuthority("bench", 366, now));
  FB_ASSIGN(const auth::TlsFiles client_files, FilesOf(authority, auth::CertificateUse::kClient, now));
  FB_ASSIGN(const auth::TlsFiles server_files, FilesOf(authority, auth::CertificateUse::kServer, now));
  FB_ASSIGN(const auto client, auth::TlsContext::ForClient(client_files, auth::kDataProtocol, "bench"));
  FB_ASSIGN(const auto server, auth::TlsContext::ForServer(server_files, auth::kDataProtocol));
  TlsPair pair;
  FB_ASSIGN(pair.client, client->Make());
  FB_ASSIGN(pair.server, server->Make());
  for (bool client_done = false, server_done = false; !client_done || !server_done;) {
    FB_ASSIGN(client_done, pair.client->Handshake());
    Carry(*pair.client, *pair.server);
    FB_ASSIGN(server_done, pair.server->Handshake());
    Carry(*pair.server, *pair.client);
  }
  return pair;
}

Result<Cost> CostOfHandshake() {
  FB_ASSIGN(const double seconds, SecondsOf([] { return TlsPair::Make().status(); }));
  return Cost{.what = "TLS handshake, both ends, with three new keys", .bytes = 0, .seconds = seconds};
}

Result<Cost> CostOfTls(size_t bytes) {
  FB_ASSIGN(const TlsPair pair, TlsPair::Make());
  Bytes from(bytes), to(bytes);
  FB_ASSIGN(const double seconds, SecondsOf([&] { return pair.Move(from, to); }));
  return Cost{.what = fmt::format("TLS of {}, both ends", base::FormatSize(bytes)),
              .bytes = bytes,
              .seconds = seconds};
}

void Print(const Cost& cost, bool json) {
  const double per_gib = cost.bytes == 0 ? 0 : cost.seconds_per_gib();
  if (json) {
    fmt::print("{}\n", ToJson({{"what", cost.what},
                               {"bytes", uint64_t{cost.bytes}},
                               {"microseconds", cost.seconds * 1e6},
                               {"cpu_seconds_per_gib", per_gib}}));
    return;
  }
  fmt::print("{:<46} {:>9.2f} us", cost.what, cost.seconds * 1e6);
  if (cost.bytes != 0) fmt::print("  {:>6.2f} s/GiB", per_gib);
  fmt::print("\n");
}

int RunCryptoBench(const Invocation& invocation) {
  const Result<Cost> mac = CostOfMac();
  if (!mac.ok()) return Fail(mac.status().message());
  Print(*mac, invocation.json);
  Print({.what = fmt::format("the {} MACs of a request and its reply", kMacsOfARequest),
         .bytes = 0,
         .seconds = kMacsOfARequest * mac->seconds},
        invocation.json);
  for (const size_t bytes : {size_t{4096}, size_t{base::kMiB}, size_t{64 * base::kMiB}}) {
    const Result<Cost> tls = CostOfTls(bytes);
    if (!tls.ok()) return Fail(tls.status().message());
    Print(*tls, invocation.json);
  }
  const Result<Cost> handshake = CostOfHandshake();
  if (!handshake.ok()) return Fail(handshake.status().message());
  Print(*handshake, invocation.json);
  return kDone;
}

}  // namespace

void AddCryptoBench(CLI::App& bench, Invocation& invocation) {
  CLI::App* command =
      bench.add_subcommand("crypto", "What MACs and TLS cost, by themselves, on one core; no server needed");
  command->callback([&invocation] { invocation.run = [&invocation] { return RunCryptoBench(invocation); }; });
}

}  // namespace forebay::app
