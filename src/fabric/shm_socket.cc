// SPDX-License-Identifier: Apache-2.0
#include "fabric/shm_socket.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "fabric/limits.h"
#include "fabric/shm_descriptors.h"
#include "fabric/shm_hello.h"
#include "fabric/shm_memory.h"
#include "fabric/shm_ring.h"
#include "fabric/shm_stream.h"

namespace forebay::fabric {

namespace {

Status Failed(rt::Reactor& reactor, int error, base::TimePoint deadline, std::string_view what) {
  if (error == ETIMEDOUT && deadline <= reactor.Now())
    return Status::DeadlineExceeded("{}: the deadline passed", what);
  if (error == ECANCELED) return Status::Cancelled("{}: cancelled", what);
  return Status::Unavailable("{}: {}", what, std::generic_category().message(error));
}

/// A hello and the memory that came with it.
struct ReceivedHello {
  ShmHello hello;
  Socket descriptor;
};

rt::Task<Status> SendHello(rt::Reactor& reactor, int fd, ShmHelloBytes bytes, int descriptor,
                           rt::OpOptions until) {
  DescriptorMessage message(bytes.data(), bytes.size());
  message.Attach(descriptor);
  // An empty socket buffer takes so little at once.
  const int sent = co_await reactor.Sendmsg(fd, &message.header, MSG_WAITALL, until);
  if (sent < 0) co_return Failed(reactor, -sent, until.deadline, "send the hello");
  if (static_cast<size_t>(sent) != bytes.size())
    co_return Status::Unavailable("send the hello: the connection broke");
  co_return Status();
}

rt::Task<Result<ReceivedHello>> ReceiveHello(rt::Reactor& reactor, int fd, Role expected,
                                             rt::OpOptions until) {
  ShmHelloBytes bytes;
  std::vector<Socket> descriptors;
  size_t have = 0;
  while (have < bytes.size()) {
    DescriptorMessage message(bytes.data() + have, bytes.size() - have);
    const int got = co_await reactor.Recvmsg(fd, &message.header, MSG_CMSG_CLOEXEC, until);
    if (got < 0) co_return Failed(reactor, -got, until.deadline, "wait for the peer's hello");
    const bool had_room = message.Collect(descriptors);
    if (got == 0) {
      co_return Status::Unavailable(
          "the peer closed the connection instead of sending its hello; perhaps it does not allow "
          "user {}",
          geteuid());
    }
    if (!had_room || descriptors.size() > 1) {
      co_return Status::InvalidArgument("the peer sent more descriptors than one");
    }
    have += static_cast<size_t>(got);
  }
  FB_CO_ASSIGN(const ShmHello hello, DecodeShmHello(bytes, expected));
  if (descriptors.empty()) co_return Status::InvalidArgument("the peer sent no shared memory with its hello");
  co_return ReceivedHello{hello, std::move(descriptors.front())};
}

/// Who is at the other end, when it may be.
Result<ucred> CheckPeer(int fd, const ShmOptions& shm, std::string_view what) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
    return Status::FromErrno(errno, "SO_PEERCRED");
  const bool allowed = peer.uid == geteuid() || peer.uid == 0 ||
                       std::ranges::find(shm.allowed_users, peer.uid) != shm.allowed_users.end();
  if (!allowed) {
    return Status::PermissionDenied(
        "{} is process {} of user {}: shared memory is only for user {} unless that one is allowed "
        "too",
        what, peer.pid, peer.uid, geteuid());
  }
  return peer;
}

KeptDescriptors KeepFor(const ShmOptions& shm) {
  return shm.borrows ? KeptDescriptors::Reserve() : KeptDescriptors();
}

ShmHello HelloOf(const EndpointOptions& options, const ShmOptions& shm, uint16_t keeps, Role role) {
  return {.role = role,
          .max_message_bytes = static_cast<uint32_t>(options.max_message_bytes),
          .max_transfer_bytes = static_cast<uint32_t>(options.max_transfer_bytes),
          .max_transfers = options.max_transfers,
          .ring_bytes = static_cast<uint32_t>(shm.ring_bytes),
          .borrows = shm.borrows,
          .keeps = keeps};
}

Result<Greeted> Join(Socket socket, ShmMapping own, KeptDescriptors kept, const ReceivedHello& peer, std::string name,
                     const EndpointOptions& options, const ShmOptions& shm) {
  FB_ASSIGN(ShmMapping theirs, MapPeerShm(peer.descriptor.fd(), kShmControlBytes + peer.hello.ring_bytes));
  EndpointOptions limits;
  limits.max_message_bytes = peer.hello.max_message_bytes;
  limits.max_transfer_bytes = peer.hello.max_transfer_bytes;
  limits.max_transfers = peer.hello.max_transfers;
  std::shared_ptr<LentBlocks> lent = peer.hello.borrows ? shm.lent : nullptr;
  auto stream = std::make_unique<ShmByteStream>(
      std::move(socket), std::move(own), std::move(theirs), name,
      ShmByteStream::Loans{.takes = shm.borrows, .passes = lent != nullptr});
  return Greeted{std::move(stream), std::move(name), CommonLimits(options, limits),
                 std::move(lent),   std::move(kept), peer.hello.keeps};
}

/// The listener's part: waits for the connector's hello and answers it.
rt::Task<Result<Greeted>> GreetShmConnector(rt::Reactor& reactor, Socket socket, EndpointOptions options,
                                            ShmOptions shm, rt::OpOptions until) {
  FB_CO_ASSIGN(const ucred peer, CheckPeer(socket.fd(), shm, "the connector"));
  auto received = co_await ReceiveHello(reactor, socket.fd(), Role::kConnector, until);
  // Answered also when the version does not fit, so that the connector can say what is wrong; a stranger gets
  // nothing.
  if (!received.ok() && received.status().code() != Code::kFailedPrecondition) co_return received.status();
  FB_CO_ASSIGN(ShmMemory own, CreateShm(kShmControlBytes + shm.ring_bytes));
  KeptDescriptors kept = KeepFor(shm);
  const ShmHelloBytes hello = EncodeShmHello(HelloOf(options, shm, kept.places(), Role::kListener));
  FB_CO_TRY(co_await SendHello(reactor, socket.fd(), hello, own.descriptor.fd(), until));
  FB_CO_TRY(received);
  co_return Join(std::move(socket), std::move(own.mapping), std::move(kept), *received,
                 fmt::format("process {} of user {}", peer.pid, peer.uid), options, shm);
}

class ShmListeningSocket final : public ListeningSocket {
 public:
  ShmListeningSocket(Socket socket, ShmAddress address, ino_t inode, ShmOptions shm)
      : socket_(std::move(socket)), address_(std::move(address)), inode_(inode), shm_(std::move(shm)) {}
  ~ShmListeningSocket() override {
    struct stat file{};
    const std::string path = address_.path();
    // Unless another one has taken the place.
    if (!path.empty() && lstat(path.c_str(), &file) == 0 && file.st_ino == inode_) unlink(path.c_str());
  }
  int fd() const override { return socket_.fd(); }
  std::string address() const override { return address_.text(); }
  rt::Task<Result<Greeted>> Greet(rt::Reactor& reactor, Socket socket, EndpointOptions options,
                                  rt::OpOptions until) override {
    return GreetShmConnector(reactor, std::move(socket), options, shm_, until);
  }

