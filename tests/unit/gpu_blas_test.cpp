// How backends/gpu/blas.cpp speaks to a BLAS: operands in its words, handles, the order of calls, failures.
// Apart from the other GPU host tests because the engine is compiled against a BLAS on the host.
#include "backends/gpu/blas.h"

#include "core/numeric.h"
#include "tests/unit/host_blas.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

namespace nibble::gpu {

float HostMatrix::at(std::int64_t row, std::int64_t column, std::int64_t batch) const {
  const std::int64_t i = batch * stride + (op == HOSTBLAS_OP_N ? column * leading + row : row * leading + column);
  if (type == BlasType::f32) return static_cast<const float*>(data)[i];
  const std::uint16_t bits = static_cast<const std::uint16_t*>(data)[i];
  return type == BlasType::f16 ? float_from_half(bits) : float_from_bfloat16(bits);
}

void host_gemm(std::int64_t m, std::int64_t n, std::int64_t k, const HostMatrix& a, const HostMatrix& b, float beta,
               float* c, std::int64_t c_leading, std::int64_t c_stride, std::int64_t batch) {
  // What a BLAS refuses: a leading dimension shorter than a column.
  EXPECT_GE(a.leading, a.op == HOSTBLAS_OP_N ? m : k);
  EXPECT_GE(b.leading, b.op == HOSTBLAS_OP_N ? k : n);
  EXPECT_GE(c_leading, m);
  for (std::int64_t x = 0; x < batch; ++x) {
    for (std::int64_t j = 0; j < n; ++j) {
      for (std::int64_t i = 0; i < m; ++i) {
        float& out = c[x * c_stride + j * c_leading + i];
        float sum = beta == 0.0f ? 0.0f : out;
        for (std::int64_t l = 0; l < k; ++l) sum += a.at(i, l, x) * b.at(l, j, x);
        out = sum;
      }
    }
  }
}

namespace {

enum class Along : std::uint8_t { outer, k };

/// Small whole numbers, which every type holds and whose sums are exact, in a layout with one element of padding.
struct Numbers {
  Numbers(nibble_format type, Along along, std::int64_t outer, std::int64_t k, std::int64_t batch, int seed)
      : operand{.type = type} {
    const std::int64_t pitch = (along == Along::outer ? outer : k) + 1;
    operand.outer_stride = along == Along::outer ? 1 : pitch;
    operand.k_stride = along == Along::outer ? pitch : 1;
    operand.batch_stride = pitch * (along == Along::outer ? k : outer) + 3;
    values.resize(static_cast<std::size_t>(operand.batch_stride * batch));
    // Strides of a dimension of one have no meaning.
    if (outer == 1) operand.outer_stride = 0;
    if (k == 1) operand.k_stride = 0;
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>((static_cast<int>(i) * 7 + seed) % 11 - 5);
    for (const float v : values) shorts.push_back(type == NIBBLE_F16 ? half_from_float(v) : bfloat16_from_float(v));
    operand.data = type == NIBBLE_F32 ? static_cast<const void*>(values.data()) : shorts.data();
  }
  [[nodiscard]] float at(std::int64_t outer, std::int64_t k, std::int64_t batch) const {
    return values[static_cast<std::size_t>(outer * operand.outer_stride + k * operand.k_stride +
                                           batch * operand.batch_stride)];
  }
  std::vector<float> values;
  std::vector<std::uint16_t> shorts;
  Operand operand;
};

class BlasTest : public testing::Test {
 protected:
  void SetUp() override {
    static int device = 0;
    host_blas = {};
    host_blas.device = ++device;  // one that no test before has had, so it has no handle
  }
  std::string run(const GemmEngine& engine, const Gemm& gemm) {
    char buffer[512] = "";
    nibble_text why{sizeof why, 0, sizeof buffer, buffer};
    status = engine.run(engine, gemm, {scratch, sizeof scratch}, stream, &why);
    return buffer;
  }
  /// One of 2 x 3 with 4 summed, in `c`.
  Gemm small() { return {.a = a.operand, .b = b.operand, .c = c, .c_stride = 2, .m = 2, .n = 3, .k = 4}; }

