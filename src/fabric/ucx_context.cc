// SPDX-License-Identifier: Apache-2.0
#include "fabric/ucx_context.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <utility>
#include <vector>

#include <ucs/debug/debug.h>
#include <ucs/debug/log_def.h>

namespace forebay::fabric {

namespace {

/// What UCX said last on this thread. UCX has one log for the process and no other way to tell the cause of a
/// failure.
thread_local std::string last_words;

ucs_log_func_rc_t KeepLastWords(const char*, unsigned, const char*, ucs_log_level_t level,
                                const ucs_log_component_config_t*, const char* format, va_list arguments) {
  if (level == UCS_LOG_LEVEL_FATAL)
    return UCS_LOG_FUNC_RC_CONTINUE;  // the process is about to end: let it be read
  if (level <= UCS_LOG_LEVEL_ERROR) {
    std::array<char, 256> line{};
    (void)vsnprintf(line.data(), line.size(), format, arguments);
    last_words = line.data();
    std::replace(last_words.begin(), last_words.end(), '\n', ' ');
  }
  return UCS_LOG_FUNC_RC_STOP;
}

// The library takes over crash signals when it is loaded, and prints to the terminal.
void TameLibrary() {
  static std::once_flag once;
  std::call_once(once, [] {
    ucs_log_push_handler(&KeepLastWords);
    for (int signal : {SIGILL, SIGSEGV, SIGBUS, SIGFPE}) ucs_debug_disable_signal(signal);
  });
}

std::vector<std::string_view> Split(std::string_view list) {
  std::vector<std::string_view> names;
  while (true) {
    const size_t comma = list.find(',');
    names.push_back(list.substr(0, comma));
    if (comma == std::string_view::npos) return names;
    list.remove_prefix(comma + 1);
  }
}

constexpr std::string_view kChecking[] = {"rc", "rc_verbs", "rc_mlx5"};
constexpr std::string_view kUnchecking[] = {"tcp", "posix", "sysv", "cma", "knem", "xpmem",
                                            "shm", "sm",    "self", "mm",  "all"};

bool ChecksKeys(std::string_view transport) {
  return std::ranges::find(kChecking, transport) != std::end(kChecking);
}

struct Setting {
  const char* name;
  const char* value;
};

// What differs from UCX's defaults, and why. What belongs to a device or a transport has its name without
// their prefix: an unknown name is no error to UCX.
constexpr Setting kSettings[] = {
    // No cache of registrations: a cached one outlives the offer and may be wider. CheckNoCache looks at what
    // came of it.
    {"REG_METHODS", "direct"},
    {"RCACHE_ENABLE", "n"},
    {"INDIRECT_ATOMIC", "n"},
    {"FORK_INIT", "n"},
    // Connections are made through the same device that carries them; no fallback by way of TCP.
    {"SOCKADDR_TLS_PRIORITY", "rdmacm"},
    // One lane: messages never take a second way, and no message makes UCX give out keys of its own.
    {"MAX_EAGER_RAILS", "1"},
    {"MAX_RNDV_RAILS", "1"},
    {"RNDV_THRESH", "inf"},
    {"PROTO_ENABLE", "n"},
    // Whether a peer lives is decided by Liveness; a timer of UCX's would wake an idle process.
    {"KEEPALIVE_INTERVAL", "inf"},
    {"WARN_INVALID_CONFIG", "n"},
    {"WARN_UNUSED_ENV_VARS", "n"},
    // What an endpoint holds of registered buffers: about 1 MiB to receive, and what it sends at once.
    {"RC_RX_QUEUE_LEN", "128"},
    {"RC_FC_WND_SIZE", "96"},
    {"RC_TX_BUFS_GROW", "32"},
};

std::string KnownAs(std::string_view transports) {
  std::string names;
  for (const std::string_view name : Split(transports)) {
    if (!names.empty()) names += ',';
    // UCX's own `rc` brings an unreliable helper transport along, which connections by socket address do not
    // need.
    names += name == "rc" ? "rc_verbs,rc_mlx5" : name;
  }
  return names;
}

}  // namespace

Status UcxError(ucs_status_t status, std::string_view what) {
  std::string text(what);
  text += ": ";
  text += ucs_status_string(status);
  if (!last_words.empty()) text += " (UCX says: " + std::exchange(last_words, {}) + ")";
  switch (status) {
    case UCS_OK:
    case UCS_INPROGRESS:
      return Status();
    case UCS_ERR_NO_MEMORY:
    case UCS_ERR_NO_RESOURCE:
    case UCS_ERR_EXCEEDS_LIMIT:
      return Status(Code::kResourceExhausted, std::move(text));
    case UCS_ERR_INVALID_PARAM:
    case UCS_ERR_INVALID_ADDR:
      return Status(Code::kInvalidArgument, std::move(text));
    case UCS_ERR_BUSY:
    case UCS_ERR_NO_DEVICE:
    case UCS_ERR_UNSUPPORTED:
      return Status(Code::kFailedPrecondition, std::move(text));
    default:
      return Status(Code::kUnavailable, std::move(text));
  }
}

Status CheckUcxTransports(std::string_view transports) {
  for (const std::string_view name : Split(transports)) {
    if (ChecksKeys(name)) continue;
    if (std::ranges::find(kUnchecking, name) != std::end(kUnchecking)) {
      return Status::PermissionDenied(
          "ucx does not run over `{}`: UCX checks no memory key there, so a peer with the key of one small "
          "region could read "
          "and write any address of this process; use rc on a machine with an RDMA device, or the mover tcp "
          "or shm",
          name);
    }
    return Status::InvalidArgument("ucx knows no transport `{}`: rc, rc_verbs and rc_mlx5 are possible",
                                   name);
  }
  return Status();
}

Result<std::shared_ptr<UcxContext>> UcxContext::Open(std::string_view transports) {
  FB_TRY(CheckUcxTransports(transports));
  TameLibrary();
  ucp_config_t* config = nullptr;
  const ucs_status_t read = ucp_config_read(nullptr, nullptr, &config);
  if (read != UCS_OK) return UcxError(read, "read the UCX_ variables of the environment");
  ucs_status_t status = ucp_config_modify(config, "TLS", KnownAs(transports).c_str());
  for (const Setting& setting : kSettings) {
    if (status == UCS_OK) status = ucp_config_modify(config, setting.name, setting.value);
  }
  ucp_context_h handle = nullptr;
  if (status == UCS_OK) {
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED;
    params.features = UCP_FEATURE_AM | UCP_FEATURE_RMA | UCP_FEATURE_WAKEUP;
    params.mt_workers_shared = 1;
    status = ucp_init(&params, config, &handle);
  }
  ucp_config_release(config);
  if (status == UCS_ERR_NO_DEVICE) {
    return Status::FailedPrecondition(
        "no device of this machine speaks {}: ucx needs an RDMA device (`rdma link` lists them; "
        "`rdma link add rxe0 type rxe netdev eth0` makes one in software); the mover tcp needs none",
        transports);
  }
  if (status != UCS_OK) return UcxError(status, "start UCX");
  std::shared_ptr<UcxContext> context(new UcxContext(handle));
  FB_TRY(CheckNoCache(*context));
  return context;
}

// Two registrations of one range have two keys, unless UCX gives out the same one twice; then Unmap would not
// end it.
Status UcxContext::CheckNoCache(UcxContext& context) {
  Bytes page(4096);
  FB_ASSIGN(Mapping first, context.Map(page));
  auto second = context.Map(page);
  const bool shared = second.ok() && second->packed == first.packed;
  if (second.ok()) context.Unmap(*second);
  context.Unmap(first);
  FB_TRY(second);
  if (shared) {
    return Status::FailedPrecondition(
        "this build of UCX keeps registrations of memory alive although it is told not to: a peer "
        "could use a region after it was withdrawn; use the mover ofi or tcp");
  }
  return Status();
}

UcxContext::~UcxContext() { ucp_cleanup(handle_); }

Result<UcxContext::Mapping> UcxContext::Map(MutableByteView memory) {
  if (memory.empty()) return Mapping{};
  ucp_mem_map_params_t params{};
  params.field_mask =
      UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE;
  params.address = memory.data();
  params.length = memory.size();
  params.memory_type = UCS_MEMORY_TYPE_HOST;
  Mapping mapping;
  ucs_status_t status = ucp_mem_map(handle_, &params, &mapping.handle);
  if (status != UCS_OK) {
    return Status::ResourceExhausted("{}; `ulimit -l` is how much memory may be pinned",
                                     UcxError(status, "register memory with the RDMA device").message());
  }
  void* packed = nullptr;
  size_t size = 0;
  status = ucp_rkey_pack(handle_, mapping.handle, &packed, &size);
  if (status == UCS_OK) {
    const auto* bytes = static_cast<const std::byte*>(packed);
    mapping.packed.assign(bytes, bytes + size);
    ucp_rkey_buffer_release(packed);
    return mapping;
  }
  Unmap(mapping);
  return UcxError(status, "pack the key of registered memory");
}

void UcxContext::Unmap(Mapping& mapping) {
  if (mapping.handle != nullptr) (void)ucp_mem_unmap(handle_, std::exchange(mapping.handle, nullptr));
}

// UCX 1.13 tells the lanes of an endpoint only as text, a line for each: "# lane[0]:  1:rc_verbs/rxe0:1.0
// md[1] -> ...".
Result<std::string> VerifyUcxLanes(ucp_ep_h endpoint) {
  char* text = nullptr;
  size_t size = 0;
  FILE* stream = open_memstream(&text, &size);
  if (stream == nullptr)
    return Status::ResourceExhausted("no memory to ask UCX which transports an endpoint uses");
  ucp_ep_print_info(endpoint, stream);
  (void)fclose(stream);
  std::string_view rest(text, size);
  std::string found;
  Status verdict;
  constexpr std::string_view kLane = "lane[";
  for (size_t at = rest.find(kLane); at != std::string_view::npos; at = rest.find(kLane)) {
    rest.remove_prefix(at);
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(line.size());
    line.remove_prefix(std::min(line.find(':') + 1, line.size()));
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    if (line.starts_with("cm ")) continue;  // makes and ends the connection, and carries nothing
    line.remove_prefix(std::min(line.find(':') + 1, line.size()));
    const std::string_view transport = line.substr(0, line.find('/'));
    if (verdict.ok()) verdict = CheckUcxTransports(transport);
    if (!found.empty()) found += ',';
    found += transport;
  }
  free(text);
  FB_TRY(verdict);
  if (found.empty())
    return Status::FailedPrecondition("UCX does not say which transports the endpoint uses: it is refused");
  return found;
}

}  // namespace forebay::fabric
