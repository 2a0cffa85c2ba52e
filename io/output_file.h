// A file that appears whole or not at all: written under a temporary name, renamed at the end.
// Apart from the writer because the system's calls and their refusals have nothing to do with tensors.
#ifndef NIBBLE_IO_OUTPUT_FILE_H
#define NIBBLE_IO_OUTPUT_FILE_H

#include <nibble/status.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace nibble::io {

/// Move-only. Destroyed before `commit` succeeded, it removes the temporary file; the target stays as it was.
class OutputFile {
 public:
  /// Refuses a target that exists and is no regular writable file: a rename would replace it.
  static Result<OutputFile> create(const std::string& path);

  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&& other) noexcept;
  ~OutputFile();

  [[nodiscard]] const std::string& path() const { return path_; }
  Status write(std::span<const std::uint8_t> bytes);
  /// Closes and renames; the file then has the permissions of any new file.
  Status commit();

 private:
  explicit OutputFile(std::string path) : path_(std::move(path)) {}
  Status open_temporary();
  [[nodiscard]] Status refused(std::string_view what, int error) const;

  std::string path_;
  std::string temporary_;  ///< empty where there is none to remove
  int descriptor_ = -1;
};

}  // namespace nibble::io

#endif
