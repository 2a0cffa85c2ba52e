// The decode tables: for each target, rows of any format through the engine that is the format's.
// Apart from the engines because only here does anyone know that there are several.
#include "backends/cpu/decode.h"

#include "backends/cpu/engines.h"
#include "core/formats/formats.h"

#include <nibble/tensor.hpp>

#include <array>

namespace nibble::cpu {
namespace {

constexpr std::size_t kFormatCount = 0
#define NIBBLE_COUNT(name) +1
    NIBBLE_FORMATS(NIBBLE_COUNT)
#undef NIBBLE_COUNT
    ;

/// The decoders of one format; one of the two is set.
struct FormatDecoder {
  nibble_format format = 0;
  int block_values = 1, block_bytes = 1;
  BlocksFn blocks = nullptr;
  FlatFn flat = nullptr;
};

using Decoders = std::array<FormatDecoder, kFormatCount>;

Decoders make_decoders(Target target) {
  Decoders all{};
  std::size_t i = 0;
  for_each_format([&](auto f) {
    using F = decltype(f);
    FormatDecoder d{F::kId, F::kBlockValues, F::kBlockBytes, nullptr, nullptr};
    for (const auto engine : {runs_decoder, grid_decoder, base3_decoder, element_decoder}) {
      if (d.blocks == nullptr) d.blocks = engine(target, F::kId);
    }
    if (d.blocks == nullptr) d.flat = flat_decoder(target, F::kId);
    all[i++] = d;
  });
  return all;
}

template <Target target>
const Decoders& decoders() {
  static const Decoders all = make_decoders(target);
  return all;
}

template <Target target>
void decode_row(const nibble_weight& w, std::int64_t i1, std::int64_t i2, std::int64_t i3, std::int64_t first,
                std::int64_t count, float* out) {
  const nibble_tensor& t = w.packed;
  const FormatDecoder* d = decoders<target>().data();
  while (d->format != t.format) ++d;  // validated: it is in the list
  if (d->flat != nullptr) {
    d->flat(w, ((i3 * t.shape[2] + i2) * t.shape[1] + i1) * t.shape[0] + first, count, out);
    return;
  }
  const std::uint8_t* row = bytes_of(t) + i1 * t.byte_stride[1] + i2 * t.byte_stride[2] + i3 * t.byte_stride[3];
  d->blocks(row + first / d->block_values * d->block_bytes, count / d->block_values, out);
}

template <Target target>
constexpr DecodeTable make_table() {
  return {.decode_row = decode_row<target>,
          .to_f16 = [](const float* from, std::int64_t count,
                       std::uint8_t* to) { rounder(target, NIBBLE_F16)(from, count, to); },
          .to_bf16 = [](const float* from, std::int64_t count,
                        std::uint8_t* to) { rounder(target, NIBBLE_BF16)(from, count, to); },
          .stream = [](const std::uint8_t* from, std::int64_t bytes,
                       std::uint8_t* to) { streamer(target)(from, bytes, to); }};
}

}  // namespace

const DecodeTable& decode_table(Target target) {
  static constexpr DecodeTable kTables[] = {
#define NIBBLE_CPU_TABLE(name, hwy_target, hwy_namespace, isa, rank) make_table<Target::name>(),
      NIBBLE_CPU_TARGETS(NIBBLE_CPU_TABLE)
#undef NIBBLE_CPU_TABLE
  };
  return kTables[static_cast<std::size_t>(target)];
}

}  // namespace nibble::cpu
