// A file mapped for reading: the system calls and their refusals.
// Apart from its header so that no other file includes the system's headers for memory.
#include "io/mapping.h"

#include "io/text.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <limits>
#include <utility>

namespace nibble::io {
namespace {

Status check_kind(const std::string& path, int descriptor, struct stat& info) {
  if (::fstat(descriptor, &info) != 0) {
    return failure(NIBBLE_IO_ERROR, "cannot read {}: {}", quote(path), os_words(errno));
  }
  if (S_ISDIR(info.st_mode)) {
    return failure(NIBBLE_IO_ERROR, "{} is a directory; expected a GGUF or safetensors file", quote(path));
  }
  if (!S_ISREG(info.st_mode)) {
    return failure(NIBBLE_IO_ERROR, "{} is not a regular file; expected a GGUF or safetensors file", quote(path));
  }
  if (info.st_size == 0) return bad_file("{} is empty; expected a GGUF or safetensors file", quote(path));
  if (static_cast<std::uint64_t>(info.st_size) > std::numeric_limits<std::size_t>::max()) {
    return failure(NIBBLE_IO_ERROR, "{} has {} bytes, more than this machine can map", quote(path), info.st_size);
  }
  return {};
}

}  // namespace

Result<Mapping> Mapping::open(const std::string& path) {
  // Non-blocking, so that a pipe is refused below instead of waited for.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    const int error = errno;
    const bool missing = error == ENOENT || error == ENOTDIR;
    return failure(missing ? NIBBLE_NOT_FOUND : NIBBLE_IO_ERROR, "cannot open {}: {}", quote(path), os_words(error));
  }
  struct stat info {};
  Status kind = check_kind(path, descriptor, info);
  if (!kind) {
    ::close(descriptor);
    return kind;
  }
  const auto size = static_cast<std::size_t>(info.st_size);
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  const int error = errno;
  ::close(descriptor);
  if (data == MAP_FAILED) return failure(NIBBLE_IO_ERROR, "cannot map {}: {}", quote(path), os_words(error));
  return Mapping(static_cast<const std::uint8_t*>(data), size);
}

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Mapping::~Mapping() {
  if (data_ != nullptr) ::munmap(const_cast<std::uint8_t*>(data_), size_);
}

}  // namespace nibble::io
