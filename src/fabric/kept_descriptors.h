// SPDX-License-Identifier: Apache-2.0
// The two ends of descriptors that stay with who borrows, so that memory which is lent again needs none: the borrower has
// numbered places for them (`KeptDescriptors`), and the lender alone decides what is in which (`LentPlaces`).
// Reactor-local; the count of all places in this process is shared.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "fabric/socket.h"

namespace forebay::fabric {

/// Places of one connection, counted from 1; each holds a descriptor or none. Closed with it.
class KeptDescriptors {
 public:
  static constexpr uint16_t kMaxPlaces = 64;

  KeptDescriptors() = default;
  /// As many as there may be, but at most half of what is left of a quarter of this process's descriptors.
  static KeptDescriptors Reserve();
  KeptDescriptors(KeptDescriptors&& other) noexcept { places_.swap(other.places_); }
  /// What was here before is closed with `other`.
  KeptDescriptors& operator=(KeptDescriptors&& other) noexcept {
    places_.swap(other.places_);
    return *this;
  }
  ~KeptDescriptors();

  uint16_t places() const { return static_cast<uint16_t>(places_.size()); }
  /// -1 where none was put. `place` is 1 to places().
  int At(uint16_t place) const { return places_[place - 1].fd(); }
  void Put(uint16_t place, Socket descriptor) { places_[place - 1] = std::move(descriptor); }

 private:
  explicit KeptDescriptors(size_t places) : places_(places) {}
  std::vector<Socket> places_;
};

/// Which blocks the peer has descriptors of.
class LentPlaces {
 public:
  explicit LentPlaces(uint16_t places) : places_(places) {}

  /// The place of the block; 0 when its descriptor has to be passed.
  uint16_t Find(uint64_t block) {
    const auto found = std::ranges::find(places_, block, &Place::block);
    if (found == places_.end()) return 0;
    found->used = ++uses_;
    return Number(found);
  }
  /// A place for the block, whose descriptor is passed now: the one that was not used for longest. 0 when there are none.
  uint16_t Assign(uint64_t block) {
    const auto oldest = std::ranges::min_element(places_, {}, &Place::used);
    if (oldest == places_.end()) return 0;
    *oldest = {block, ++uses_};
    return Number(oldest);
  }

 private:
  struct Place {
    uint64_t block = 0;  // no block has this number
    uint64_t used = 0;
  };
  uint16_t Number(std::vector<Place>::iterator place) const {
    return static_cast<uint16_t>(place - places_.begin() + 1);
  }

  std::vector<Place> places_;
  uint64_t uses_ = 0;
};

}  // namespace forebay::fabric
