// The table: rows, shapes and numbers of tokens against the incumbent's row-block path.
// Apart from the header so that the checks know nothing of how time is taken.
#include "tests/gpu/products_bench.h"

#include "backends/cuda/products.h"
#include "core/decode.h"
#include "tests/gpu/products_device.h"

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <functional>
#include <string_view>

namespace nibble::gpu_test {
namespace {

struct Shape {
  std::int64_t columns, rows;
  std::array<double, 5> incumbent_us;  ///< ggml's converter and cuBLAS with TF32, one H200, by kTokens
};
constexpr std::array<std::int64_t, 5> kTokens = {1, 16, 64, 512, 2048};
constexpr Shape kShapes[] = {{5120, 152064, {2704, 2823, 2839, 6697, 14669}},
                             {4096, 128256, {1813, 1873, 1893, 3898, 9364}},
                             {8192, 28672, {818, 850, 856, 1559, 4412}}};

double median_us(void* stream, int warm, int runs, const std::function<void()>& call) {
  auto s = static_cast<cudaStream_t>(stream);
  std::vector<double> times;
  cudaEvent_t start = nullptr, stop = nullptr;
  must(cudaEventCreate(&start), "event");
  must(cudaEventCreate(&stop), "event");
  for (int i = 0; i < warm + runs; ++i) {
    must(cudaEventRecord(start, s), "event");
    call();
    must(cudaEventRecord(stop, s), "event");
    must(cudaEventSynchronize(stop), "a timed call");
    float ms = 0;
    must(cudaEventElapsedTime(&ms, start, stop), "event");
    if (i >= warm) times.push_back(1e3 * static_cast<double>(ms));
  }
  cudaEventDestroy(start);
  cudaEventDestroy(stop);
  std::nth_element(times.begin(), times.begin() + runs / 2, times.end());
  return times[static_cast<std::size_t>(runs / 2)];
}

/// One piece of random values over and over, its length prime so that no row equals another.
std::vector<std::uint8_t> repeated_elements(nibble_format type, std::int64_t n, std::mt19937_64& random) {
  constexpr std::int64_t kPiece = 4194301;
  const auto piece = random_elements(type, kPiece, 1.0, random);
  std::vector<std::uint8_t> out(static_cast<std::size_t>(n) * (piece.size() / kPiece));
  for (std::size_t at = 0; at < out.size(); at += piece.size()) {
    std::copy_n(piece.begin(), std::min(piece.size(), out.size() - at), out.begin() + static_cast<std::ptrdiff_t>(at));
  }
  return out;
}

bool is_row_blocks(const nibble_kernel& row) {
  return std::string_view(row.name).find("row_blocks") != std::string_view::npos;
}

/// A weight of one shape on the host and the device; activations of one piece of random values, repeated.
class Bench {
 public:
  Bench(nibble_op op, nibble_format format, std::int64_t columns, std::int64_t rows, nibble_format src1)
      : random_(rows), op_(op), src1_type_(src1) {
    const FormatInfo& info = *find_format(format);
    packed_ = random_blocks(format, columns / info.block_values * rows, random_);
    weight_ = make_weight(make_tensor(packed_.data(), format, {columns, rows}));
    copy(device_packed_, packed_);
    const std::int64_t k = op == NIBBLE_OP_LINEAR ? columns : rows;
    src1_ = repeated_elements(src1, k * kTokens.back(), random_);
    copy(device_src1_, src1_);
    host_.struct_size = sizeof host_;
    host_.op = op;
    device_dst_.at_least(static_cast<std::uint64_t>((op == NIBBLE_OP_LINEAR ? rows : columns) * kTokens.back() * 4));
    device_workspace_.at_least(std::uint64_t{260} << 20);
  }

  void set_tokens(std::int64_t tokens) {
    const Tensor& w = weight_.packed;
    host_.weight = weight_;
    const bool linear = op_ == NIBBLE_OP_LINEAR;
    host_.src1 = linear ? make_tensor(src1_.data(), src1_type_, {w.shape[0], tokens})
                        : make_tensor(src1_.data(), src1_type_, {tokens, w.shape[1]});
    host_.dst = make_tensor(nullptr, NIBBLE_F32, {linear ? w.shape[1] : w.shape[0], tokens});
    on_device_ = host_;
    place(on_device_.weight.packed, device_packed_);
    place(on_device_.src1, device_src1_);
    place(on_device_.dst, device_dst_);
  }

  /// Median time; negative where the call failed. Sets the workspace that it took.
  double time(const OnDevice& device, const nibble_kernel& row, std::uint64_t& workspace_bytes) {
    char line[512] = "";
    nibble_text why{.struct_size = sizeof why, .reserved = 0, .capacity = sizeof line, .data = line};
    nibble_workspace_need need{};
    on_device_.math = row.math;
    row.query(&row, &device.caps(), &on_device_, &need, &why);
    workspace_bytes = need.bytes;
    nibble_status status = NIBBLE_OK;
    const double us = median_us(device.stream, 3, 11, [&] {
      status =
          row.execute(&row, &device.caps(), &on_device_, device_workspace_.data(), need.bytes, device.stream, &why);
    });
    if (status != NIBBLE_OK) fmt::print("FAIL {}: {}\n", row.name, line);
    return status == NIBBLE_OK ? us : -1;
  }

