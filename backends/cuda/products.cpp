// Rows of the operations that multiply, one an algorithm and engine.
// Apart from plugin.cpp so that each list stays short; the code behind all rows of an operation is the same.
#include "backends/cuda/products.h"

#include "backends/gpu/dequantize.h"
#include "backends/gpu/device_code.h"
#include "backends/gpu/gemm.h"
#include "backends/gpu/linear.h"
#include "backends/gpu/out_prod.h"
#include "backends/gpu/text.h"
#include "core/formats/formats.h"

#if NIBBLE_HAVE_CUBLAS
#include "backends/cuda/blas.h"
#endif

#include <array>
#include <iterator>

namespace nibble::cuda {
namespace {

constexpr nibble_format kFormats[] = {
#define NIBBLE_ID(name) format::name::kId,
    NIBBLE_FORMATS(NIBBLE_ID)
#undef NIBBLE_ID
};

/// What dst must be for a row to take it.
enum class Shape : std::uint8_t { any, matrix, batch };

/// What a row runs.
struct Product {
  const gpu::GemmEngine* engine;
  Shape shape;
};
const Product& product_of(const nibble_kernel* k) { return *static_cast<const Product*>(k->self); }

nibble_status supports(const nibble_kernel* k, const nibble_caps* caps, const nibble_request* r, nibble_text* why) {
  if (const nibble_status s = gpu::device_has_code(k, caps, r, why); s != NIBBLE_OK) return s;
  const bool batch = r->dst.shape[2] != 1 || r->dst.shape[3] != 1;
  const Shape shape = product_of(k).shape;
  if (shape == Shape::matrix && batch) {
    return gpu::fail(why, NIBBLE_UNSUPPORTED, "dst has a batch of {} x {}: expected one matrix", r->dst.shape[2],
                     r->dst.shape[3]);
  }
  if (shape == Shape::batch && !batch) {
    return gpu::fail(why, NIBBLE_UNSUPPORTED, "dst is one matrix: expected a batch");
  }
  return NIBBLE_OK;
}

nibble_status query(const nibble_kernel* k, const nibble_caps*, const nibble_request* r, nibble_workspace_need* need,
                    nibble_text*) {
  const gpu::GemmEngine& engine = *product_of(k).engine;
  return k->op == NIBBLE_OP_LINEAR ? gpu::query_linear(engine, *r, need) : gpu::query_out_prod(engine, *r, need);
}

nibble_status execute(const nibble_kernel* k, const nibble_caps*, const nibble_request* r, void* workspace,
                      std::uint64_t bytes, void* stream, nibble_text* why) {
  const gpu::DeviceGuard device(r->weight.packed.device_index, why);
  if (device.status() != NIBBLE_OK) return device.status();
  const gpu::GemmEngine& engine = *product_of(k).engine;
  return k->op == NIBBLE_OP_LINEAR ? gpu::run_linear(engine, *r, workspace, bytes, stream, why)
                                   : gpu::run_out_prod(engine, *r, workspace, bytes, stream, why);
}

constexpr nibble_kernel row(nibble_op op, const char* name, std::uint32_t rank, nibble_math math, const Product& self) {
  return {.struct_size = sizeof(nibble_kernel),
          .op = op,
          .name = name,
          .tier = NIBBLE_TIER_GENERIC,
          .rank = rank,
          .math = math,
          .device_type = NIBBLE_DEVICE_CUDA,
          .isa = 0,
          .formats = kFormats,
          .format_count = std::size(kFormats),
          .types = gpu::kResultTypes,
          .type_count = std::size(gpu::kResultTypes),
          .self = &self,
          .supports = supports,
          .query = query,
          .execute = execute};
}

constexpr Product kPortable{&gpu::kPortableEngine, Shape::any};
#if NIBBLE_HAVE_CUBLAS
constexpr Product kMatrixF32{&kBlasF32, Shape::matrix};
constexpr Product kMatrixTf32{&kBlasTf32, Shape::matrix};
constexpr Product kBatchF32{&kBlasF32, Shape::batch};
constexpr Product kBatchTf32{&kBlasTf32, Shape::batch};
#endif

constexpr nibble_kernel kRows[] = {
#if NIBBLE_HAVE_CUBLAS
    row(NIBBLE_OP_OUT_PROD, "cuda.out_prod.row_blocks", 20, NIBBLE_MATH_TF32, kMatrixTf32),
    row(NIBBLE_OP_OUT_PROD, "cuda.out_prod.row_blocks.f32", 10, NIBBLE_MATH_F32, kMatrixF32),
    row(NIBBLE_OP_OUT_PROD, "cuda.out_prod.whole", 20, NIBBLE_MATH_TF32, kBatchTf32),
    row(NIBBLE_OP_OUT_PROD, "cuda.out_prod.whole.f32", 10, NIBBLE_MATH_F32, kBatchF32),
    row(NIBBLE_OP_LINEAR, "cuda.linear.row_blocks", 20, NIBBLE_MATH_TF32, kMatrixTf32),
    row(NIBBLE_OP_LINEAR, "cuda.linear.row_blocks.f32", 10, NIBBLE_MATH_F32, kMatrixF32),
#endif
    row(NIBBLE_OP_OUT_PROD, "cuda.out_prod.portable", 0, NIBBLE_MATH_F32, kPortable),
    row(NIBBLE_OP_LINEAR, "cuda.linear.portable", 0, NIBBLE_MATH_F32, kPortable),
};
constexpr auto kPointers = [] {
  std::array<const nibble_kernel*, std::size(kRows)> rows{};
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = &kRows[i];
  return rows;
}();

}  // namespace

std::span<const nibble_kernel* const> product_rows() { return kPointers; }

}  // namespace nibble::cuda
