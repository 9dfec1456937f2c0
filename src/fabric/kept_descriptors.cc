// SPDX-License-Identifier: Apache-2.0
#include "fabric/kept_descriptors.h"

#include <sys/resource.h>

#include <atomic>

namespace forebay::fabric {

namespace {

/// Of all connections of this process, whose descriptors they share: so the count cannot be anybody's.
std::atomic<size_t> reserved_places{0};

size_t MostPlaces() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  return static_cast<size_t>(limit.rlim_cur) / 4;
}

}  // namespace

KeptDescriptors KeptDescriptors::Reserve() {
  const size_t most = MostPlaces();
  size_t before = reserved_places.load();
  size_t places = 0;
  do {
    places = before >= most ? 0 : std::min<size_t>(kMaxPlaces, (most - before) / 2);
  } while (!reserved_places.compare_exchange_weak(before, before + places));
  return KeptDescriptors(places);
}

KeptDescriptors::~KeptDescriptors() { reserved_places -= places_.size(); }

}  // namespace forebay::fabric
