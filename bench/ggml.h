// ggml as a rival in the same run: its CPU decoders and out_prod, looked up by name in libraries that the user built.
// Apart from the benchmarks because nothing of ggml is needed to build them.
#ifndef NIBBLE_BENCH_GGML_H
#define NIBBLE_BENCH_GGML_H

#include <nibble/nibble.hpp>

#include <cstdint>
#include <memory>
#include <span>

namespace nibble::bench {

/// One out_prod graph, its operands in ggml's own memory.
class GgmlOutProd {
 public:
  virtual ~GgmlOutProd() = default;
  /// Computes the graph; false where ggml says that it failed.
  virtual bool run(int threads) = 0;
};

/// The libraries in the folder that NIBBLE_BENCH_GGML names (libggml-base.so, libggml-cpu.so).
class Ggml {
 public:
  using Decode = void (*)(const void* blocks, float* values, std::int64_t count);

  /// Nothing where the variable is not set; an error where it is and the libraries do not load.
  static Result<const Ggml*> load();

  /// ggml's decoder of a GGUF format on one thread, or null where it has none.
  Decode decoder(Format format) const;
  /// W of shape [columns, rows] with the bytes of `packed`, and a gradient of `tokens` columns.
  std::unique_ptr<GgmlOutProd> out_prod(Format format, std::int64_t columns, std::int64_t rows, std::int64_t tokens,
                                        std::span<const std::uint8_t> packed, std::span<const float> gradient) const;

 private:
  void* base_ = nullptr;
  void* cpu_ = nullptr;
};

}  // namespace nibble::bench

#endif
