// The few functions of bitsandbytes' C interface that are called, declared here as its Python calls them.
// Apart from the header so that no type of theirs is seen elsewhere.
#include "bench/bitsandbytes.h"

#include <nibble/tensor.hpp>

#include "bench/library.h"

#include <fmt/format.h>

#include <string>

namespace nibble::bench {
namespace {

std::string type_name(Format to) { return to == NIBBLE_F32 ? "fp32" : to == NIBBLE_F16 ? "fp16" : "bf16"; }

}  // namespace

Result<const BitsAndBytes*> BitsAndBytes::load() {
  static BitsAndBytes rival;
  auto library = open_rival("NIBBLE_BENCH_BITSANDBYTES", "libbitsandbytes_cpu.so");
  if (!library) return library.status();
  if (*library == nullptr) return static_cast<const BitsAndBytes*>(nullptr);
  rival.opened_ = *library;
  if (auto* set_threads = look_up<void(int)>(*library, "omp_set_num_threads")) set_threads(1);
  return static_cast<const BitsAndBytes*>(&rival);
}

std::function<void()> BitsAndBytes::decoder(const Weight& w, Format to, void* result) const {
  using Size = long long;
  const std::string prefix = "cdequantize_blockwise_cpu_", type = type_name(to);
  const void *packed = bytes_of(w.packed), *absmax = bytes_of(w.absmax);
  const Size block = w.block_size, columns = w.packed.shape[0], rows = w.packed.shape[1];
  if (w.packed.format == NIBBLE_BLOCKWISE8) {
    const void* code = bytes_of(w.code);
    auto* call = look_up<void(const void*, const void*, const void*, void*, Size, Size)>(opened_, prefix + type);
    if (call == nullptr) return {};
    return [=] { call(code, packed, absmax, result, block, columns * rows); };
  }
  const std::string name = fmt::format("{}{}_{}", prefix, format_name(w.packed.format), type);
  auto* call = look_up<void(const void*, const void*, void*, Size, Size, Size)>(opened_, name);
  if (call == nullptr) return {};
  return [=] { call(packed, absmax, result, block, rows, columns); };
}

}  // namespace nibble::bench
