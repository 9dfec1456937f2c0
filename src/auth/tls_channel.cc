// SPDX-License-Identifier: Apache-2.0
#include "auth/tls_channel.h"

#include <algorithm>
#include <array>
#include <utility>

namespace forebay::auth {

namespace {

constexpr size_t kRecordBytes = SSL3_RT_MAX_PLAIN_LENGTH;
/// More than header, content type and tag of a record.
constexpr size_t kRecordOverhead = 64;
/// What is left of the buffer is not worth a record of its own below this.
constexpr size_t kLeastRoom = 4096 + kRecordOverhead;

// ---- the BIO: OpenSSL's way to the two buffers ----

TlsChannel& ChannelOf(BIO* bio) { return *static_cast<TlsChannel*>(BIO_get_data(bio)); }

int ReadIncoming(BIO* bio, char* into, int size) {
  BIO_clear_retry_flags(bio);
  const size_t taken = ChannelOf(bio).TakeIncoming(
      std::as_writable_bytes(std::span(into, static_cast<size_t>(std::max(size, 0)))));
  if (taken != 0) return static_cast<int>(taken);
  BIO_set_retry_read(bio);
  return -1;
}

int WriteOutgoing(BIO* bio, const char* from, int size) {
  BIO_clear_retry_flags(bio);
  const size_t added =
      ChannelOf(bio).AddOutgoing(std::as_bytes(std::span(from, static_cast<size_t>(std::max(size, 0)))));
  if (added != 0 || size <= 0) return static_cast<int>(added);
  BIO_set_retry_write(bio);
  return -1;
}

long Control(BIO* /*bio*/, int command, long /*number*/, void* /*pointer*/) {
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

BIO_METHOD* BufferMethod() {
  static BIO_METHOD* const method = [] {  // never changes once made
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "forebay buffers");
    if (made != nullptr) {
      BIO_meth_set_read(made, &ReadIncoming);
      BIO_meth_set_write(made, &WriteOutgoing);
      BIO_meth_set_ctrl(made, &Control);
    }
    return made;
  }();
  return method;
}

/// What an alert of the peer says about our certificate; empty when it is about something else.
std::string_view AlertText(int alert) {
  switch (alert) {
    case SSL_AD_UNKNOWN_CA:
      return "it is of another authority";
    case SSL_AD_CERTIFICATE_EXPIRED:
      return "it has expired, by the peer's clock";
    case SSL_AD_CERTIFICATE_REVOKED:
      return "it is revoked";
    case SSL_AD_CERTIFICATE_REQUIRED:
      return "there is none";
    case SSL_AD_UNSUPPORTED_CERTIFICATE:
      return "it is not for this side of a connection";
    case SSL_AD_BAD_CERTIFICATE:
    case SSL_AD_CERTIFICATE_UNKNOWN:
    case SSL_AD_DECRYPT_ERROR:
      return "it does not accept it";
    default:
      return {};
  }
}

/// Pieces as one run of at most a record: the first itself when it is long, else several together.
ByteView NextRecord(std::span<const iovec> pieces, size_t piece, size_t within, size_t most,
                    std::array<std::byte, kRecordBytes>& scratch) {
  const auto rest = [&](size_t i) {
    const ByteView all(static_cast<const std::byte*>(pieces[i].iov_base), pieces[i].iov_len);
    return i == piece ? all.subspan(within) : all;
  };
  if (rest(piece).size() >= most) return rest(piece).first(most);
  size_t size = 0;
  for (size_t i = piece; i < pieces.size() && size < most; ++i) {
    const ByteView part = rest(i).first(std::min(rest(i).size(), most - size));
    std::ranges::copy(part, scratch.begin() + static_cast<ptrdiff_t>(size));
    size += part.size();
  }
  return ByteView(scratch).first(size);
}

}  // namespace

TlsChannel* ChannelOf(const SSL* ssl) { return static_cast<TlsChannel*>(SSL_get_app_data(ssl)); }

TlsChannel::TlsChannel(SslHandle ssl, std::string host, std::string protocol)
    : ssl_(std::move(ssl)),
      host_(std::move(host)),
      protocol_(std::move(protocol)),
      in_(std::make_unique_for_overwrite<std::byte[]>(kBufferBytes)),
      out_(std::make_unique_for_overwrite<std::byte[]>(kBufferBytes)) {
  SSL_set_app_data(ssl_.get(), this);
  BIO* const bio = BufferMethod() == nullptr ? nullptr : BIO_new(BufferMethod());
  if (bio == nullptr) {
    failed_ = Status::ResourceExhausted("no memory for a TLS connection");
    return;
  }
  BIO_set_data(bio, this);
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl_.get(), bio, bio);
}

TlsChannel::~TlsChannel() = default;

