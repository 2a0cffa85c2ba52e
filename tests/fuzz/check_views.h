// What must hold for every file that a parser accepted: each view lies in the file, or in memory that the file owns,
// and a usable weight decodes. Apart from the fuzzers because all parsers make the same promise.
#ifndef NIBBLE_TESTS_FUZZ_CHECK_VIEWS_H
#define NIBBLE_TESTS_FUZZ_CHECK_VIEWS_H

#include "core/ops/dequantize.h"
#include "io/parsed_file.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <vector>

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

/// A weight that the parser calls usable is one that dequantize takes; a small one is decoded.
inline void check_decodes(const Weight& weight) {
  constexpr std::int64_t kMostValues = 8192;
  nibble_request r{};
  r.struct_size = sizeof r;
  r.op = NIBBLE_OP_DEQUANTIZE;
  r.weight = weight;
  const std::span shape(weight.packed.shape, weight.packed.rank);
  if (!storage_bytes(NIBBLE_F32, shape)) return;  // empty, with other dimensions near 2^63
  r.dst = make_tensor(nullptr, NIBBLE_F32, shape);
  if (const Status s = ops::dequantize::validate(r); !s) {
    std::fprintf(stderr, "usable, but: %s\n", s.message().c_str());
    std::abort();
  }
  if (element_count(r.dst) > kMostValues || element_count(r.dst) == 0) return;  // no kernel is asked for nothing
  std::vector<float> values(static_cast<std::size_t>(element_count(r.dst)));
  r.dst.data = values.data();
  ops::dequantize::reference(r, nullptr);
}

inline void check_views(const io::ParsedFile& file) {
  for (const FileTensor& tensor : file.tensors) {
    const Weight& weight = tensor.weight;
    if (!tensor.usable.ok()) {
      if (tensor.usable.message().find('\n') != std::string::npos) std::abort();
      continue;
    }
    if (!present(weight.packed)) std::abort();
    for (const Tensor* part : {&weight.packed, &weight.absmax, &weight.nested_absmax, &weight.nested_code}) {
      check_view(*part);
    }
    check_decodes(weight);
  }
}

}  // namespace nibble::fuzz

#endif
