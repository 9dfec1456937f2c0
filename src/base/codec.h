// SPDX-License-Identifier: Apache-2.0
// Encoder and Decoder: the little-endian binary codec of every disk and data-plane format of ours. The decoder is
// made for hostile bytes: reading past the end, an over-long varint or a length beyond the rest sets a sticky
// failure, yields zeros and never touches memory outside. Callers read all fields, then ask Finish() once.
// Reactor-local: one encoder or decoder belongs to one thread.
#pragma once

#include <concepts>
#include <string_view>

#include "base/bytes.h"
#include "base/status.h"

namespace forebay::base {

class Encoder {
 public:
  /// Appends to `out`, which must outlive the encoder.
  explicit Encoder(std::string* out) : out_(out) {}

  template <std::unsigned_integral T>
  void Fixed(T value) {
    char raw[sizeof(T)];
    for (size_t i = 0; i < sizeof(T); ++i) raw[i] = static_cast<char>(value >> (8 * i));
    out_->append(raw, sizeof(T));
  }
  void U8(uint8_t value) { Fixed(value); }
  void U16(uint16_t value) { Fixed(value); }
  void U32(uint32_t value) { Fixed(value); }
  void U64(uint64_t value) { Fixed(value); }
  /// Big-endian, so that byte order is number order: for ordered keys.
  void U64BigEndian(uint64_t value);
  /// LEB128, at most 10 bytes.
  void Varint(uint64_t value);
  void Raw(ByteView bytes) { out_->append(AsText(bytes)); }
  void Raw(std::string_view text) { out_->append(text); }
  /// Varint length, then the bytes.
  void Blob(std::string_view text) {
    Varint(text.size());
    out_->append(text);
  }
  size_t size() const { return out_->size(); }

 private:
  std::string* out_;  // borrowed from the caller
};

class Decoder {
 public:
  /// Reads from `bytes`, which must outlive the decoder and every view it hands out.
  explicit Decoder(std::string_view bytes) : rest_(bytes) {}
  explicit Decoder(ByteView bytes) : rest_(AsText(bytes)) {}

  template <std::unsigned_integral T>
  T Fixed() {
    if (!Need(sizeof(T))) return 0;
    T value = 0;
    for (size_t i = 0; i < sizeof(T); ++i)
      value = static_cast<T>(value | static_cast<T>(static_cast<T>(static_cast<unsigned char>(rest_[i])) << (8 * i)));
    rest_.remove_prefix(sizeof(T));
    return value;
  }
  uint8_t U8() { return Fixed<uint8_t>(); }
  uint16_t U16() { return Fixed<uint16_t>(); }
  uint32_t U32() { return Fixed<uint32_t>(); }
  uint64_t U64() { return Fixed<uint64_t>(); }
  uint64_t U64BigEndian();
  uint64_t Varint();
  /// Exactly `length` bytes, as a view into the input; empty after a failure.
  std::string_view Raw(uint64_t length);
  /// Fills `out` exactly, or zeroes it after a failure.
  void Raw(MutableByteView out);
  /// A varint length of at most `limit`, then that many bytes.
  std::string_view Blob(uint64_t limit);

  bool failed() const { return failed_; }
  size_t remaining() const { return rest_.size(); }
  std::string_view rest() const { return rest_; }
  void Fail() { failed_ = true; }
  /// Ok when nothing failed and nothing is left; otherwise DataLoss naming `what`.
  Status Finish(std::string_view what) const;

 private:
  bool Need(uint64_t length) {
    if (failed_ || rest_.size() < length) failed_ = true;
    return !failed_;
  }

  std::string_view rest_;
  bool failed_ = false;
};

}  // namespace forebay::base
