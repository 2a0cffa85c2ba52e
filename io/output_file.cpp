// A file that appears whole or not at all: the system calls.
// Apart from its header so that no other file includes the system's headers for files.
#include "io/output_file.h"

#include "io/text.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <random>

namespace nibble::io {
namespace {

Status check_target(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return {};  // absent; what else may be wrong, the creation will tell
  if (S_ISDIR(info.st_mode)) {
    return failure(NIBBLE_IO_ERROR, "cannot write {}: it is a directory; expected a file or a new name", quote(path));
  }
  if (!S_ISREG(info.st_mode)) {
    return failure(NIBBLE_IO_ERROR, "cannot write {}: it is not a regular file; expected a file or a new name",
                   quote(path));
  }
  // A rename needs no permission on the file that it replaces, so ask for it here.
  if (::access(path.c_str(), W_OK) != 0) {
    return failure(NIBBLE_IO_ERROR, "cannot write {}: {}", quote(path), os_words(errno));
  }
  return {};
}

/// Where standard input, output or error was closed, a new file takes its number, and what is printed would go into it.
int above_standard(int descriptor) {
  if (descriptor < 0 || descriptor > STDERR_FILENO) return descriptor;
  const int moved = ::fcntl(descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int error = errno;
  ::close(descriptor);
  errno = error;
  return moved;
}

/// What links lead to, even where nothing is there yet: the rename must replace that file, not the link.
std::string behind_links(const std::string& path) {
  constexpr int kMostLinks = 40;  // as the kernel allows
  std::filesystem::path at = path;
  std::error_code failed;
  for (int i = 0; i < kMostLinks && std::filesystem::is_symlink(at, failed); ++i) {
    const std::filesystem::path target = std::filesystem::read_symlink(at, failed);
    if (failed) break;
    at = target.is_absolute() ? target : at.parent_path() / target;
  }
  return at.string();
}

/// Beside the target, so that the rename stays on one file system; short, so that it fits where the target's name does.
std::string temporary_name(const std::string& path, unsigned number) {
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? std::string() : path.substr(0, slash + 1);
  return fmt::format("{}.nibble-{:08x}.tmp", folder, number);
}

}  // namespace

Status OutputFile::refused(std::string_view what, int error) const {
  return failure(NIBBLE_IO_ERROR, "cannot {} {}: {}", what, quote(path_), os_words(error));
}

Result<OutputFile> OutputFile::create(const std::string& path) {
  if (Status status = check_target(path); !status) return status;
  OutputFile file(behind_links(path));
  if (Status status = file.open_temporary(); !status) return status;
  return file;
}

/// Not mkstemp: its files are private, and the mask that new files should have cannot be read without setting it.
Status OutputFile::open_temporary() {
  constexpr int kTries = 100;
  std::random_device random;
  for (int i = 0; i < kTries; ++i) {
    std::string name = temporary_name(path_, random());
    descriptor_ = above_standard(::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (descriptor_ >= 0) {
      temporary_ = std::move(name);
      return {};
    }
    if (errno != EEXIST) break;
  }
  return refused("create", errno);
}

Status OutputFile::write(std::span<const std::uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return refused("write", count < 0 ? errno : ENOSPC);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return {};
}

Status OutputFile::commit() {
  const int closed = ::close(std::exchange(descriptor_, -1));
  if (closed != 0) return refused("write", errno);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return refused("put in place", errno);
  temporary_.clear();
  return {};
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, {})),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

OutputFile& OutputFile::operator=(OutputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(temporary_, other.temporary_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

}  // namespace nibble::io
