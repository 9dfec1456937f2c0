// SPDX-License-Identifier: Apache-2.0
#include "auth/private_text.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>

namespace forebay::auth {

namespace {

constexpr size_t kMaxBytes = 16 * 1024;

struct FileCloser {
  void operator()(FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<FILE, FileCloser>;

File OpenAs(const std::string& path, int flags, const char* mode) {
  const int fd = open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK, 0600);
  if (fd < 0) return nullptr;
  File file(fdopen(fd, mode));
  if (file == nullptr) close(fd);
  // A buffer of the library's would keep a copy.
  if (file != nullptr) std::setvbuf(file.get(), nullptr, _IONBF, 0);
  return file;
}

}  // namespace

Result<PrivateText> PrivateText::Load(const std::string& path) {
  const File file = OpenAs(path, O_RDONLY, "r");
  if (file == nullptr) return Status::FromErrno(errno, "open the key " + path);
  struct stat info{};
  if (fstat(fileno(file.get()), &info) != 0) return Status::FromErrno(errno, "look at the key " + path);
  if (!S_ISREG(info.st_mode)) return Status::InvalidArgument("the key {} is not a regular file", path);
  if ((info.st_mode & 077) != 0)
    return Status::PermissionDenied(
        "the key {} is open to other users (mode {:04o}); close it with: chmod 600 {}", path,
        info.st_mode & 07777, path);
  std::array<char, kMaxBytes> chars;
  const size_t size = std::fread(chars.data(), 1, chars.size(), file.get());
  const bool failed = std::ferror(file.get()) != 0;
  PrivateText text(std::string_view(chars.data(), size));
  Wipe(std::as_writable_bytes(std::span(chars)));
  if (failed) return Status::Unavailable("the key {} cannot be read", path);
  if (size == chars.size())
    return Status::InvalidArgument("the key {} has {} bytes or more; it is no key in PEM", path, size);
  return text;
}

Status PrivateText::SaveNew(const std::string& path) const {
  const File file = OpenAs(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, "w");
  if (file == nullptr && errno == EEXIST)
    return Status::AlreadyExists("{} is there already, and a key is never overwritten; remove it first",
                                 path);
  if (file == nullptr) return Status::FromErrno(errno, "make the key " + path);
  const bool written = std::fwrite(text_.data(), 1, text_.size(), file.get()) == text_.size() &&
                       fchmod(fileno(file.get()), 0600) == 0 && fsync(fileno(file.get())) == 0;
  if (written) return {};
  const Status why = Status::FromErrno(errno, "write the key " + path);
  unlink(path.c_str());
  return why;
}

}  // namespace forebay::auth
