// SPDX-License-Identifier: Apache-2.0
// TlsChannel: a SecureChannel that is an OpenSSL connection between two buffers of fixed size. OpenSSL reads
// and writes them through a BIO of ours, so nothing is allocated per record. Made by TlsContext, which may go
// first. Reactor-local; may be handed over.
#pragma once

#include <memory>
#include <string>

#include "auth/openssl_handles.h"
#include "base/secure_channel.h"

namespace forebay::auth {

class TlsChannel final : public base::SecureChannel {
 public:
  /// Each way; several records of 16 KiB, so that the kernel is called once for all of them.
  static constexpr size_t kBufferBytes = 128 * base::kKiB;

  /// `host` of a client, for messages; `protocol` is what must have been agreed on.
  TlsChannel(SslHandle ssl, std::string host, std::string protocol);
  ~TlsChannel() override;
  TlsChannel(const TlsChannel&) = delete;
  TlsChannel& operator=(const TlsChannel&) = delete;

  Result<bool> Handshake() override;
  MutableByteView incoming() override;
  void Received(size_t bytes) override { in_end_ += bytes; }
  ByteView outgoing() const override { return {out_.get() + out_begin_, out_end_ - out_begin_}; }
  void Sent(size_t bytes) override;
  Result<size_t> Seal(std::span<const iovec> pieces) override;
  Result<size_t> Open(std::span<const iovec> places) override;
  bool peer_ended() const override;
  void End() override;

  // For the BIO, and for what looks at the peer's certificate.

  size_t TakeIncoming(MutableByteView into);
  size_t AddOutgoing(ByteView bytes);
  /// Why the peer's certificate is not accepted.
  void Refused(std::string why) { refused_ = std::move(why); }
  const std::string& host() const { return host_; }
  const std::string& protocol() const { return protocol_; }

 private:
  size_t OutgoingRoom() const { return kBufferBytes - out_end_; }
  /// The status of an SSL call that gave `result`; ok when it only has to be called again.
  Status StatusOf(int result);
  Status Explain(unsigned long error) const;

  const SslHandle ssl_;
  const std::string host_;
  const std::string protocol_;
  std::string refused_;
  Status failed_;  // final
  const std::unique_ptr<std::byte[]> in_;
  size_t in_begin_ = 0, in_end_ = 0;
  const std::unique_ptr<std::byte[]> out_;
  size_t out_begin_ = 0, out_end_ = 0;
};

/// The place in an SSL where its channel stands, for callbacks; null before there is one.
TlsChannel* ChannelOf(const SSL* ssl);

}  // namespace forebay::auth
