// SPDX-License-Identifier: Apache-2.0
#include "fabric/ofi_calls.h"

#include <dlfcn.h>

#include <type_traits>

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

namespace forebay::fabric {

// That our declarations are libfabric's.
static_assert(std::is_same_v<decltype(OfiCalls::getinfo), decltype(&fi_getinfo)>);
static_assert(std::is_same_v<decltype(OfiCalls::freeinfo), decltype(&fi_freeinfo)>);
static_assert(std::is_same_v<decltype(OfiCalls::dupinfo), decltype(&fi_dupinfo)>);
static_assert(std::is_same_v<decltype(OfiCalls::fabric), decltype(&fi_fabric)>);
static_assert(std::is_same_v<decltype(OfiCalls::strerror), decltype(&fi_strerror)>);

Result<OfiCalls> OfiCalls::Load(const std::string& library) {
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    const char* const why = dlerror();
    return Status::Unavailable(
        "libfabric cannot be loaded: {}; install it (Debian: libfabric1), or use another fabric",
        why == nullptr ? library : why);
  }
  OfiCalls calls;
  std::string missing;
  // A version says how the structures look that a function takes and returns: those of libfabric 1.9 and
  // later begin as FABRIC_1.3 has them, and libfabric keeps each version for good.
  const auto find = [&](auto& function, const char* name, const char* version) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlvsym(handle, name, version));
    if (function == nullptr && missing.empty()) missing = std::string(name) + "@" + version;
  };
  find(calls.getinfo, "fi_getinfo", "FABRIC_1.3");
  find(calls.freeinfo, "fi_freeinfo", "FABRIC_1.3");
  find(calls.dupinfo, "fi_dupinfo", "FABRIC_1.3");
  find(calls.fabric, "fi_fabric", "FABRIC_1.1");
  find(calls.strerror, "fi_strerror", "FABRIC_1.0");
  if (missing.empty()) return calls;
  return Status::Unavailable(
      "{} is no libfabric of 1.14 or later: it has no {}; install one (Debian: libfabric1)", library,
      missing);
}

}  // namespace forebay::fabric
