// SPDX-License-Identifier: Apache-2.0
#include "base/checksum.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <array>

namespace forebay::base {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;  // 0x1edc6f41 reflected

/// a * b modulo the polynomial, bit-reflected: bit 31 is the coefficient of x^0. Without branches, half of which would be
/// guessed wrong.
constexpr uint32_t MultiplyModulo(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (int bit = 31; bit >= 0; --bit) {
    product ^= b & (0U - (a >> bit & 1));
    b = (b >> 1) ^ (kPolynomial & (0U - (b & 1)));
  }
  return product;
}

/// kPowers[k] = x^(8 * 2^k) modulo the polynomial: the factor that shifts a checksum over 2^k zero bytes.
constexpr std::array<uint32_t, 64> MakePowers() {
  std::array<uint32_t, 64> powers{};
  uint32_t power = 0x40000000;                                       // x^1
  for (int i = 0; i < 3; ++i) power = MultiplyModulo(power, power);  // x^8
  for (uint32_t& entry : powers) {
    entry = power;
    power = MultiplyModulo(power, power);
  }
  return powers;
}
constexpr std::array<uint32_t, 64> kPowers = MakePowers();

/// What multiplying by a power does to each byte of a checksum, for the lengths that blocks have: 4 KiB to 1 MiB.
constexpr size_t kFirstShift = 12;
constexpr size_t kLastShift = 20;
using ShiftTable = std::array<std::array<uint32_t, 256>, sizeof(uint32_t)>;
constexpr std::array<ShiftTable, kLastShift - kFirstShift + 1> kShifts = [] {
  std::array<ShiftTable, kLastShift - kFirstShift + 1> tables{};
  for (size_t k = 0; k < tables.size(); ++k) {
    for (size_t byte = 0; byte < sizeof(uint32_t); ++byte) {
      std::array<uint32_t, 256>& table = tables[k][byte];
      for (size_t bit = 0; bit < 8; ++bit) {
        const uint32_t product = MultiplyModulo(kPowers[kFirstShift + k], uint32_t{1} << (8 * byte + bit));
        for (size_t lower = 0; lower < size_t{1} << bit; ++lower) table[(size_t{1} << bit) + lower] = table[lower] ^ product;
      }
    }
  }
  return tables;
}();

/// The checksum before 2^k zero bytes.
uint32_t Shift(uint32_t crc, size_t k) {
  if (k < kFirstShift || k > kLastShift) return MultiplyModulo(kPowers[k], crc);
  const ShiftTable& table = kShifts[k - kFirstShift];
  return table[0][crc & 0xff] ^ table[1][crc >> 8 & 0xff] ^ table[2][crc >> 16 & 0xff] ^ table[3][crc >> 24];
}

}  // namespace

uint32_t Crc32c(ByteView bytes) { return Crc32cExtend(kCrc32cEmpty, bytes); }

uint32_t Crc32cExtend(uint32_t crc, ByteView bytes) {
  constexpr size_t kStep = size_t{1} << 30;  // ISA-L takes an int
  while (!bytes.empty()) {
    const ByteView step = bytes.first(std::min(bytes.size(), kStep));
    // ISA-L's parameter is not const, but it only reads.
    auto* data = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(step.data()));
    crc = ~crc32_iscsi(data, static_cast<int>(step.size()), ~crc);
    bytes = bytes.subspan(step.size());
  }
  return crc;
}

uint32_t Crc32cCombine(uint32_t crc_a, uint32_t crc_b, uint64_t length_b) {
  for (size_t k = 0; length_b != 0; ++k, length_b >>= 1) {
    if ((length_b & 1) != 0) crc_a = Shift(crc_a, k);
  }
  return crc_a ^ crc_b;
}

uint32_t Crc32cWithout(uint32_t crc, uint32_t crc_b, uint64_t length_b) {
  // The polynomial is x + 1 times a primitive one of degree 31: to shift by so many bytes, or bits, changes nothing.
  constexpr uint64_t kOrder = (uint64_t{1} << 31) - 1;
  return Crc32cCombine(crc ^ crc_b, 0, kOrder - length_b % kOrder);
}

uint32_t Crc32cReplace(uint32_t crc, uint32_t before, uint32_t now, uint64_t length_after) {
  // A checksum is linear in the content, but for constants that depend on the length alone.
  return crc ^ Crc32cCombine(before ^ now, 0, length_after);
}

uint32_t Crc32cZeros(uint64_t length) {
  constexpr uint32_t kAllOnes = 0xffffffff;  // what the register begins with, and what the result is inverted by
  return Crc32cCombine(kAllOnes, kAllOnes, length);
}

}  // namespace forebay::base
