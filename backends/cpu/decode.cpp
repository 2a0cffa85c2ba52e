// The decode tables: for each target, rows of any format through the engine that is the format's.
// Apart from the engines because only here does anyone know that there are several.
#include "backends/cpu/decode.h"

#include "backends/cpu/engines.h"
#include "core/formats/formats.h"

#include <hwy/cache_control.h>
#include <nibble/tensor.hpp>

#include <array>

namespace nibble::cpu {
namespace {

/// Places in the tables, in the order of NIBBLE_FORMATS.
enum Place : std::size_t {
#define NIBBLE_PLACE(name) kPlaceOf##name,
  NIBBLE_FORMATS(NIBBLE_PLACE)
#undef NIBBLE_PLACE
      kFormatCount
};

constexpr std::size_t place_of(nibble_format format) {
  switch (format) {
#define NIBBLE_PLACE(name)        \
  case nibble::format::name::kId: \
    return kPlaceOf##name;
    NIBBLE_FORMATS(NIBBLE_PLACE)
#undef NIBBLE_PLACE
    default:
      return 0;  // validated: it is in the list
  }
}

/// The decoders of one format; one of the two is set.
struct FormatDecoder {
  int block_values = 1, block_bytes = 1;
  BlocksFn blocks = nullptr;
  FlatFn flat = nullptr;
  BlocksFn stream = nullptr;  ///< this and the next are null where an engine has none
  MultiplyBlocksFn multiply = nullptr;
};

using Decoders = std::array<FormatDecoder, kFormatCount>;

Decoders make_decoders(Target target) {
  Decoders all{};
  std::size_t i = 0;
  for_each_format([&](auto f) {
    using F = decltype(f);
    FormatDecoder d{.block_values = F::kBlockValues, .block_bytes = F::kBlockBytes};
    for (const auto engine : {runs_decoder, grid_decoder, base3_decoder, element_decoder}) {
      if (d.blocks == nullptr) d.blocks = engine(target, F::kId);
    }
    if (d.blocks == nullptr) d.flat = flat_decoder(target, F::kId);
    d.stream = runs_streamer(target, F::kId);
    d.multiply = runs_multiplier(target, F::kId);
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
const FormatDecoder& decoder_of(nibble_format format) {
  return decoders<target>()[place_of(format)];
}

/// Counted over the whole tensor, as bitsandbytes does.
std::int64_t flat_index(const nibble_tensor& t, std::int64_t i1, std::int64_t i2, std::int64_t i3, std::int64_t first) {
  return ((i3 * t.shape[2] + i2) * t.shape[1] + i1) * t.shape[0] + first;
}

const std::uint8_t* row_of(const nibble_tensor& t, std::int64_t i1, std::int64_t i2, std::int64_t i3) {
  return bytes_of(t) + i1 * t.byte_stride[1] + i2 * t.byte_stride[2] + i3 * t.byte_stride[3];
}

template <Target target>
void decode_row(const nibble_weight& w, std::int64_t i1, std::int64_t i2, std::int64_t i3, std::int64_t first,
                std::int64_t count, float* out) {
  const nibble_tensor& t = w.packed;
  const FormatDecoder& d = decoder_of<target>(t.format);
  if (d.flat != nullptr) {
    d.flat(w, flat_index(t, i1, i2, i3, first), count, out);
  } else {
    d.blocks(row_of(t, i1, i2, i3) + first / d.block_values * d.block_bytes, count / d.block_values, out);
  }
}

template <Target target>
bool has_stream_row(nibble_format format) {
  return decoder_of<target>(format).stream != nullptr;
}

template <Target target>
void stream_row(const nibble_weight& w, std::int64_t i1, std::int64_t i2, std::int64_t i3, std::int64_t first,
                std::int64_t count, float* out) {
  const nibble_tensor& t = w.packed;
  const FormatDecoder& d = decoder_of<target>(t.format);
  d.stream(row_of(t, i1, i2, i3) + first / d.block_values * d.block_bytes, count / d.block_values, out);
}

template <Target target>
bool has_multiply_row(nibble_format format) {
  return decoder_of<target>(format).multiply != nullptr;
}

template <Target target>
void multiply_row(const nibble_weight& w, std::int64_t i1, std::int64_t i2, std::int64_t i3, std::int64_t first,
                  std::int64_t count, float factor, float* sums) {
  const nibble_tensor& t = w.packed;
  const FormatDecoder& d = decoder_of<target>(t.format);
  const std::uint8_t* from = row_of(t, i1, i2, i3) + first / d.block_values * d.block_bytes;
  d.multiply(from, count / d.block_values, factor, sums);
}

template <Target target>
constexpr DecodeTable make_table() {
  return {.decode_row = decode_row<target>,
          .has_stream_row = has_stream_row<target>,
          .stream_row = stream_row<target>,
          .has_multiply_row = has_multiply_row<target>,
          .multiply_row = multiply_row<target>,
          .to_f16 = [](const float* from, std::int64_t count,
                       std::uint8_t* to) { rounder(target, NIBBLE_F16)(from, count, to); },
          .to_bf16 = [](const float* from, std::int64_t count,
                        std::uint8_t* to) { rounder(target, NIBBLE_BF16)(from, count, to); },
          .stream = [](const std::uint8_t* from, std::int64_t bytes,
                       std::uint8_t* to) { streamer(target)(from, bytes, to); }};
}

}  // namespace

void prefetch_row(const nibble_weight& w, std::int64_t i1, std::int64_t i2, std::int64_t i3, std::int64_t first,
                  std::int64_t count) {
  constexpr std::int64_t kLine = 64;
  const nibble_tensor& t = w.packed;
  const FormatDecoder& d = decoder_of<Target::portable>(t.format);
  const std::uint8_t* from = d.flat != nullptr
                                 ? bytes_of(t) + flat_index(t, i1, i2, i3, first) / d.block_values * d.block_bytes
                                 : row_of(t, i1, i2, i3) + first / d.block_values * d.block_bytes;
  const std::int64_t bytes = count / d.block_values * d.block_bytes;
  for (std::int64_t at = 0; at < bytes; at += kLine) hwy::Prefetch(from + at);
}

const DecodeTable& decode_table(Target target) {
  static constexpr DecodeTable kTables[] = {
#define NIBBLE_CPU_TABLE(name, hwy_target, hwy_namespace, isa, rank) make_table<Target::name>(),
      NIBBLE_CPU_TARGETS(NIBBLE_CPU_TABLE)
#undef NIBBLE_CPU_TABLE
  };
  return kTables[static_cast<std::size_t>(target)];
}

}  // namespace nibble::cpu
