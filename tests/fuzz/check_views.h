// What must hold for every file that a parser accepted: each view lies in the file, or in memory that the file owns.
// Apart from the fuzzers because both parsers make the same promise.
#ifndef NIBBLE_TESTS_FUZZ_CHECK_VIEWS_H
#define NIBBLE_TESTS_FUZZ_CHECK_VIEWS_H

#include "io/parsed_file.h"

#include <cstdint>
#include <cstdlib>
#include <span>

namespace nibble::fuzz {

/// Reads the first and the last byte: the sanitizer sees a view that ends beyond the memory it lies in. A view that
/// nothing owns ends the process, as does one whose size does not fit.
inline void check_view(const Tensor& tensor) {
  if (!present(tensor)) return;
  const auto bytes = storage_bytes(tensor.format, std::span(tensor.shape, tensor.rank));
  if (!bytes) std::abort();
  if (*bytes == 0) return;
  const volatile std::uint8_t* data = nibble::bytes_of(tensor);
  static_cast<void>(data[0]);
  static_cast<void>(data[*bytes - 1]);
}

inline void check_views(const io::ParsedFile& file) {
  for (const FileTensor& tensor : file.tensors) {
    const Weight& weight = tensor.weight;
    if (tensor.usable.ok() && !present(weight.packed)) std::abort();
    if (!tensor.usable.ok() && tensor.usable.message().find('\n') != std::string::npos) std::abort();
    for (const Tensor* part : {&weight.packed, &weight.absmax, &weight.nested_absmax, &weight.nested_code}) {
      check_view(*part);
    }
  }
}

}  // namespace nibble::fuzz

#endif
