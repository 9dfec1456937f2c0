// SPDX-License-Identifier: Apache-2.0
#include "app/server.h"

#include <malloc.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <thread>
#include <utility>

#include "app/backups.h"
#include "app/store_devices.h"
#include "app/listen_rules.h"
#include "app/scrubs.h"
#include "app/version.h"
#include "auth/audit.h"
#include "auth/credentials.h"
#include "auth/key_ring.h"
#include "auth/rate_limits.h"
#include "auth/rpc_auth.h"
#include "auth/seal.h"
#include "auth/session_table.h"
#include "auth/tls_reload.h"
#include "auth/trusted_clock.h"
#include "backend/directory_store.h"
#include "base/arena.h"
#include "base/bytes.h"
#include "client/remote_store.h"
#include "control/access_keys.h"
#include "control/capability_authority.h"
#include "control/server.h"
#include "control/tenant_registry.h"
#include "engine/engine.h"
#include "engine/store_directory.h"
#include "fabric/movers.h"
#include "native/server.h"
#include "rt/address.h"
#include "rt/reactor_thread.h"
#include "store/system_records.h"

namespace forebay::app {
namespace {

constexpr unsigned kMaxDefaultReactors = 8;
constexpr unsigned kMaxReactors = 256;
constexpr uint64_t kMaxDefaultSize = 1024 * base::kGiB;
constexpr uint64_t kLeastSize = 64 * base::kMiB;
constexpr uint64_t kMostSize = uint64_t{1} << 60;
constexpr const char* kDefaultDirectory = "forebay-data";
/// Of the store directory of a relay: records of capabilities and keys, some hundred bytes each.
constexpr uint64_t kRelaySize = kLeastSize;
constexpr uint64_t kLeastMemory = 32 * base::kMiB;

/// The port after the control port, so that both are known; any free one where the control port is.
Result<std::string> DataListenAddress(const ServeOptions& options) {
  if (!options.data_listen.empty()) return options.data_listen;
  FB_ASSIGN(const rt::HostPort control, rt::SplitHostPort(options.listen));
  const uint32_t port = control.port == 0 ? 0 : control.port + 1U;
  if (port > UINT16_MAX)
    return Status::InvalidArgument("--listen {}: name the data port with --data-listen", options.listen);
  FB_ASSIGN(const rt::SocketAddress address,
            rt::SocketAddress::Parse(control.host, static_cast<uint16_t>(port)));
  return address.ToString();
}

/// The root credential of the store, made at the first start.
Result<auth::Credentials> RootCredentials(const std::string& path, base::Random& random, base::Log& log) {
  Result<auth::Credentials> loaded = auth::Credentials::Load(path);
  if (loaded.ok() || loaded.status().code() != Code::kNotFound) return loaded;
  auth::Credentials made = auth::Credentials::Generate(random);
  FB_TRY(made.Save(path, random));
  log.Info("made the root credential {} in {}", made.id, path);
  return made;
}

unsigned ReactorCount(unsigned asked) {
  if (asked != 0) return asked;
  // The other half is for the committer, RocksDB and gRPC; few reactors also find more work at each turn.
  return std::clamp(std::thread::hardware_concurrency() / 2, 1U, kMaxDefaultReactors);
}

}  // namespace

namespace {

ListenRules RulesOf(const ServeOptions& options) {
  return {.tls = !options.tls_directory.empty(),
          .plaintext_data = options.allow_plaintext,
          .plaintext_control = options.allow_plaintext_control};
}

/// One of --fabric: the mover's name and, where it was given, an address.
struct FabricOption {
  std::string name;
  std::string address;
};

Result<FabricOption> ParseFabricOption(const std::string& text) {
  const size_t equals = text.find('=');
  FB_ASSIGN(std::string name, fabric::ParseMoverName(std::string_view(text).substr(0, equals)));
  if (equals == std::string::npos) return FabricOption{.name = std::move(name), .address = {}};
  if (equals + 1 == text.size()) return Status::InvalidArgument("no address follows the `=`");
  return FabricOption{.name = std::move(name), .address = text.substr(equals + 1)};
}

/// `data`: the address of tcp, on whose host the others are where they were given none.
Status CheckFabricOptions(const ServeOptions& options, const std::string& data) {
  std::vector<std::string> names;
  for (const std::string& text : options.fabrics) {
    const Result<FabricOption> option = ParseFabricOption(text);
    if (!option.ok()) return option.status().WithContext("--fabric " + text);
    if (std::ranges::find(names, option->name) != names.end())
      return Status::InvalidArgument("--fabric names {} twice", option->name);
    names.push_back(option->name);
    const fabric::MoverKind& kind = fabric::KindOf(option->name);
    if (kind.network)
      FB_TRY(RulesOf(options).CheckData("--fabric " + option->name + " at",
                                        option->address.empty() ? data : option->address, kind.encrypted));
  }
  return {};
}

bool IsRelay(const ServeOptions& options) { return std::holds_alternative<RemoteBackend>(options.backend); }

/// What is for the engine has no meaning for objects that are elsewhere.
Status CheckBackend(const ServeOptions& options) {
  if (std::holds_alternative<EngineBackend>(options.backend)) return {};
  const auto* const tree = std::get_if<DirectoryBackend>(&options.backend);
  const std::string named = tree != nullptr ? "--backend directory:" + tree->path : "--backend remote:";
  if (tree != nullptr && !options.directory.empty())
    return Status::InvalidArgument("{} is where everything is kept: leave out {}", named, options.directory);
  if (tree == nullptr && options.directory.empty())
    return Status::InvalidArgument("{} needs a directory of the relay's own, for its records: forebay serve DIR --backend remote:HOST",
                                   named);
  if (options.size_bytes != 0 || !options.devices.empty() || !options.mirrors.empty())
    return Status::InvalidArgument(
        "--size, --device and --mirror are for the embedded engine: with {} the room is {}", named,
        tree != nullptr ? "that of its file system" : "the other server's");
  if (!options.backup_directory.empty())
    return Status::InvalidArgument("--backup-directory is for the embedded engine: with {} {}", named,
                                   tree != nullptr ? "back the files up, see docs/directory-backend.md"
                                                   : "the objects are the other server's; back them up there");
  if (options.scrub.every)
    return Status::InvalidArgument("--scrub-every is for the embedded engine: with {} {}", named,
                                   tree != nullptr ? "there is no checksum of each block" : "scrub the other server");
  return {};
}

}  // namespace

Status CheckServeOptions(const ServeOptions& options) {
  FB_TRY(CheckBackend(options));
  FB_TRY(RulesOf(options).Check());
  FB_TRY(RulesOf(options).CheckControl(options.listen));
  FB_ASSIGN(const std::string data, DataListenAddress(options));
  FB_TRY(RulesOf(options).CheckData(options.data_listen.empty() ? "--listen with data at" : "--data-listen",
                                    data, !options.tls_directory.empty()));
  FB_TRY(CheckFabricOptions(options, data));
  if (options.size_bytes != 0 && options.size_bytes < kLeastSize)
    return Status::InvalidArgument("--size {}: a store has at least {}", base::FormatSize(options.size_bytes),
                                   base::FormatSize(kLeastSize));
  if (options.size_bytes > kMostSize)
    return Status::InvalidArgument("--size {}: at most {} in one file", base::FormatSize(options.size_bytes),
                                   base::FormatSize(kMostSize));
  if (options.memory_bytes < kLeastMemory)
    return Status::InvalidArgument("--memory {}: at least {} are needed",
                                   base::FormatSize(options.memory_bytes), base::FormatSize(kLeastMemory));
  if (options.reactors != 0 && options.memory_bytes / 2 / options.reactors < base::kMaxChunkBytes)
    return Status::InvalidArgument("--memory {}: {} reactors need at least {}",
                                   base::FormatSize(options.memory_bytes), options.reactors,
                                   base::FormatSize(2 * base::kMaxChunkBytes * options.reactors));
  if (options.lend_bytes.value_or(0) != 0 && *options.lend_bytes < base::kMaxTransferBytes)
    return Status::InvalidArgument("--lend {}: at least {}, or 0 to lend nothing",
                                   base::FormatSize(*options.lend_bytes), base::FormatSize(base::kMaxTransferBytes));
  if (options.lend_bytes.value_or(0) > kMostSize)
    return Status::InvalidArgument("--lend {}: at most {}", base::FormatSize(*options.lend_bytes),
                                   base::FormatSize(kMostSize));
  if (options.reactors > kMaxReactors)
    return Status::InvalidArgument("--reactors {}: at most {}", options.reactors, kMaxReactors);
  return {};
}

struct Server::Parts {
  const base::Clock& clock;
  base::Random& random;
  base::Log& log;
  ServeOptions options;
  std::string directory;
  std::string own_directory;  // for the credential and keys

