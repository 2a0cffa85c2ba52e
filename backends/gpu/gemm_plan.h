// What out_prod and linear share when they cut themselves to a number of bytes and name their operands.
// Apart from both because the two differ only in which dimension is summed.
#ifndef NIBBLE_BACKENDS_GPU_GEMM_PLAN_H
#define NIBBLE_BACKENDS_GPU_GEMM_PLAN_H

#include "backends/gpu/decode.h"
#include "backends/gpu/gemm.h"

#include <nibble/tensor.hpp>

#include <cstdint>

namespace nibble::gpu {

/// Alignment of every piece of a workspace.
inline constexpr std::uint64_t kPieceAlignment = 256;
/// Taken where a request names no limit.
inline constexpr std::uint64_t kDefaultWorkspaceBytes = std::uint64_t{256} << 20;

constexpr std::uint64_t aligned(std::uint64_t bytes) {
  return (bytes + kPieceAlignment - 1) / kPieceAlignment * kPieceAlignment;
}
constexpr std::int64_t element_bytes(nibble_format type) { return type == NIBBLE_F32 ? 4 : 2; }
/// Bytes of an array, aligned.
constexpr std::uint64_t piece(nibble_format type, std::int64_t a, std::int64_t b = 1, std::int64_t c = 1) {
  return aligned(static_cast<std::uint64_t>(a * element_bytes(type)) * static_cast<std::uint64_t>(b) *
                 static_cast<std::uint64_t>(c));
}
/// Neighbouring rows of decoded values start this many values apart: 16-byte loads stay aligned whatever the width.
constexpr std::int64_t padded_row(std::int64_t values) { return (values + 7) / 8 * 8; }
/// Blocks of equal size, whole cache lines of rows, none larger than `most`.
std::int64_t balanced_block(std::int64_t count, std::int64_t most);

/// The workspace, in its order. Absent pieces have 0 bytes.
struct Pieces {
  std::uint64_t scratch = 0;  ///< the engine's
  std::uint64_t scales = 0;   ///< of a nested weight, rebuilt once a call
  std::uint64_t sums = 0;     ///< f32, where dst has 16 bits
  std::uint64_t decoded = 0;  ///< a block of the weight, in the engine's type
  std::uint64_t packed = 0;   ///< a piece of src1, likewise
  [[nodiscard]] std::uint64_t total() const { return scratch + scales + sums + decoded + packed; }
};

/// The bytes that query plans with.
constexpr std::uint64_t workspace_limit(const nibble_request& r) {
  return r.workspace_limit_bytes != 0 ? r.workspace_limit_bytes : kDefaultWorkspaceBytes;
}

/// What a product runs on. Static data.
struct ProductTools {
  const GemmEngine* engine;
  const WeightDecoder* decoder;
};

/// The plan that query answered for, as it is, so that equal calls are cut alike; cut anew where less memory came.
/// `make` cuts the request to a number of bytes; what it gives may take less, and be cut otherwise within that little.
template <class Make>
auto plan_within(const nibble_request& r, std::uint64_t workspace_bytes, const Make& make) {
  auto plan = make(workspace_limit(r));
  return plan.total() <= workspace_bytes ? plan : make(workspace_bytes);
}

/// Addresses of the pieces.
struct Carved {
  Carved(const Pieces& pieces, void* workspace);
  Scratch scratch;
  float* scales;
  float* sums;
  void* decoded;
  std::uint8_t* packed;
};

/// How the operands of a product get to the engine.
struct Operands {
  Operand weight{}, src1{};         ///< as they lie; `weight` is meaningful where it is not decoded
  nibble_format type = NIBBLE_F32;  ///< of what goes through the workspace: the engine's
  bool decode = true;               ///< the weight does; else the engine reads it in place
  bool pack = false;                ///< src1 does
  bool stage = false;               ///< the sums stay in the workspace until they are complete, then are rounded once
};

/// Chooses for a weight [rows, columns] and a src1 whose strides are already set. `along_rows`: the sum runs over the
/// weight's rows (out_prod), else along them (linear). `n` counts src1's other dimension.
Operands choose_operands(const GemmEngine& engine, const nibble_request& r, const Operand& src1, std::int64_t n,
                         bool along_rows);

/// Bytes of scratch out of `spare`, which is what a call has beyond its least needs.
std::uint64_t scratch_share(const GemmEngine& engine, std::uint64_t spare);

inline std::int64_t element_stride(const Tensor& t, int dimension) {
  return t.byte_stride[dimension] / element_bytes(t.format);
}
/// An element of an f32, f16 or bf16 tensor; `offset` counts elements.
inline std::uint8_t* element_at(const Tensor& t, std::int64_t offset) {
  return bytes_of(t) + offset * element_bytes(t.format);
}

}  // namespace nibble::gpu

#endif