  nibble_status status = NIBBLE_OK;
  char scratch[16] = {};
  Stream stream = scratch + 1;  // any address
  float c[6] = {};
  Numbers a{NIBBLE_F32, Along::outer, 2, 4, 1, 0}, b{NIBBLE_F32, Along::k, 3, 4, 1, 5};
};

TEST_F(BlasTest, EveryLayoutIsPutInItsWords) {
  for (const nibble_format type : {NIBBLE_F32, NIBBLE_F16, NIBBLE_BF16}) {
    for (int which = 0; which < 16; ++which) {
      const Along along_a = which & 1 ? Along::outer : Along::k, along_b = which & 2 ? Along::outer : Along::k;
      const std::int64_t batch = which & 4 ? 3 : 1;
      const bool add = (which & 8) != 0;
      for (const auto [m, n, k] : {std::array<std::int64_t, 3>{5, 3, 4}, {1, 3, 4}, {5, 1, 4}, {5, 3, 1}, {1, 1, 1}}) {
        SCOPED_TRACE(testing::Message() << "type " << type << ", layout " << which << ", " << m << " x " << n << " x "
                                        << k);
        const Numbers x(type, along_a, m, k, batch, 1), y(type, along_b, n, k, batch, 2);
        ASSERT_TRUE(kBlasF32.reads(x.operand, m, k) && kBlasF32.reads(y.operand, n, k));
        const std::int64_t pitch = m + 2, of_batch = pitch * n + 1;
        std::vector<float> out(static_cast<std::size_t>(of_batch * batch), 100.0f);
        const Gemm g{.a = x.operand,
                     .b = y.operand,
                     .c = out.data(),
                     .c_stride = n == 1 ? 0 : pitch,
                     .c_batch_stride = of_batch,
                     .m = m,
                     .n = n,
                     .k = k,
                     .batch = batch,
                     .add = add};
        ASSERT_EQ(run(type == NIBBLE_F32 ? kBlasF32 : kBlasBf16, g), "");
        for (std::int64_t z = 0; z < batch; ++z) {
          for (std::int64_t j = 0; j < n; ++j) {
            for (std::int64_t i = 0; i < m; ++i) {
              float sum = add ? 100.0f : 0.0f;
              for (std::int64_t l = 0; l < k; ++l) sum += x.at(i, l, z) * y.at(j, l, z);
              ASSERT_EQ(out[static_cast<std::size_t>(z * of_batch + j * pitch + i)], sum)
                  << i << ", " << j << ", " << z;
            }
          }
        }
      }
    }
  }
}

TEST_F(BlasTest, HandlesAreMadeOnceADeviceAndScratchComesAfterTheStream) {
  const std::string call = "GetDevice SetStream SetWorkspace Gemm";
  EXPECT_EQ(run(kBlasF32, small()), "");
  EXPECT_EQ(host_blas.calls, "GetDevice relax{ Create Settle SetWorkspace } SetStream SetWorkspace Gemm");
  EXPECT_EQ(host_blas.scratch, scratch);
  EXPECT_EQ(host_blas.stream, stream);
  host_blas.calls.clear();
  run(kBlasF32, small());
  EXPECT_EQ(host_blas.calls, call);
  host_blas.calls.clear();
  host_blas.device += 1000;
  run(kBlasF32, small());
  EXPECT_NE(host_blas.calls.find("Create"), std::string::npos) << "a handle served another device";
}

TEST_F(BlasTest, ClassesMultiplyWhatTheyMay) {
  run(kBlasTf32, small());
  EXPECT_TRUE(host_blas.calls.ends_with(" GemmFast")) << host_blas.calls;
  Gemm shorts = small();
  const Numbers x(NIBBLE_BF16, Along::outer, 2, 4, 1, 0), y(NIBBLE_BF16, Along::k, 3, 4, 1, 5);
  shorts.a = x.operand, shorts.b = y.operand;
  run(kBlasTf32, shorts);
  EXPECT_TRUE(host_blas.calls.ends_with(" Gemm")) << host_blas.calls;
  EXPECT_TRUE(kBlasF32.multiplies(NIBBLE_F32, NIBBLE_F32));
  EXPECT_FALSE(kBlasF32.multiplies(NIBBLE_BF16, NIBBLE_BF16));
  EXPECT_TRUE(kBlasTf32.multiplies(NIBBLE_BF16, NIBBLE_BF16));
  EXPECT_TRUE(kBlasBf16.multiplies(NIBBLE_BF16, NIBBLE_BF16));
  EXPECT_FALSE(kBlasBf16.multiplies(NIBBLE_F32, NIBBLE_F32));
  for (const GemmEngine* engine : {&kBlasF32, &kBlasTf32, &kBlasBf16}) {
    EXPECT_FALSE(engine->multiplies(NIBBLE_F16, NIBBLE_F16)) << "this library's f16 is not exact";
    EXPECT_FALSE(engine->multiplies(NIBBLE_F16, NIBBLE_BF16));
  }
}

TEST_F(BlasTest, FailuresAreOneLineLeaveNothingBehindAndPass) {
  const struct {
    const char* failing;
    int failure;
    nibble_status expected;
    const char* words;
  } cases[] = {
      {"GetDevice", 1, NIBBLE_DEVICE_ERROR, "the current host device could not be told"},
      {"Create", 3, NIBBLE_OUT_OF_MEMORY, "hostblasCreate: in the library's words (3)"},
      {"Create", 7, NIBBLE_DEVICE_ERROR, "hostblasCreate: in the library's words (7)"},
      {"Settle", 7, NIBBLE_DEVICE_ERROR, "hostblasSettle: in the library's words (7)"},
      {"SetStream", 7, NIBBLE_DEVICE_ERROR, "hostblasSetStream: in the library's words (7)"},
      {"SetWorkspace", 7, NIBBLE_DEVICE_ERROR, "hostblasSetWorkspace: in the library's words (7)"},
      {"Gemm", 7, NIBBLE_DEVICE_ERROR, "hostblas product: in the library's words (7)"},
  };
  for (const auto& tried : cases) {
    SCOPED_TRACE(tried.failing);
    SetUp();
    host_blas.failing = tried.failing, host_blas.failure = tried.failure, host_blas.last_error = 9;
    EXPECT_EQ(run(kBlasF32, small()), tried.words);
    EXPECT_EQ(status, tried.expected);
    EXPECT_EQ(host_blas.last_error, 0) << "the runtime's error was left for the next caller";
    host_blas.failing.clear();
    EXPECT_EQ(run(kBlasF32, small()), "");
    EXPECT_EQ(status, NIBBLE_OK);
  }
  SetUp();
  host_blas.failing = "Settle", host_blas.failure = 7;
  run(kBlasF32, small());
  EXPECT_TRUE(host_blas.calls.ends_with("Settle Destroy }")) << host_blas.calls;
}

/// cuBLAS without room for its context.
TEST_F(BlasTest, NotInitializedForWantOfMemoryIsWantOfMemory) {
  host_blas.failing = "Create", host_blas.failure = HOSTBLAS_STATUS_NOT_INITIALIZED, host_blas.last_error = kNoMemory;
  run(kBlasF32, small());
  EXPECT_EQ(status, NIBBLE_OUT_OF_MEMORY);
}

}  // namespace
}  // namespace nibble::gpu
