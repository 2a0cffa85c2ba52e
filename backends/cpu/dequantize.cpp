// cpu.dequantize.simd.<isa>: the decode tables over whole tensors, split over threads.
// Apart from the engines because strides, result types and threads are nothing to them.
#include "backends/cpu/decode.h"
#include "backends/cpu/rows.h"
#include "backends/cpu/threads.h"

#include <hwy/cache_control.h>
#include <nibble/tensor.hpp>

#include <algorithm>
#include <array>

namespace nibble::cpu {
namespace {

constexpr std::int64_t kGrain = 64 * 1024;  // values: below this a second thread costs more than it brings
// Bytes of result from which it goes around the caches: twice as fast at 64 MiB, slower at 16.
constexpr std::int64_t kPastCaches = std::int64_t{64} << 20;
constexpr std::int64_t kTile = 2048;  // values on their way to an address that no vector can be streamed to: in L1

/// Whether nothing lies between the rows, so that they are one long row.
bool is_one_row(const nibble_request& r) {
  const FormatInfo& info = *find_format(r.weight.packed.format);
  const bool flat = info.kind == FormatInfo::Kind::flat;
  std::int64_t row = r.dst.shape[0];
  for (int d = 1; d < 4; ++d) {
    const bool dst_joins = r.dst.shape[d] == 1 || r.dst.byte_stride[d] == row * r.dst.byte_stride[0];
    const bool src_joins =
        flat || r.dst.shape[d] == 1 || r.weight.packed.byte_stride[d] == row / info.block_values * info.block_bytes;
    if (!dst_joins || !src_joins) return false;
    row *= r.dst.shape[d];
  }
  return true;
}

/// The same values as one row.
nibble_request as_one_row(nibble_request r) {
  for (nibble_tensor* t : {&r.dst, &r.weight.packed}) {
    t->shape[0] = element_count(*t);
    t->shape[1] = t->shape[2] = t->shape[3] = 1;
  }
  return r;
}

/// A request on its way to pieces.
struct Work {
  const DecodeTable& table;
  const nibble_request& request;
  bool past_caches;  ///< write around the caches, which the result does not fit
};

std::uint8_t* row_of(const nibble_tensor& t, std::int64_t i1, std::int64_t i2, std::int64_t i3) {
  return bytes_of(t) + i1 * t.byte_stride[1] + i2 * t.byte_stride[2] + i3 * t.byte_stride[3];
}

/// Decodes values [first, first + count) of a row to dst's type.
void decode_piece(const Work& work, std::int64_t row, std::int64_t first, std::int64_t count) {
  const auto& [table, r, past_caches] = work;
  const nibble_tensor& dst = r.dst;
  const std::int64_t i1 = row % dst.shape[1], i2 = row / dst.shape[1] % dst.shape[2];
  const std::int64_t i3 = row / dst.shape[1] / dst.shape[2];
  const std::int64_t bytes_each = dst.byte_stride[0];
  std::uint8_t* out = row_of(dst, i1, i2, i3) + bytes_each * first;
  const Sink store = store_sink(dst.format), stream = stream_sink(dst.format);
  if (!past_caches) {
    table.decode_row(r.weight, i1, i2, i3, first, count, store, {out});
    return;
  }
  if (reinterpret_cast<std::uintptr_t>(out) % 64 == 0 && table.has_sink(stream)) {
    table.decode_row(r.weight, i1, i2, i3, first, count, stream, {out});
  } else {
    alignas(64) std::array<std::uint8_t, kTile * sizeof(float)> tile;
    for (std::int64_t done = 0; done < count; done += kTile) {
      const std::int64_t n = std::min(kTile, count - done);
      table.decode_row(r.weight, i1, i2, i3, first + done, n, store, {tile.data()});
      table.stream(tile.data(), bytes_each * n, out + bytes_each * done);
    }
  }
  hwy::FlushStream();
}

void decode(const DecodeTable& table, const nibble_request& r) {
  const std::int64_t bytes = element_count(r.dst) * r.dst.byte_stride[0];
  const Work work{table, r, bytes >= kPastCaches};
  const std::int64_t length = r.dst.shape[0], rows = r.dst.shape[1] * r.dst.shape[2] * r.dst.shape[3];
  // A piece is a part of a row, in whole tiles, which are whole blocks of every format; or several short rows.
  const std::int64_t pieces = (length + kGrain - 1) / kGrain;
  const std::int64_t rows_a_task = std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(length, 1));
  for_pieces(rows * pieces, rows_a_task, threads_for(r.threads),
             [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
               for (std::int64_t i = begin; i < end; ++i) {
                 const std::int64_t first = i % pieces * kGrain;
                 decode_piece(work, i / pieces, first, std::min(kGrain, length - first));
               }
             });
}

nibble_status execute(const nibble_kernel* k, const nibble_caps*, const nibble_request* r, void*, std::uint64_t, void*,
                      nibble_text* why) {
  return contained(why, [&] {
    const DecodeTable& table = decode_table(target_of(k));
    // A row that is one already is not copied: the copy would cost more than a short row does.
    if (element_count(r->dst) != r->dst.shape[0] && is_one_row(*r)) {
      decode(table, as_one_row(*r));
    } else {
      decode(table, *r);
    }
  });
}

constexpr nibble_kernel row(const char* name, const TargetInfo& target) {
  nibble_kernel k = make_row(NIBBLE_OP_DEQUANTIZE, name, target);
  k.execute = execute;
  return k;
}

constexpr nibble_kernel kRows[] = {
#define NIBBLE_CPU_ROW(name, hwy_target, hwy_namespace, isa, rank) \
  row("cpu.dequantize.simd." #name, kTargets[static_cast<int>(Target::name)]),
    NIBBLE_CPU_TARGETS(NIBBLE_CPU_ROW)
#undef NIBBLE_CPU_ROW
};

}  // namespace

std::span<const nibble_kernel> dequantize_rows() { return kRows; }

}  // namespace nibble::cpu
