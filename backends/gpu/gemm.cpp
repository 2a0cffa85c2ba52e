// A product cut along k.
// Apart from the engines because the cut is the same for all of them.
#include "backends/gpu/gemm.h"

#include <algorithm>

namespace nibble::gpu {
namespace {

std::int64_t element_bytes(nibble_format type) { return type == NIBBLE_F32 ? 4 : 2; }

Operand from_k(Operand o, std::int64_t k) {
  o.data = static_cast<const std::uint8_t*>(o.data) + k * o.k_stride * element_bytes(o.type);
  return o;
}

}  // namespace

nibble_status multiply(const GemmEngine& engine, const Gemm& gemm, Scratch scratch, Stream stream, nibble_text* why) {
  for (std::int64_t first = 0; first < gemm.k; first += kMostSummed) {
    Gemm piece = gemm;
    piece.a = from_k(gemm.a, first);
    piece.b = from_k(gemm.b, first);
    piece.k = std::min(kMostSummed, gemm.k - first);
    piece.add = gemm.add || first > 0;
    if (const nibble_status s = engine.run(engine, piece, scratch, stream, why); s != NIBBLE_OK) return s;
  }
  return NIBBLE_OK;
}

const GemmEngine kPortableEngine = {.math = NIBBLE_MATH_F32,
                                    .operand_type = NIBBLE_F32,
                                    .scratch_bytes = 0,
                                    .least_scratch_bytes = 0,
                                    .reads = [](const Operand&, std::int64_t, std::int64_t) { return true; },
                                    .multiplies = [](nibble_format, nibble_format) { return true; },
                                    .run = run_portable};

}  // namespace nibble::gpu