 private:
  Socket socket_;
  const ShmAddress address_;
  const ino_t inode_;  // of the path
  const ShmOptions shm_;
};

}  // namespace

// ---- addresses ----

Result<ShmAddress> ShmAddress::Parse(const std::string& text) {
  ShmAddress address;
  address.text_ = text;
  address.address_.sun_family = AF_UNIX;
  const bool named = text.starts_with('@');
  if (!named && !text.starts_with('/')) {
    return Status::InvalidArgument(
        "`{}` is no address for shared memory: give the absolute path of a socket, or @name", text);
  }
  if (text.size() >= sizeof(address.address_.sun_path) || text.find('\0') != std::string::npos) {
    return Status::InvalidArgument("the socket address `{}` has {} characters, {} fit: choose a shorter path",
                                   text, text.size(), sizeof(address.address_.sun_path) - 1);
  }
  std::ranges::copy(text, address.address_.sun_path);
  if (named) address.address_.sun_path[0] = '\0';
  const size_t start = offsetof(sockaddr_un, sun_path);
  address.size_ = static_cast<socklen_t>(start + (text == "@" ? 0 : text.size() + (named ? 0 : 1)));
  return address;
}

ShmAddress ShmAddress::Of(const sockaddr_un& from, socklen_t size) {
  ShmAddress address;
  address.address_ = from;
  address.size_ = size;
  const size_t length = size - offsetof(sockaddr_un, sun_path);
  address.text_.assign(from.sun_path, length);
  if (from.sun_path[0] == '\0') {
    address.text_[0] = '@';
  } else {
    address.text_.resize(std::strlen(address.text_.c_str()));
  }
  return address;
}

// ---- listening ----

