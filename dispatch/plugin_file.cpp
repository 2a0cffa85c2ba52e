// The file's kind, and its length against its program header.
// Apart from the header so that ELF's names stay here.
#include "dispatch/plugin_file.h"

#include <elf.h>
#include <fmt/format.h>
#include <link.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace nibble {
namespace {

namespace fs = std::filesystem;

std::string cut_fault(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  ElfW(Ehdr) header{};
  file.read(reinterpret_cast<char*>(&header), sizeof header);
  if (!file || !std::equal(ELFMAG, ELFMAG + SELFMAG, header.e_ident) || header.e_phentsize != sizeof(ElfW(Phdr)))
    return {};
  std::error_code error;
  const std::uintmax_t size = fs::file_size(path, error);
  for (unsigned i = 0; !error && i < header.e_phnum; ++i) {
    ElfW(Phdr) part{};
    file.seekg(static_cast<std::streamoff>(header.e_phoff + i * sizeof part));
    file.read(reinterpret_cast<char*>(&part), sizeof part);
    if (!file) return fmt::format("it is cut off: {} bytes end within its program header", size);
    if (part.p_type == PT_LOAD && (part.p_offset > size || part.p_filesz > size - part.p_offset))
      return fmt::format("it is cut off: {} bytes, and its program header maps {} at {}", size, part.p_filesz,
                         part.p_offset);
  }
  return {};
}

}  // namespace

std::string plugin_file_fault(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (error) return fmt::format("it cannot be read: {}", error.message());
  return fs::is_regular_file(status) ? cut_fault(path) : "it is not a regular file";
}

}  // namespace nibble
