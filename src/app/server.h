// SPDX-License-Identifier: Apache-2.0
// Server: everything that `forebay serve` runs, built and wired: the engine in a store directory, or another backend,
// reactors, the fabric with the data plane on it, sessions, and the control plane. With a remote backend the objects are
// another server's, and the store directory keeps but this server's own records. Parts are started bottom up and
// stopped top down. Thread-safe: no; one thread starts and stops it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/backend_choice.h"
#include "app/scrub_schedule.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "base/status.h"
#include "control/data_plane.h"
#include "forebay/client.h"

namespace forebay::app {

struct ServeOptions {
  BackendChoice backend{};   // where the objects are
  ClientOptions upstream{};  // of a remote backend: how to reach it, but for the address
  std::string directory;     // of the embedded engine, or a relay's own; empty: forebay-data
  std::string listen = "127.0.0.1:7400";
  std::string data_listen;           // of tcp; empty: the control port + 1, or any free one
  std::vector<std::string> fabrics;  // "NAME" or "NAME=ADDRESS" each; empty: what this machine has
  std::string tls_directory;         // certificates (auth::TlsFiles); empty: no TLS
  bool allow_plaintext = false;      // data addresses beyond loopback, though nothing is encrypted
  bool allow_plaintext_control = false;  // the control address too
  uint64_t size_bytes = 0;           // of a data file that is made; 0: chosen from the free space
  std::string backup_directory;      // where backups may go; empty: none are made
  ScrubSchedule scrub;
  std::vector<std::string> devices;  // instead of a data file, when the store is made
  std::vector<std::string> mirrors;  // none, or the other side of each of them
  uint64_t memory_bytes = 256ULL << 20;
  std::optional<uint64_t> lend_bytes;  // of hot payload, to clients over shm; none given: a quarter of memory_bytes
  unsigned reactors = 0;  // 0: half the cores, at most 8
};

/// What is a mistake of the command line: InvalidArgument, before anything is touched.
Status CheckServeOptions(const ServeOptions& options);

class Server {
 public:
  /// All are borrowed. Fails with what the first part that did not start says.
  static Result<std::unique_ptr<Server>> Start(ServeOptions options, const base::Clock& clock,
                                               base::Random& random, base::Log& log);
  /// Stops without grace if nobody has.
  ~Server();

  const std::string& control_address() const;
  /// The ways to the data plane; which of them a client takes is the client's to choose.
  const std::vector<control::DataEndpoint>& data_endpoints() const;
  const std::string& directory() const;  // absolute
  std::string credentials_path() const;

  /// Takes no new work, lets requests in flight end for up to `grace`, closes the store. Idempotent.
  void Stop(base::Duration grace);

 private:
  struct Parts;
  explicit Server(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

/// The size of a data file where none was asked for: half of what the file system has free, in whole MiB, at
/// most 1 TiB.
Result<uint64_t> ChooseSize(const std::string& directory);

}  // namespace forebay::app