  std::unique_ptr<base::Arena> arena;
  std::vector<std::unique_ptr<rt::ReactorThread>> reactors;
  std::unique_ptr<engine::StoreDirectory> store;  // null where a directory of files is served
  std::unique_ptr<backend::DirectoryStore> tree;  // else null
  std::unique_ptr<client::RemoteStore> remote;    // of a relay, beside `store`
  std::unique_ptr<Backups> backups;
  std::unique_ptr<StoreDevices> devices;
  std::unique_ptr<Scrubs> scrubs;
  std::unique_ptr<auth::ReloadedTls> tls;  // null without
  std::unique_ptr<fabric::Movers> movers;
  std::vector<control::DataEndpoint> data_endpoints;
  std::vector<base::ArenaRegistrar*> registrars;  // that know the arena; of the movers
  auth::TrustedClock trusted_clock{clock};
  auth::Audit audit{log, clock};
  std::unique_ptr<auth::Sealer> sealer;
  auth::RateLimits rates;
  std::unique_ptr<control::TenantRegistry> tenants;
  std::unique_ptr<control::AccessKeys> access_keys;
  std::unique_ptr<auth::SessionTable> sessions;
  std::unique_ptr<auth::KeyRing> keys;
  std::unique_ptr<store::SystemRecords> records;
  std::unique_ptr<control::CapabilityAuthority> capabilities;
  std::unique_ptr<auth::RpcAuthenticator> authenticator;
  std::unique_ptr<native::Server> data;
  std::unique_ptr<control::ControlServer> control;