  /// Compares the first and last 256 columns of the last token of out_prod; answers the NMSE.
  double sample_nmse() {
    constexpr std::int64_t kColumns = 256;
    const std::int64_t columns = host_.dst.shape[0], token = host_.dst.shape[1] - 1;
    double error2 = 0, value2 = 0;
    for (const std::int64_t first : {std::int64_t{0}, columns - kColumns}) {
      const auto sums = out_prod_sums(host_, first, kColumns, token, 1, 0, 0);
      std::vector<float> got(kColumns);
      const auto* at = reinterpret_cast<const float*>(device_dst_.data()) + token * columns + first;
      must(cudaMemcpy(got.data(), at, kColumns * sizeof(float), cudaMemcpyDeviceToHost), "reading dst");
      for (std::size_t i = 0; i < got.size(); ++i) {
        error2 += (got[i] - sums[i].value) * (got[i] - sums[i].value);
        value2 += sums[i].value * sums[i].value;
      }
    }
    return error2 / value2;
  }

 private:
  static void copy(DeviceBuffer& to, const std::vector<std::uint8_t>& from) {
    must(cudaMemcpy(to.at_least(from.size()), from.data(), from.size(), cudaMemcpyHostToDevice), "copying an operand");
  }
  static void place(Tensor& t, const DeviceBuffer& b) {
    t.data = b.data();
    t.device_type = NIBBLE_DEVICE_CUDA;
  }

  std::mt19937_64 random_;
  nibble_op op_;
  nibble_format src1_type_;
  std::vector<std::uint8_t> packed_, src1_;
  Weight weight_{};
  nibble_request host_{}, on_device_{};
  DeviceBuffer device_packed_, device_src1_, device_dst_, device_workspace_;
};

double copy_bandwidth(void* stream) {
  constexpr std::size_t kBytes = std::size_t{1} << 30;
  DeviceBuffer a, b;
  a.at_least(kBytes);
  b.at_least(kBytes);
  const double us = median_us(stream, 3, 11, [&] {
    must(cudaMemcpyAsync(a.data(), b.data(), kBytes, cudaMemcpyDeviceToDevice, static_cast<cudaStream_t>(stream)),
         "copy");
  });
  return 2.0 * kBytes / us * 1e-3;
}

/// out_prod with f32 gradients, right results included.
std::int64_t bench_out_prod(const OnDevice& device, const Shape& shape) {
  std::int64_t wrong = 0;
  Bench bench(NIBBLE_OP_OUT_PROD, NIBBLE_Q4_K, shape.columns, shape.rows, NIBBLE_F32);
  for (const nibble_kernel* row : cuda::product_rows()) {
    if (row->op != NIBBLE_OP_OUT_PROD || !is_row_blocks(*row)) continue;
    const bool tf32 = row->math == NIBBLE_MATH_TF32;
    for (std::size_t i = 0; i < kTokens.size(); ++i) {
      if (!tf32 && kTokens[i] > 512) continue;
      bench.set_tokens(kTokens[i]);
      std::uint64_t workspace = 0;
      const double us = bench.time(device, *row, workspace);
      const double nmse = bench.sample_nmse();
      const bool right = us > 0 && nmse <= (tf32 ? 3e-7 : 1e-9);
      wrong += right ? 0 : 1;
      fmt::print(
          "{:<28} {:>5}x{:<6} tokens {:>4} {:>9.0f} us {:>6.2f}x of {:>6.0f}  NMSE {:.2g}  workspace {:.1f} MiB{}\n",
          row->name, shape.columns, shape.rows, kTokens[i], us, shape.incumbent_us[i] / us, shape.incumbent_us[i], nmse,
          static_cast<double>(workspace) / (1 << 20), right ? "" : "  WRONG");
      std::fflush(stdout);
    }
  }
  return wrong;
}

/// Times alone, of what the checks have shown to be right.
void bench_others(const OnDevice& device) {
  struct Other {
    nibble_op op;
    nibble_format format;
    std::int64_t columns, rows;
    nibble_format src1;
  };
  constexpr Other kOthers[] = {{NIBBLE_OP_OUT_PROD, NIBBLE_Q4_K, 5120, 152064, NIBBLE_BF16},
                               {NIBBLE_OP_LINEAR, NIBBLE_Q4_K, 5120, 152064, NIBBLE_F32},
                               {NIBBLE_OP_LINEAR, NIBBLE_Q4_K, 4096, 14336, NIBBLE_BF16}};
  for (const Other& o : kOthers) {
    Bench bench(o.op, o.format, o.columns, o.rows, o.src1);
    for (const nibble_kernel* row : cuda::product_rows()) {
      if (row->op != o.op || !is_row_blocks(*row) || row->math != NIBBLE_MATH_TF32) continue;
      for (const std::int64_t tokens : kTokens) {
        bench.set_tokens(tokens);
        std::uint64_t workspace = 0;
        const double us = bench.time(device, *row, workspace);
        fmt::print("{:<28} {:>5}x{:<6} tokens {:>4} {:>9.0f} us  src1 {}  workspace {:.1f} MiB\n", row->name, o.columns,
                   o.rows, tokens, us, format_name(o.src1), static_cast<double>(workspace) / (1 << 20));
        std::fflush(stdout);
      }
    }
  }
}

}  // namespace

std::string blas_version() {
  int parts[3] = {};
  constexpr libraryPropertyType kParts[] = {MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL};
  for (int i = 0; i < 3; ++i) cublasGetProperty(kParts[i], &parts[i]);
  return fmt::format("cuBLAS {}.{}.{}", parts[0], parts[1], parts[2]);
}

std::int64_t bench_products() {
  const OnDevice device;
  fmt::print("copy {:.0f} GB/s\n", copy_bandwidth(device.stream));
  std::int64_t wrong = 0;
  for (const Shape& shape : kShapes) wrong += bench_out_prod(device, shape);
  bench_others(device);
  return wrong;
}

}  // namespace nibble::gpu_test
