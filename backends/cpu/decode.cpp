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

/// The decoders of one format, one a sink; of the two kinds one is set.
struct FormatDecoder {
  int block_values = 1, block_bytes = 1;
  std::array<BlocksFn, kSinkCount> blocks{};
  std::array<FlatFn, kSinkCount> flat{};
};

using Decoders = std::array<FormatDecoder, kFormatCount>;

BlocksFn find_blocks(Target target, nibble_format format, Sink sink) {
  for (const auto engine : {runs_decoder, grid_decoder, base3_decoder, element_decoder}) {
    if (const BlocksFn found = engine(target, format, sink); found != nullptr) return found;
  }
  return nullptr;
}

Decoders make_decoders(Target target) {
  Decoders all{};
  std::size_t i = 0;
  for_each_format([&](auto f) {
    using F = decltype(f);
    FormatDecoder& d = all[i++];
    d.block_values = F::kBlockValues;
    d.block_bytes = F::kBlockBytes;
    for (std::size_t sink = 0; sink < kSinkCount; ++sink) {
      d.blocks[sink] = find_blocks(target, F::kId, static_cast<Sink>(sink));
      d.flat[sink] = flat_decoder(target, F::kId, static_cast<Sink>(sink));
    }
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
                std::int64_t count, Sink sink, Destination to) {
  const nibble_tensor& t = w.packed;
  const FormatDecoder& d = decoder_of<target>(t.format);
  const auto which = static_cast<std::size_t>(sink);
  if (const FlatFn flat = d.flat[which]; flat != nullptr) {
    flat(w, flat_index(t, i1, i2, i3, first), count, to);
  } else {
    d.blocks[which](row_of(t, i1, i2, i3) + first / d.block_values * d.block_bytes, count / d.block_values, to);
  }
}

template <Target target>
constexpr DecodeTable make_table() {
  return {.decode_row = decode_row<target>,
          .has_sink = [](Sink sink) { return element_decoder(target, NIBBLE_F32, sink) != nullptr; },
          .round =
              [](const float* from, std::int64_t count, Sink sink, void* to) {
                element_decoder(target, NIBBLE_F32, sink)(reinterpret_cast<const std::uint8_t*>(from), count, {to});
              },
          .stream = [](const std::uint8_t* from, std::int64_t bytes,
                       std::uint8_t* to) { streamer(target)(from, bytes, to); }};
}

}  // namespace

void prefetch_row(const nibble_weight& w, std::int64_t i1, std::int64_t i2, std::int64_t i3, std::int64_t first,
                  std::int64_t count) {
  constexpr std::int64_t kLine = 64;
  const nibble_tensor& t = w.packed;
  const FormatDecoder& d = decoder_of<Target::portable>(t.format);
  const std::uint8_t* from = d.flat[0] != nullptr
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
