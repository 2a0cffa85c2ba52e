// Rows of the operations that multiply, one an algorithm and engine.
// Apart from plugin.cpp so that each list stays short; the code behind all rows of an operation is the same.
#include "backends/cuda/products.h"

#include "backends/cuda/fused_out_prod.h"
#include "backends/gpu/product_rows.h"

#if NIBBLE_HAVE_BLAS
#include "backends/cuda/scaled_half.h"
#include "backends/gpu/blas_products.h"
#endif

namespace nibble::cuda {
namespace {

using gpu::Product;

constexpr nibble_kernel row(nibble_op op, const char* name, std::uint32_t rank, nibble_math math, const Product& self) {
  return gpu::product_row(op, name, {NIBBLE_TIER_GENERIC, rank}, math, NIBBLE_DEVICE_CUDA, gpu::kAllFormats, self);
}

constexpr Product kPortable{{&gpu::kPortableEngine, &gpu::kTwoStepDecoder}};
#if NIBBLE_HAVE_BLAS
using Blas = gpu::BlasProducts<gpu::kTwoStepDecoder>;
#endif

/// Rows with functions of their own, for one matrix.
constexpr Product kHalves{{nullptr, &gpu::kTwoStepDecoder}, Product::Shape::matrix};
constexpr auto kPackedFormats = gpu::format_ids<[](Engine e) { return e != Engine::element; }>();

constexpr nibble_kernel halves_row(const char* name, std::uint32_t rank) {
  return gpu::product_row(NIBBLE_OP_OUT_PROD, name, {NIBBLE_TIER_GENERIC, rank}, NIBBLE_MATH_TF32, NIBBLE_DEVICE_CUDA,
                          kPackedFormats, kHalves);
}

/// Reads the weight once for every launch's tokens (most_tokens). Rules put it in front of the blocks of rows where it
/// was measured to be faster.
template <Cores kCores>
constexpr nibble_kernel fused_row(const char* name, std::uint32_t rank) {
  nibble_kernel k = halves_row(name, rank);
  k.supports = FusedRow<kCores>::supports;
  k.query = FusedRow<kCores>::query;
  k.execute = FusedRow<kCores>::execute;
  return k;
}

#if NIBBLE_HAVE_BLAS
/// Halves where row_blocks has f32: half the bytes and twice the product's speed for the same class.
constexpr nibble_kernel scaled_row(const char* name, std::uint32_t rank) {
  nibble_kernel k = halves_row(name, rank);
  k.supports = scaled_supports;
  k.query = query_scaled;
  k.execute = execute_scaled;
  return k;
}
#endif

constexpr nibble_kernel kRows[] = {
    fused_row<Cores::warp>("cuda.out_prod.fused", 15),
#if NIBBLE_HAVE_WARPGROUPS
    fused_row<Cores::warpgroup>("cuda.out_prod.fused.warpgroups", 14),
#endif
#if NIBBLE_HAVE_BLAS
    row(NIBBLE_OP_OUT_PROD, "cuda.out_prod.row_blocks.bf16", 30, NIBBLE_MATH_BF16, Blas::kMatrixBf16),
    row(NIBBLE_OP_OUT_PROD, "cuda.out_prod.whole.bf16", 30, NIBBLE_MATH_BF16, Blas::kBatchBf16),
    row(NIBBLE_OP_LINEAR, "cuda.linear.row_blocks.bf16", 30, NIBBLE_MATH_BF16, Blas::kMatrixBf16),
    scaled_row("cuda.out_prod.scaled_half", 10),
    row(NIBBLE_OP_OUT_PROD, "cuda.out_prod.row_blocks", 20, NIBBLE_MATH_TF32, Blas::kMatrixTf32),
    row(NIBBLE_OP_OUT_PROD, "cuda.out_prod.row_blocks.f32", 10, NIBBLE_MATH_F32, Blas::kMatrixF32),
    row(NIBBLE_OP_OUT_PROD, "cuda.out_prod.whole", 20, NIBBLE_MATH_TF32, Blas::kBatchTf32),
    row(NIBBLE_OP_OUT_PROD, "cuda.out_prod.whole.f32", 10, NIBBLE_MATH_F32, Blas::kBatchF32),
    row(NIBBLE_OP_LINEAR, "cuda.linear.row_blocks", 20, NIBBLE_MATH_TF32, Blas::kMatrixTf32),
    row(NIBBLE_OP_LINEAR, "cuda.linear.row_blocks.f32", 10, NIBBLE_MATH_F32, Blas::kMatrixF32),
#endif
    row(NIBBLE_OP_OUT_PROD, "cuda.out_prod.portable", 0, NIBBLE_MATH_F32, kPortable),
    row(NIBBLE_OP_LINEAR, "cuda.linear.portable", 0, NIBBLE_MATH_F32, kPortable),
};
constexpr auto kPointers = gpu::pointers_to(kRows);

}  // namespace

std::span<const nibble_kernel* const> product_rows() { return kPointers; }

}  // namespace nibble::cuda