Result<bool> TlsChannel::Handshake() {
  FB_TRY(failed_);
  ERR_clear_error();
  const int result = SSL_do_handshake(ssl_.get());
  if (result != 1) {
    FB_TRY(StatusOf(result));
    return false;
  }
  const unsigned char* name = nullptr;
  unsigned size = 0;
  SSL_get0_alpn_selected(ssl_.get(), &name, &size);
  if (std::string_view(reinterpret_cast<const char*>(name), size) != protocol_) {
    failed_ = Status::Unavailable("the peer speaks TLS, but not `{}` in it", protocol_);
    return failed_;
  }
  return true;
}

MutableByteView TlsChannel::incoming() {
  if (in_begin_ == in_end_) in_begin_ = in_end_ = 0;
  return {in_.get() + in_end_, kBufferBytes - in_end_};
}

size_t TlsChannel::TakeIncoming(MutableByteView into) {
  const size_t size = std::min(into.size(), in_end_ - in_begin_);
  std::copy_n(in_.get() + in_begin_, size, into.begin());
  in_begin_ += size;
  return size;
}

size_t TlsChannel::AddOutgoing(ByteView bytes) {
  const size_t size = std::min(bytes.size(), OutgoingRoom());
  std::copy_n(bytes.begin(), size, out_.get() + out_end_);
  out_end_ += size;
  return size;
}

void TlsChannel::Sent(size_t bytes) {
  out_begin_ += bytes;
  if (out_begin_ == out_end_) out_begin_ = out_end_ = 0;
}

Result<size_t> TlsChannel::Seal(std::span<const iovec> pieces) {
  FB_TRY(failed_);
  std::array<std::byte, kRecordBytes> scratch;
  size_t piece = 0, within = 0, total = 0;
  const auto skip = [&](size_t bytes) {
    within += bytes;
    while (piece < pieces.size() && within >= pieces[piece].iov_len) within -= pieces[piece++].iov_len;
  };
  for (skip(0); piece < pieces.size() && OutgoingRoom() >= kLeastRoom;) {
    const size_t most = std::min(kRecordBytes, OutgoingRoom() - kRecordOverhead);
    const ByteView record = NextRecord(pieces, piece, within, most, scratch);
    ERR_clear_error();
    const int result = SSL_write(ssl_.get(), record.data(), static_cast<int>(record.size()));
    if (result <= 0) {
      FB_TRY(StatusOf(result));
      break;  // something of the protocol's own has to go first
    }
    total += static_cast<size_t>(result);
    skip(static_cast<size_t>(result));
  }
  return total;
}

Result<size_t> TlsChannel::Open(std::span<const iovec> places) {
  FB_TRY(failed_);
  size_t total = 0;
  for (const iovec& place : places) {
    size_t filled = 0;
    while (filled < place.iov_len) {
      ERR_clear_error();
      const size_t room = std::min<size_t>(place.iov_len - filled, kBufferBytes);
      const int result =
          SSL_read(ssl_.get(), static_cast<std::byte*>(place.iov_base) + filled, static_cast<int>(room));
      if (result <= 0) {
        const Status status = StatusOf(result);
        if (!status.ok() && total == 0) return status;  // else it is told next time
        return total;
      }
      filled += static_cast<size_t>(result);
      total += static_cast<size_t>(result);
    }
  }
  return total;
}

bool TlsChannel::peer_ended() const { return (SSL_get_shutdown(ssl_.get()) & SSL_RECEIVED_SHUTDOWN) != 0; }

void TlsChannel::End() {
  if (!failed_.ok()) return;
  ERR_clear_error();
  SSL_shutdown(ssl_.get());
  ERR_clear_error();
}

Status TlsChannel::StatusOf(int result) {
  switch (SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
    case SSL_ERROR_ZERO_RETURN:
      return {};
    default:
      failed_ = Explain(ERR_peek_error());
      ERR_clear_error();
      return failed_;
  }
}

Status TlsChannel::Explain(unsigned long error) const {
  if (!refused_.empty()) return Status::Unauthenticated("{}", refused_);
  const int reason = ERR_GET_REASON(error);
  if (const auto text = AlertText(reason - SSL_AD_REASON_OFFSET); !text.empty())
    return Status::Unauthenticated("the peer refuses our certificate: {}", text);
  if (reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE)
    return Status::Unauthenticated("the peer has no certificate; it needs one: --tls DIR");
  if (reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_HTTP_REQUEST ||
      reason == SSL_R_HTTPS_PROXY_REQUEST)
    return Status::Unavailable("the peer does not speak TLS");
  if (reason == SSL_AD_NO_APPLICATION_PROTOCOL + SSL_AD_REASON_OFFSET ||
      reason == SSL_R_NO_APPLICATION_PROTOCOL)
    return Status::Unavailable("the peer speaks TLS, but not `{}` in it", protocol_);
  const char* const text = ERR_reason_error_string(error);
  return Status::Unavailable("TLS: {}", text == nullptr ? "the connection broke" : text);
}

}  // namespace forebay::auth
