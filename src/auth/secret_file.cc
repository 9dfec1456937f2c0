// SPDX-License-Identifier: Apache-2.0
#include "auth/secret_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

namespace forebay::auth {

namespace {

/// Closes a descriptor; wipes nothing.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  const int fd_;
};

Status WriteAndSync(const std::string& path, std::string_view text) {
  const Descriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (file.get() < 0) return Status::FromErrno(errno, "create " + path);
  if (fchmod(file.get(), 0600) != 0)
    return Status::FromErrno(errno, "chmod " + path);  // a umask may have taken more
  while (!text.empty()) {
    const ssize_t count = write(file.get(), text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Status::FromErrno(errno, "write " + path);
    text.remove_prefix(static_cast<size_t>(count));
  }
  if (fsync(file.get()) != 0) return Status::FromErrno(errno, "fsync " + path);
  return Status();
}

Status SyncDirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : path.substr(0, std::max<size_t>(slash, 1));
  const Descriptor file(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (file.get() < 0) return Status::FromErrno(errno, "open directory " + directory);
  if (fsync(file.get()) != 0) return Status::FromErrno(errno, "fsync directory " + directory);
  return Status();
}

}  // namespace

void SecretText::AppendHex(ByteView bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  for (const std::byte byte : bytes) {
    Append(kDigits.substr(std::to_integer<size_t>(byte >> 4), 1));
    Append(kDigits.substr(std::to_integer<size_t>(byte & std::byte{15}), 1));
  }
}

Status ReadSecretFile(std::string_view what, const std::string& path, bool owner_only, SecretText* text) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | (owner_only ? O_NOFOLLOW : 0)));
  if (file.get() < 0) {
    if (errno == ELOOP)
      return Status::PermissionDenied("{} {} is a symbolic link; name the file itself", what, path);
    return Status::FromErrno(errno, fmt::format("open {} {}", what, path));
  }
  struct stat info{};
  if (fstat(file.get(), &info) != 0) return Status::FromErrno(errno, fmt::format("stat {} {}", what, path));
  if (!S_ISREG(info.st_mode))
    return Status::InvalidArgument("{} {} is not a regular file", what, path);
  if (owner_only && (info.st_mode & 077) != 0) {
    return Status::PermissionDenied(
        "{} {} is open to other users (mode {:04o}); close it with: chmod 600 {}", what, path,
        info.st_mode & 07777, path);
  }
  while (text->size_ < text->chars_.size()) {
    const ssize_t count = read(file.get(), text->chars_.data() + text->size_, text->chars_.size() - text->size_);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Status::FromErrno(errno, fmt::format("read {} {}", what, path));
    if (count == 0) return Status();
    text->size_ += static_cast<size_t>(count);
  }
  return Status::InvalidArgument("{} {} has {} bytes or more; it is no {}", what, path,
                                 kMaxSecretFileBytes, what);
}

Status WriteSecretFile(const std::string& path, const SecretText& text, base::Random& random) {
  const std::string temporary = fmt::format("{}.tmp-{:016x}", path, random.Next64());
  Status status = WriteAndSync(temporary, text.view());
  if (status.ok() && rename(temporary.c_str(), path.c_str()) != 0) {
    status = Status::FromErrno(errno, fmt::format("rename {} to {}", temporary, path));
  }
  if (!status.ok()) {
    unlink(temporary.c_str());
    return status;
  }
  return SyncDirectoryOf(path);
}

}  // namespace forebay::auth
