// SPDX-License-Identifier: Apache-2.0
#include "auth/nonce_cache.h"

#include <gtest/gtest.h>

namespace forebay::auth {
namespace {

using Answer = NonceCache::Answer;
constexpr int64_t kStart = 1'000'000;
constexpr int64_t kWindow = 300'000;

RpcNonce Nonce(uint64_t number) {
  RpcNonce nonce{};
  std::memcpy(nonce.data(), &number, sizeof(number));
  return nonce;
}

TEST(NonceCache, EachNonceIsGoodOnce) {
  NonceCache cache(kStart, kWindow, 100);
  EXPECT_EQ(cache.Use(kStart, kStart, Nonce(1)), Answer::kFresh);
  EXPECT_EQ(cache.Use(kStart, kStart, Nonce(1)), Answer::kReplay);
  EXPECT_EQ(cache.Use(kStart, kStart, Nonce(2)), Answer::kFresh);
  EXPECT_EQ(cache.size(), 2U);
}

TEST(NonceCache, RemembersForTheWholeWindowBothWays) {
  NonceCache cache(kStart, kWindow, 100);
  const int64_t stated = kStart + kWindow;  // by a clock that is as far ahead as allowed
  EXPECT_EQ(cache.Use(kStart, stated, Nonce(1)), Answer::kFresh);
  EXPECT_EQ(cache.Use(stated + kWindow, stated, Nonce(1)), Answer::kReplay);
}

TEST(NonceCache, WhatWasForgottenIsRefusedAndItsMemoryGiven) {
  NonceCache cache(kStart, kWindow, 100);
  EXPECT_EQ(cache.Use(kStart + 5, kStart + 5, Nonce(1)), Answer::kFresh);
  const int64_t later = kStart + 10 + kWindow;
  EXPECT_EQ(cache.Use(later, later, Nonce(2)), Answer::kFresh);
  EXPECT_EQ(cache.size(), 1U);
  // The clock goes back: the old pair would be within the window again.
  EXPECT_EQ(cache.Use(kStart + 5, kStart + 5, Nonce(1)), Answer::kTooOld);
  EXPECT_EQ(cache.Use(kStart + 6, kStart + 6, Nonce(1)), Answer::kFresh);
}

TEST(NonceCache, NothingFromBeforeItsStartIsAccepted) {
  NonceCache cache(kStart, kWindow, 100);
  EXPECT_EQ(cache.Use(kStart, kStart - 1, Nonce(1)), Answer::kTooOld);
  EXPECT_EQ(cache.Use(kStart, kStart, Nonce(1)), Answer::kFresh);
}

TEST(NonceCache, FullMeansASmallerWindowAndNoReplay) {
  NonceCache cache(kStart, kWindow, 4);
  for (int64_t i = 0; i < 20; ++i) {
    const int64_t now = kStart + 1000 * i;
    EXPECT_EQ(cache.Use(now, now, Nonce(static_cast<uint64_t>(i))), Answer::kFresh);
    EXPECT_LE(cache.size(), 4U);
  }
  for (int64_t i = 0; i < 20; ++i) {
    const int64_t stated = kStart + 1000 * i;
    EXPECT_NE(cache.Use(kStart + 20'000, stated, Nonce(static_cast<uint64_t>(i))), Answer::kFresh) << i;
  }
}

TEST(NonceCache, FullWithinOneSecondRefuses) {
  NonceCache cache(kStart, kWindow, 4);
  for (uint64_t i = 0; i < 4; ++i) EXPECT_EQ(cache.Use(kStart, kStart, Nonce(i)), Answer::kFresh);
  EXPECT_EQ(cache.Use(kStart, kStart, Nonce(4)), Answer::kTooOld);
  EXPECT_EQ(cache.Use(kStart, kStart + 1, Nonce(4)), Answer::kFresh);
}

}  // namespace
}  // namespace forebay::auth