namespace {

constexpr int kBacklog = 1024;

/// Of the directory of a path, held while one looks whether its socket is alive and takes its place.
Result<Socket> LockDirectory(const std::string& path) {
  const std::string directory = path.substr(0, std::max<size_t>(path.rfind('/'), 1));
  Socket lock(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (lock.fd() < 0) return Status::FromErrno(errno, "the directory of the socket " + path);
  if (flock(lock.fd(), LOCK_EX) != 0)
    return Status::FromErrno(errno, "lock the directory of the socket " + path);
  return lock;
}

/// A socket without a listener, of ours or of a dead process, is taken away.
Status RemoveDeadSocket(const ShmAddress& address) {
  struct stat file{};
  if (lstat(address.path().c_str(), &file) != 0 || !S_ISSOCK(file.st_mode)) {
    return Status::FailedPrecondition("{} exists and is no socket: choose another path", address.text());
  }
  const Socket probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (connect(probe.fd(), address.get(), address.size()) == 0 || errno != ECONNREFUSED) {
    return Status::FailedPrecondition("somebody listens on {} already: choose another path", address.text());
  }
  if (unlink(address.path().c_str()) != 0)
    return Status::FromErrno(errno, "remove the dead socket " + address.text());
  return Status();
}

Status Bind(int fd, const ShmAddress& address) {
  if (bind(fd, address.get(), address.size()) == 0) return Status();
  if (errno != EADDRINUSE) return Status::FromErrno(errno, "listen on " + address.text());
  if (address.path().empty()) {
    return Status::FailedPrecondition("somebody listens on {} already: choose another name", address.text());
  }
  FB_TRY(RemoveDeadSocket(address));
  if (bind(fd, address.get(), address.size()) != 0)
    return Status::FromErrno(errno, "listen on " + address.text());
  return Status();
}

}  // namespace

Result<std::unique_ptr<ListeningSocket>> ListenShm(const ShmAddress& address, ShmOptions shm) {
  Socket lock;
  if (!address.path().empty()) {
    FB_ASSIGN(lock, LockDirectory(address.path()));
  }
  Socket socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (socket.fd() < 0) return Status::FromErrno(errno, "a socket for " + address.text());
  // The file is made with these rights; others are kept out by the look at their user as well.
  if (fchmod(socket.fd(), 0600) != 0) return Status::FromErrno(errno, "rights of a socket");
  FB_TRY(Bind(socket.fd(), address));
  // By name and before anybody can connect, since the process's umask cuts what bind gives.
  if (!address.path().empty() && !shm.allowed_users.empty() && chmod(address.path().c_str(), 0666) != 0) {
    return Status::FromErrno(errno, "rights of the socket " + address.text());
  }
  if (listen(socket.fd(), kBacklog) != 0) return Status::FromErrno(errno, "listen on " + address.text());
  sockaddr_un bound{};
  socklen_t size = sizeof(bound);
  if (getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&bound), &size) != 0) {
    return Status::FromErrno(errno, "address of the socket " + address.text());
  }
  struct stat file{};
  if (!address.path().empty() && lstat(address.path().c_str(), &file) != 0) {
    return Status::FromErrno(errno, "the socket " + address.text());
  }
  return std::unique_ptr<ListeningSocket>(std::make_unique<ShmListeningSocket>(
      std::move(socket), ShmAddress::Of(bound, size), file.st_ino, std::move(shm)));
}

rt::Task<Result<Greeted>> DialShm(rt::Reactor& reactor, ShmAddress address, EndpointOptions options,
                                  ShmOptions shm, base::TimePoint deadline) {
  const std::string what = "connect to " + address.text();
  Socket socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (socket.fd() < 0) co_return Status::FromErrno(errno, "a socket for " + address.text());
  const rt::OpOptions until{.deadline = deadline};
  const int connected = co_await reactor.Connect(socket.fd(), address.get(), address.size(), until);
  if (connected < 0) co_return Failed(reactor, -connected, deadline, what);
  FB_CO_TRY(CheckPeer(socket.fd(), shm, "the listener on " + address.text()));
  FB_CO_ASSIGN(ShmMemory own, CreateShm(kShmControlBytes + shm.ring_bytes));
  KeptDescriptors kept = KeepFor(shm);
  const ShmHelloBytes hello = EncodeShmHello(HelloOf(options, shm, kept.places(), Role::kConnector));
  const Status sent = co_await SendHello(reactor, socket.fd(), hello, own.descriptor.fd(), until);
  if (!sent.ok()) co_return sent.WithContext(what);
  auto received = co_await ReceiveHello(reactor, socket.fd(), Role::kListener, until);
  if (!received.ok()) co_return received.status().WithContext(what);
  co_return Join(std::move(socket), std::move(own.mapping), std::move(kept), *received, address.text(), options, shm);
}

}  // namespace forebay::fabric