  /// What clients see.
  store::ObjectStore& objects() const {
    if (tree != nullptr) return *tree;
    if (remote != nullptr) return *remote;
    return store->engine();
  }
  /// Where the server's own records are.
  store::ObjectStore& own() const {
    if (tree != nullptr) return *tree;
    return store->engine();
  }
  Status OpenStore();
  Status OpenEngine();
  Status OpenTree();
  Status OpenRemote();
  Status StartBackups();
  Status StartScrubs();
  Result<std::vector<native::ListenOn>> ChooseWays();
  void RegisterArena(const std::vector<native::ListenOn>& ways);
  std::string AddressFor(const fabric::Fabric& fabric, const std::string& tcp,
                         const std::vector<native::ListenOn>& ways);
  Status StartReactors();
  Status StartAuth();
  Status StartTenants(const auth::Credentials& root);
  Status StartData();
  Status StartControl();
  void Stop(base::Duration grace);
  std::vector<rt::Reactor*> ReactorPointers() const;
  rt::Reactor& home() const { return reactors.front()->reactor(); }
  std::string credentials_path() const { return own_directory + "/credentials"; }
};

std::vector<rt::Reactor*> Server::Parts::ReactorPointers() const {
  std::vector<rt::Reactor*> pointers;
  pointers.reserve(reactors.size());
  for (const auto& thread : reactors) pointers.push_back(&thread->reactor());
  return pointers;
}

Status Server::Parts::StartReactors() {
  const unsigned count = ReactorCount(options.reactors);
  // By default glibc gives threads up to eight arenas for each core, and what is freed in one is not used by another:
  // with RocksDB's and gRPC's threads memory grew to half as much again as was set. One for each that is busy is enough.
  ::mallopt(M_ARENA_MAX, static_cast<int>(count + 1));
  for (unsigned i = 0; i < count; ++i) {
    FB_ASSIGN(auto reactor,
              rt::ReactorThread::Create({.name = "reactor-" + std::to_string(i), .clock = &clock}));
    reactors.push_back(std::move(reactor));
  }
  return {};
}

Status Server::Parts::OpenStore() {
  const auto* const files = std::get_if<DirectoryBackend>(&options.backend);
  const std::string named = files != nullptr            ? files->path
                            : options.directory.empty() ? kDefaultDirectory
                                                        : options.directory;
  std::error_code error;
  directory = std::filesystem::absolute(named, error).lexically_normal();
  if (error) return Status::FromErrno(error.value(), "find " + named);
  if (directory.size() > 1 && directory.ends_with('/')) directory.pop_back();
  FB_ASSIGN(arena, base::Arena::Create(options.memory_bytes));
  if (files != nullptr) return OpenTree();
  FB_TRY(OpenEngine());
  return IsRelay(options) ? OpenRemote() : Status();
}

Status Server::Parts::OpenTree() {
  FB_ASSIGN(tree, backend::DirectoryStore::Open(directory, {.arena = *arena, .clock = clock, .log = log}));
  own_directory = tree->own_directory();
  return {};
}

Status Server::Parts::OpenEngine() {
  own_directory = directory;
  const engine::StoreDirectory::Environment environment{
      .arena = *arena, .clock = clock, .random = random, .log = log};
  Result<std::unique_ptr<engine::StoreDirectory>> opened =
      engine::StoreDirectory::Open(directory, environment, {});
  if (!opened.ok() && opened.status().code() == Code::kNotFound) {
    uint64_t size = IsRelay(options) ? kRelaySize : base::RoundUp(options.size_bytes, base::kMiB);
    if (size == 0) {
      FB_ASSIGN(size, ChooseSize(directory));
    }
    opened = engine::StoreDirectory::Create(
        directory, {.size_bytes = size, .devices = options.devices, .mirrors = options.mirrors}, environment, {});
    if (opened.ok() && IsRelay(options))
      log.Info("made {} for this relay's own records", directory);
    else if (opened.ok())
      log.Info("made a store of {} in {}; it keeps {} of the data", base::FormatSize(size), directory,
               options.mirrors.empty() ? "one copy" : "two copies");
  }
  FB_ASSIGN(store, std::move(opened));
  // Whoever asks for a second copy must not believe that there is one.
  const std::vector<engine::DeviceConfig> stored = store->config().devices;
  if (!options.mirrors.empty() &&
      std::ranges::none_of(stored, [](const engine::DeviceConfig& device) { return !device.mirror.empty(); }))
    return Status::FailedPrecondition(
        "--mirror: the store in {} was made without mirrors, and keeps one copy: make one with --mirror in another directory, and "
        "copy the objects, or start without it",
        directory);
  return {};
}

Status Server::Parts::OpenRemote() {
  const std::string server = std::get<RemoteBackend>(options.backend).server;
  options.upstream.server = server;
  Result<std::unique_ptr<client::RemoteStore>> opened =
      client::RemoteStore::Open(options.upstream, TenantId::kRoot, *arena);
  if (!opened.ok()) return opened.status().WithContext("--backend remote:" + server);
  remote = *std::move(opened);
  log.Info("objects are those of the server at {}", server);
  return {};
}

Status Server::Parts::StartBackups() {
  if (store == nullptr || remote != nullptr) return {};
  std::string target;
  if (!options.backup_directory.empty()) {
    std::error_code error;
    target = std::filesystem::absolute(options.backup_directory, error).lexically_normal().string();
    if (target.size() > 1 && target.ends_with('/')) target.pop_back();
    if (error || !std::filesystem::is_directory(target, error))
      return Status::NotFound("--backup-directory {}: there is no such directory: make it first",
                              options.backup_directory);
  }
  backups = std::make_unique<Backups>(
      *store, engine::StoreDirectory::Environment{.arena = *arena, .clock = clock, .random = random, .log = log},
      std::move(target));
  devices = std::make_unique<StoreDevices>(*store, log);
  return {};
}

Status Server::Parts::StartScrubs() {
  if (store == nullptr || remote != nullptr) return {};
  FB_ASSIGN(scrubs, Scrubs::Open(store->engine(), clock, log, options.scrub));
  return {};
}

Status Server::Parts::StartTenants(const auth::Credentials& root) {
  sealer = std::make_unique<auth::Sealer>(root.secret, random);
  tenants = std::make_unique<control::TenantRegistry>(control::TenantRegistry::Parts{
      .store = objects(), .records = *records, .rates = rates, .clock = clock, .home = home()});
  access_keys = std::make_unique<control::AccessKeys>(control::AccessKeys::Parts{
      .records = *records, .sealer = *sealer, .clock = clock, .random = random, .home = home()});
  FB_TRY(rt::RunOn(home(), [this] { return tenants->Load(home()); }));
  return rt::RunOn(home(), [this] { return access_keys->Load(home(), *tenants); });
}

Status Server::Parts::StartAuth() {
  FB_ASSIGN(const auth::Credentials root, RootCredentials(credentials_path(), random, log));
  records = std::make_unique<store::SystemRecords>(own());
  FB_TRY(rt::RunOn(home(), [this] { return records->Open(home()); }));
  FB_TRY(StartTenants(root));
  sessions = std::make_unique<auth::SessionTable>(trusted_clock, random);
  FB_ASSIGN(keys, auth::KeyRing::Open(own_directory + "/signing-keys", trusted_clock, random));
  capabilities = std::make_unique<control::CapabilityAuthority>(
      control::CapabilityAuthority::Parts{.keys = *keys,
                                          .sessions = *sessions,
                                          .records = *records,
                                          .clock = trusted_clock,
                                          .random = random});
  FB_TRY(rt::RunOn(home(), [this] { return capabilities->Load(home()); }));
  authenticator = std::make_unique<auth::RpcAuthenticator>(
      [root](std::string_view id) { return id == root.id ? std::optional(root) : std::nullopt; },
      [this](const auth::Capability& capability) { return capabilities->Check(capability); }, clock);
  return {};
}

Status Server::Parts::StartData() {
  movers = std::make_unique<fabric::Movers>(random, fabric::Side::kServer, tls.get(),
                                            options.lend_bytes.value_or(options.memory_bytes / 4));
  FB_ASSIGN(const std::vector<native::ListenOn> ways, ChooseWays());
  RegisterArena(ways);
  native::ServerOptions data_options;
  // The other half is for the memory tier and for what the store holds while it reads and writes.
  data_options.window_bytes = options.memory_bytes / 2;
  data = std::make_unique<native::Server>(data_options, ways, objects(), *sessions, rates, ReactorPointers(),
                                          log, audit);
  FB_TRY(rt::RunOn(home(), [this] { return data->Start(); }));
  for (size_t way = 0; way < ways.size(); ++way)
    data_endpoints.push_back(
        {.fabric = std::string(ways[way].fabric.name()), .address = data->addresses()[way]});
  return {};
}

/// What --fabric names, else all that this machine has and the rules allow.
Result<std::vector<native::ListenOn>> Server::Parts::ChooseWays() {
  FB_ASSIGN(const std::string tcp, DataListenAddress(options));
  std::vector<native::ListenOn> ways;
  for (const std::string& text : options.fabrics) {
    FB_ASSIGN(const FabricOption option, ParseFabricOption(text));
    fabric::Fabric* const fabric = movers->Find(option.name);
    if (fabric == nullptr) return movers->WhyNot(option.name);
    const std::string address = option.address.empty() ? AddressFor(*fabric, tcp, ways) : option.address;
    ways.push_back({.fabric = *fabric, .address = address});
  }
  if (!ways.empty()) return ways;
  FB_ASSIGN(const rt::HostPort place, rt::SplitHostPort(tcp));
  for (fabric::Fabric* const fabric : movers->automatic()) {
    const std::vector<std::string>& hosts =
        movers->HostsOf(fabric->name());  // RDMA devices are not on loopback
    if (!hosts.empty() && std::ranges::find(hosts, place.host) == hosts.end()) continue;
    const std::string address = AddressFor(*fabric, tcp, ways);
    const fabric::MoverKind& kind = fabric::KindOf(fabric->name());
    if (kind.network && !RulesOf(options).CheckData({}, address, kind.encrypted).ok()) continue;
    // Encryption is for where tcp in the clear may not be; else it is there for those who name it.
    const auto is_tcp = [](const native::ListenOn& way) { return way.fabric.name() == "tcp"; };
    if (kind.encrypted && std::ranges::any_of(ways, is_tcp)) continue;
    ways.push_back({.fabric = *fabric, .address = address});
  }
  return ways;
}

/// So that devices move payload without anybody's copy.
void Server::Parts::RegisterArena(const std::vector<native::ListenOn>& ways) {
  for (const native::ListenOn& way : ways) {
    base::ArenaRegistrar* const registrar = movers->ArenasOf(way.fabric.name());
    if (registrar == nullptr) continue;
    const Status registered = arena->AddRegistrar(registrar);
    if (registered.ok()) {
      registrars.push_back(registrar);
    } else {
      log.Warning("{}: the arena is not registered, so each transfer registers anew: {}", way.fabric.name(),
                  registered.message());
    }
  }
}

/// Where no address was given. On one host a random name, which no other server, here or elsewhere, has too;
/// else tcp's host and any free port, but for the first kind of tcp, which has tcp's own.
std::string Server::Parts::AddressFor(const fabric::Fabric& fabric, const std::string& tcp,
                                      const std::vector<native::ListenOn>& ways) {
  if (!fabric::KindOf(fabric.name()).network) return fmt::format("@forebay-{:016x}", random.Next64());
  const bool taken = std::ranges::find(ways, tcp, &native::ListenOn::address) != ways.end();
  if (fabric.name().starts_with("tcp") && !taken) return tcp;
  return tcp.substr(0, tcp.rfind(':')) + ":0";  // some share tcp's ports
}

namespace {
rt::Task<std::vector<control::FabricTraffic>> TrafficOf(native::Server& data, rt::Reactor& here) {
  std::vector<control::FabricTraffic> all;
  for (const native::Traffic& traffic : co_await data.AskTraffic(here))
    all.push_back({.fabric = traffic.fabric,
                   .connections = traffic.connections,
                   .transfers_in = traffic.stats.reads,
                   .transfers_out = traffic.stats.writes,
                   .bytes_in = traffic.stats.bytes_read,
                   .bytes_out = traffic.stats.bytes_written,
                   .copied_bytes = traffic.stats.copied_bytes});
  co_return all;
}
}  // namespace

Status Server::Parts::StartControl() {
  control::ControlServer::Options control_options;
  control_options.listen = options.listen;
  control_options.tls_directory = options.tls_directory;
  control_options.plaintext_beyond_loopback = options.allow_plaintext_control;
  control_options.data_endpoints = data_endpoints;
  control_options.version = kVersion;
  FB_ASSIGN(control, control::ControlServer::Start(control_options, {.store = objects(),
                                                                     .sessions = *sessions,
                                                                     .authenticator = *authenticator,
                                                                     .rates = rates,
                                                                     .capabilities = *capabilities,
                                                                     .audit = audit,
                                                                     .random = random,
                                                                     .tenants = *tenants,
                                                                     .keys = *access_keys,
                                                                     .reactors = ReactorPointers(),
                                                                     .clock = clock,
                                                                     .log = log,
                                                                     .traffic = [this](rt::Reactor& here) {
                                                                       return TrafficOf(*data, here);
                                                                     },
                                                                     .backups = backups.get(),
                                                                     .devices = devices.get(),
                                                                     .scrubs = scrubs.get()}));
  return {};
}

void Server::Parts::Stop(base::Duration grace) {
  if (control != nullptr) control->Shutdown(grace);
  if (backups != nullptr) backups->Stop();
  if (scrubs != nullptr) scrubs->Close();
  if (data != nullptr) rt::RunOn(home(), [this, grace] { return data->Stop(grace); });
  if (store != nullptr) {
    for (const auto& thread : reactors)
      rt::RunOn(thread->reactor(), [this, &thread] { return store->engine().Drain(thread->reactor()); });
  }
  if (capabilities != nullptr)  // so that what has expired stays so, whatever the clock says at the next start
    (void)rt::RunOn(home(), [this] { return capabilities->RememberTime(home(), true); });
  control.reset();
  data.reset();
  authenticator.reset();
  capabilities.reset();
  access_keys.reset();
  tenants.reset();
  records.reset();
  backups.reset();
  devices.reset();
  if (remote != nullptr) rt::RunOn(home(), [this] { return remote->Close(home()); });
  remote.reset();
  store.reset();
  scrubs.reset();  // the store's threads answered to its ring
  tree.reset();
  for (base::ArenaRegistrar* const registrar : std::exchange(registrars, {}))
    arena->RemoveRegistrar(registrar);
  movers.reset();  // before the reactors, to which its threads post
  reactors.clear();
}

Result<uint64_t> ChooseSize(const std::string& directory) {
  std::filesystem::path existing = directory;
  std::error_code error;
  while (!std::filesystem::exists(existing, error) && existing.has_parent_path() &&
         existing != existing.parent_path())
    existing = existing.parent_path();
  struct statvfs info{};
  if (statvfs(existing.c_str(), &info) != 0)
    return Status::FromErrno(errno, "look at the file system of " + directory);
  const uint64_t free = uint64_t{info.f_bavail} * info.f_frsize;
  const uint64_t size = base::RoundDown(std::min(free / 2, kMaxDefaultSize), base::kMiB);
  if (size < kLeastSize)
    return Status::ResourceExhausted(
        "{} has {} free; a store needs at least {}: free some space or choose another directory",
        existing.string(), base::FormatSize(free), base::FormatSize(2 * kLeastSize));
  return size;
}

Server::Server(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Server::~Server() { Stop(base::Duration::zero()); }

Result<std::unique_ptr<Server>> Server::Start(ServeOptions options, const base::Clock& clock,
                                              base::Random& random, base::Log& log) {
  FB_TRY(CheckServeOptions(options));
  std::unique_ptr<Server> server(new Server(std::unique_ptr<Parts>(
      new Parts{.clock = clock, .random = random, .log = log, .options = std::move(options)})));
  Parts& parts = *server->parts_;  // what was started is stopped by the destructor when a later part fails
  if (!parts.options.tls_directory.empty()) {
    FB_ASSIGN(parts.tls, auth::ReloadedTls::Open(parts.options.tls_directory, auth::kDataProtocol, clock));
  }
  FB_TRY(parts.StartReactors());
  FB_TRY(parts.OpenStore());
  FB_TRY(parts.StartBackups());
  FB_TRY(parts.StartScrubs());
  FB_TRY(parts.StartAuth());
  FB_TRY(parts.StartData());
  FB_TRY(parts.StartControl());
  return server;
}

const std::string& Server::control_address() const { return parts_->control->address(); }
const std::vector<control::DataEndpoint>& Server::data_endpoints() const { return parts_->data_endpoints; }
const std::string& Server::directory() const { return parts_->directory; }
std::string Server::credentials_path() const { return parts_->credentials_path(); }
void Server::Stop(base::Duration grace) { parts_->Stop(grace); }

}  // namespace forebay::app
