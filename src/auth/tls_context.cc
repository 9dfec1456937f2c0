// SPDX-License-Identifier: Apache-2.0
#include "auth/tls_context.h"

#include <arpa/inet.h>

#include <array>
#include <utility>

#include <openssl/pem.h>

#include "auth/openssl_handles.h"
#include "auth/tls_channel.h"

namespace forebay::auth {

namespace {

/// A chain of this many certificates between a leaf and its authority is longer than any that is meant.
constexpr int kMaxChain = 4;
/// Of all certificates that a peer sends.
constexpr long kMaxChainBytes = 32 * 1024;

Status Failed(const std::string& directory, std::string_view what) {
  return Status::InvalidArgument("{}{}: {}", directory, what, OpensslReason());
}

Status AddAuthorities(SSL_CTX* context, const TlsFiles& files) {
  const BioHandle bio = ReadOnly(files.authority_pem);
  int count = 0;
  while (true) {
    const CertificateHandle authority(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
    if (authority == nullptr) break;
    if (X509_STORE_add_cert(SSL_CTX_get_cert_store(context), authority.get()) != 1 ||
        SSL_CTX_add_client_CA(context, authority.get()) != 1)
      return Failed(files.directory, "/ca.crt");
    ++count;
  }
  if (count == 0) return Failed(files.directory, "/ca.crt holds no certificate");
  ERR_clear_error();  // the end of the file
  return {};
}

Status AddOwn(SSL_CTX* context, const TlsFiles& files) {
  const BioHandle bio = ReadOnly(files.certificate_pem);
  const CertificateHandle leaf(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
  if (leaf == nullptr || SSL_CTX_use_certificate(context, leaf.get()) != 1)
    return Failed(files.directory, "/tls.crt");
  while (X509* const more = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)) {
    if (SSL_CTX_add0_chain_cert(context, more) == 1) continue;
    X509_free(more);
    return Failed(files.directory, "/tls.crt");
  }
  ERR_clear_error();
  const BioHandle secret = ReadOnly(files.key_pem.view());
  const KeyHandle key(PEM_read_bio_PrivateKey(secret.get(), nullptr, nullptr, nullptr));
  if (key == nullptr) return Failed(files.directory, "/tls.key is no private key in PEM");
  if (SSL_CTX_use_PrivateKey(context, key.get()) != 1 || SSL_CTX_check_private_key(context) != 1) {
    ERR_clear_error();
    return Status::FailedPrecondition(
        "{0}/tls.key is not the key of {0}/tls.crt: both come from one `forebay certs`", files.directory);
  }
  return {};
}

std::string NameOf(X509* certificate) {
  const std::unique_ptr<BIO, OpensslFree<BIO_free_all>> bio(BIO_new(BIO_s_mem()));
  if (bio == nullptr || certificate == nullptr || PEM_write_bio_X509(bio.get(), certificate) != 1)
    return "unknown";
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  const auto info = DescribeCertificate({data, static_cast<size_t>(size)}, "the peer's certificate");
  if (!info.ok()) return "unknown";
  std::string text = fmt::format("`{}`", info->subject);
  for (const std::string& host : info->hosts) text += fmt::format(", {}", host);
  return text;
}

/// Called by OpenSSL for what it finds wrong with a peer's certificates; keeps why, in words.
int LookAtPeer(int ok, X509_STORE_CTX* store) {
  if (ok == 1) return ok;
  const auto* const ssl =
      static_cast<const SSL*>(X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
  TlsChannel* const channel = ssl == nullptr ? nullptr : ChannelOf(ssl);
  if (channel == nullptr) return ok;
  const std::string name = NameOf(X509_STORE_CTX_get0_cert(store));
  const int error = X509_STORE_CTX_get_error(store);
  if (error == X509_V_ERR_HOSTNAME_MISMATCH || error == X509_V_ERR_IP_ADDRESS_MISMATCH) {
    channel->Refused(
        fmt::format("the server's certificate is for {}, not for {}: reach it by a name in its "
                    "certificate, or make one with --host {}",
                    name, channel->host(), channel->host()));
  } else {
    channel->Refused(fmt::format("the peer's certificate ({}) is not accepted: {}", name,
                                 X509_verify_cert_error_string(error)));
  }
  return ok;
}

/// As ALPN has it: a length, and the name.
std::string ProtocolList(std::string_view protocol) {
  return std::string(1, static_cast<char>(protocol.size())) + std::string(protocol);
}

/// Of the channel and not of the context, which may be gone.
int ChooseProtocol(SSL* ssl, const unsigned char** out, unsigned char* out_size, const unsigned char* offered,
                   unsigned offered_size, void* /*argument*/) {
  const std::string list = ProtocolList(ChannelOf(ssl)->protocol());
  unsigned char* chosen = nullptr;  // within what was offered
  if (SSL_select_next_proto(&chosen, out_size, offered, offered_size,
                            reinterpret_cast<const unsigned char*>(list.data()),
                            static_cast<unsigned>(list.size())) != OPENSSL_NPN_NEGOTIATED)
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  *out = chosen;
  return SSL_TLSEXT_ERR_OK;
}

}  // namespace

struct TlsContext::Parts {
  ContextHandle context;
  bool server = false;
  std::string protocol;
  std::string host;

  static Result<std::unique_ptr<Parts>> Make(const TlsFiles& files, bool server, std::string_view protocol);
};

Result<std::unique_ptr<TlsContext::Parts>> TlsContext::Parts::Make(const TlsFiles& files, bool server,
                                                                   std::string_view protocol) {
  auto parts = std::make_unique<Parts>();
  parts->context.reset(SSL_CTX_new(server ? TLS_server_method() : TLS_client_method()));
  SSL_CTX* const context = parts->context.get();
  if (context == nullptr || SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) != 1)
    return Status::Internal("TLS cannot be set up: {}", OpensslReason());
  parts->server = server;
  parts->protocol = protocol;
  const std::string protocols = ProtocolList(protocol);
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_num_tickets(context, 0);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_max_cert_list(context, kMaxChainBytes);
  SSL_CTX_set_verify_depth(context, kMaxChain);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, &LookAtPeer);
  FB_TRY(AddAuthorities(context, files));
  FB_TRY(AddOwn(context, files));
  if (server) {
    SSL_CTX_set_alpn_select_cb(context, &ChooseProtocol, nullptr);
  } else if (SSL_CTX_set_alpn_protos(context, reinterpret_cast<const unsigned char*>(protocols.data()),
                                     static_cast<unsigned>(protocols.size())) != 0) {
    return Status::Internal("TLS cannot be set up: {}", OpensslReason());
  }
  return parts;
}

TlsContext::TlsContext(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
TlsContext::~TlsContext() = default;

Result<std::unique_ptr<TlsContext>> TlsContext::ForServer(const TlsFiles& files, std::string_view protocol) {
  FB_ASSIGN(auto parts, Parts::Make(files, true, protocol));
  return std::unique_ptr<TlsContext>(new TlsContext(std::move(parts)));
}

Result<std::unique_ptr<TlsContext>> TlsContext::ForClient(const TlsFiles& files, std::string_view protocol,
                                                          const std::string& host) {
  if (host.empty()) return Status::InvalidArgument("a client of TLS must know its server's name");
  FB_ASSIGN(auto parts, Parts::Make(files, false, protocol));
  parts->host = host;
  return std::unique_ptr<TlsContext>(new TlsContext(std::move(parts)));
}

Status TlsContext::Check(const TlsFiles& files) {
  FB_ASSIGN(const auto parts, Parts::Make(files, true, kDataProtocol));
  SSL_CTX* const context = parts->context.get();
  STACK_OF(X509)* chain = nullptr;
  SSL_CTX_get0_chain_certs(context, static_cast<void*>(&chain));
  const std::unique_ptr<X509_STORE_CTX, OpensslFree<X509_STORE_CTX_free>> look(X509_STORE_CTX_new());
  if (look == nullptr || X509_STORE_CTX_init(look.get(), SSL_CTX_get_cert_store(context),
                                             SSL_CTX_get0_certificate(context), chain) != 1)
    return Status::Internal("certificates cannot be looked at: {}", OpensslReason());
  // Dates were looked at with a better message, and by the caller's clock.
  X509_STORE_CTX_set_flags(look.get(), X509_V_FLAG_NO_CHECK_TIME);
  if (X509_verify_cert(look.get()) == 1) return {};
  ERR_clear_error();
  return Status::FailedPrecondition("{0}/tls.crt is not of the authority in {0}/ca.crt: {1}", files.directory,
                                    X509_verify_cert_error_string(X509_STORE_CTX_get_error(look.get())));
}

Result<std::unique_ptr<base::SecureChannel>> TlsContext::Make() {
  SslHandle ssl(SSL_new(parts_->context.get()));
  if (ssl == nullptr) return Status::ResourceExhausted("no memory for a TLS connection");
  if (parts_->server) {
    SSL_set_accept_state(ssl.get());
  } else {
    SSL_set_connect_state(ssl.get());
    X509_VERIFY_PARAM* const demands = SSL_get0_param(ssl.get());
    std::array<unsigned char, sizeof(in6_addr)> address;
    const bool numeric = inet_pton(AF_INET, parts_->host.c_str(), address.data()) == 1 ||
                         inet_pton(AF_INET6, parts_->host.c_str(), address.data()) == 1;
    X509_VERIFY_PARAM_set_hostflags(demands, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
    const int set = numeric ? X509_VERIFY_PARAM_set1_ip_asc(demands, parts_->host.c_str())
                            : X509_VERIFY_PARAM_set1_host(demands, parts_->host.c_str(), parts_->host.size());
    if (set != 1 || (!numeric && SSL_set_tlsext_host_name(ssl.get(), parts_->host.c_str()) != 1))
      return Status::InvalidArgument("`{}` is no host that a certificate could name", parts_->host);
  }
  return std::unique_ptr<base::SecureChannel>(
      std::make_unique<TlsChannel>(std::move(ssl), parts_->host, parts_->protocol));
}

}  // namespace forebay::auth
