// SPDX-License-Identifier: Apache-2.0
// OfiCalls: the functions of libfabric itself, in a library that is loaded when the ofi fabric is first
// opened. All else in libfabric is inline, and called through the objects that these make. Not linked,
// because Debian's build pulls in libinfinipath, whose start-up code sleeps 0.2 s in each process that loads
// it, and because a program without it then still starts. Used by OfiLibrary. Immutable after Load.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"

// NOLINTBEGIN(readability-identifier-naming): libfabric's names
struct fid_fabric;
struct fi_fabric_attr;
struct fi_info;
// NOLINTEND(readability-identifier-naming)

namespace forebay::fabric {

struct InfoFree {
  void (*free)(fi_info* info) = nullptr;
  void operator()(fi_info* info) const { free(info); }
};
using InfoHandle = std::unique_ptr<fi_info, InfoFree>;

struct OfiCalls {
  static constexpr const char* kLibrary = "libfabric.so.1";

  /// Blocks while the library starts up; it stays loaded to the end of the process. Unavailable, with the way
  /// out, when it is not there or is another one.
  static Result<OfiCalls> Load(const std::string& library = kLibrary);

  /// Null without memory. Fields are those of fi_info(3).
  InfoHandle NewInfo() const { return Own(dupinfo(nullptr)); }
  InfoHandle Copy(const fi_info& info) const { return Own(dupinfo(&info)); }
  InfoHandle Own(fi_info* info) const { return {info, InfoFree{freeinfo}}; }

  int (*getinfo)(uint32_t version, const char* node, const char* service, uint64_t flags,
                 const fi_info* hints, fi_info** info) = nullptr;
  void (*freeinfo)(fi_info* info) = nullptr;
  fi_info* (*dupinfo)(const fi_info* info) = nullptr;
  int (*fabric)(fi_fabric_attr* attributes, fid_fabric** fabric, void* context) = nullptr;
  const char* (*strerror)(int error) = nullptr;
};

}  // namespace forebay::fabric
