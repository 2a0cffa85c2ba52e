// Times of the decoders as fractions of the device's own copy.
// Apart from the checks of values because times want an idle machine and no checker.
#include "backends/gpu/decode.h"
#include "core/decode.h"
#include "tests/gpu/decode_cases.h"
#include "tests/gpu/decode_fixture.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace nibble::decode_check {
namespace {

constexpr Format kTypes[] = {NIBBLE_F32, NIBBLE_F16, NIBBLE_BF16};
constexpr std::uint64_t kPastCache = 256u << 20;  // rotating over this many bytes, nothing stays in L2
constexpr int kBatches = 9;

/// Memory that all measurements share: a read side of random bytes and a write side.
struct Arena {
  std::uint64_t read_bytes = std::uint64_t{2} << 30, write_bytes = std::uint64_t{2} << 30;
  DeviceMemory read{read_bytes}, write{write_bytes};
  Arena() {
    std::vector<std::uint32_t> words(std::size_t{16} << 18);
    std::mt19937 rng(1);
    for (auto& w : words) w = static_cast<std::uint32_t>(rng());
    const std::uint64_t piece = words.size() * 4;
    require(cudaMemcpy(read.data(), words.data(), piece, cudaMemcpyHostToDevice), "copying");
    for (std::uint64_t at = piece; at + piece <= read_bytes; at += piece) {
      require(cudaMemcpy(read.data() + at, read.data(), piece, cudaMemcpyDeviceToDevice), "copying");
    }
  }
};

class Timer {
 public:
  Timer() {
    require(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "creating a stream");
    require(cudaEventCreate(&begin_), "creating an event");
    require(cudaEventCreate(&end_), "creating an event");
  }
  [[nodiscard]] cudaStream_t stream() const { return stream_; }

  /// Median microseconds of one of `inner` calls in a captured graph, over nine replays.
  double microseconds(int inner, const std::function<void(int)>& call) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    require(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "capturing");
    for (int i = 0; i < inner; ++i) call(i);
    require(cudaStreamEndCapture(stream_, &graph), "capturing");
    require(cudaGraphInstantiate(&exec, graph, 0), "instantiating");
    std::vector<double> times;
    for (int batch = -2; batch < kBatches; ++batch) {
      require(cudaEventRecord(begin_, stream_), "recording");
      require(cudaGraphLaunch(exec, stream_), "replaying");
      require(cudaEventRecord(end_, stream_), "recording");
      require(cudaEventSynchronize(end_), "waiting");
      float ms = 0;
      require(cudaEventElapsedTime(&ms, begin_, end_), "timing");
      if (batch >= 0) times.push_back(1e3 * ms / inner);
    }
    require(cudaGraphExecDestroy(exec), "destroying");
    require(cudaGraphDestroy(graph), "destroying");
    std::nth_element(times.begin(), times.begin() + kBatches / 2, times.end());
    return times[kBatches / 2];
  }

 private:
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

int inner_of(std::uint64_t moved) {
  return static_cast<int>(std::clamp<std::uint64_t>((std::uint64_t{12} << 30) / moved, 6, 60));
}

/// The copy that moves as many bytes, reads and writes counted, in the same rotation.
double copy_microseconds(Timer& timer, const Arena& arena, std::uint64_t moved) {
  const std::uint64_t bytes = moved / 2 / 256 * 256;
  const auto slots = static_cast<int>(std::max<std::uint64_t>(1, std::min(kPastCache, arena.write_bytes) / bytes));
  return timer.microseconds(inner_of(moved), [&](int i) {
    const std::uint64_t at = static_cast<std::uint64_t>(i % slots) * bytes;
    require(cudaMemcpyAsync(arena.write.data() + at, arena.read.data() + at, bytes, cudaMemcpyDeviceToDevice,
                            timer.stream()),
            "copying");
  });
}

enum class Path { two_step, fused };

struct Shape {
  std::int64_t n0, n1;
};

/// Weights over the arena's random bytes, as many as the rotation wants, each with its own place.
struct Rotation {
  std::vector<Weight> weights;
  std::vector<std::uint8_t*> out;

  Rotation(const Arena& arena, Format format, Format to, Shape shape, bool is_nested, const TestWeight& small) {
    const std::int64_t n = shape.n0 * shape.n1;
    const std::uint64_t out_bytes = static_cast<std::uint64_t>(n) * (to == NIBBLE_F32 ? 4 : 2);
    Weight w{};
    w.packed = make_tensor(nullptr, format, {shape.n0, shape.n1}, {NIBBLE_DEVICE_CUDA, 0});
    const std::int64_t blocks = (n + 63) / 64;
    if (find_format(format)->kind == FormatInfo::Kind::flat) {
      w.block_size = 64;
      w.code = small.device.code;
      w.absmax =
          make_tensor(nullptr, is_nested ? Format{NIBBLE_U8} : Format{NIBBLE_F32}, {blocks}, {NIBBLE_DEVICE_CUDA, 0});
    }
    if (is_nested) {
      w.nested_block_size = 256;
      w.nested_code = small.device.nested_code;
      w.nested_absmax = make_tensor(nullptr, NIBBLE_F32, {(blocks + 255) / 256}, {NIBBLE_DEVICE_CUDA, 0});
    }
    const std::uint64_t in_bytes = (stored_bytes(w) + 1023) / 256 * 256 + 1024;
    const std::uint64_t most = std::min(arena.read_bytes / in_bytes, arena.write_bytes / out_bytes);
    const std::uint64_t slots =
        std::clamp<std::uint64_t>(kPastCache / in_bytes + 1, 2, std::max<std::uint64_t>(most, 1));
    for (std::uint64_t s = 0; s < slots; ++s) {
      std::uint8_t* at = arena.read.data() + s % (arena.read_bytes / in_bytes) * in_bytes;
      Weight placed = w;
      placed.packed.data = at;
      const auto next = [&](std::uint64_t bytes) { return at += (bytes + 255) / 256 * 256; };
      next(static_cast<std::uint64_t>((n + find_format(format)->block_values - 1) / find_format(format)->block_values *
                                      find_format(format)->block_bytes));
      placed.absmax.data = at;
      placed.nested_absmax.data = is_nested ? next(static_cast<std::uint64_t>(blocks)) : nullptr;
      weights.push_back(placed);
      out.push_back(arena.write.data() + s % (arena.write_bytes / out_bytes) * out_bytes);
    }
  }
};

struct Result {
  double us = 0, copy_us = 0;
  [[nodiscard]] double fraction() const { return copy_us / us; }
};

Result measure(Timer& timer, const Arena& arena, Format format, Format to, Shape shape, bool is_nested, Path path) {
  const TestWeight small({.format = is_nested ? format : Format{NIBBLE_BLOCKWISE8},
                          .shape = {64, 1, 1, 1},
                          .nested_group = is_nested ? 256 : 0});
  const Rotation rotation(arena, format, to, shape, is_nested, small);
  const std::uint64_t moved =
      stored_bytes(rotation.weights[0]) + static_cast<std::uint64_t>(shape.n0 * shape.n1) * (to == NIBBLE_F32 ? 4 : 2);
  const DeviceMemory scales(gpu::decode_scales_bytes(rotation.weights[0]) + 16);
  auto* f32_scales = reinterpret_cast<float*>(scales.data());
  char line[256] = "";
  nibble_text why{.struct_size = sizeof why, .reserved = 0, .capacity = sizeof line, .data = line};
  Result r;
  r.us = timer.microseconds(inner_of(moved), [&](int i) {
    const auto slot = static_cast<std::size_t>(i) % rotation.weights.size();
    const Weight& w = rotation.weights[slot];
    const Tensor dst = make_tensor(rotation.out[slot], to, {shape.n0, shape.n1}, {NIBBLE_DEVICE_CUDA, 0});
    if (path == Path::fused) {
      require_ok(gpu::decode_tensor_nested(w, dst, timer.stream(), &why), line, "decoding");
      return;
    }
    require_ok(gpu::rebuild_scales(w, f32_scales, timer.stream(), &why), line, "rebuilding");
    require_ok(gpu::decode_tensor(w, dst, is_nested ? f32_scales : nullptr, timer.stream(), &why), line, "decoding");
  });
  r.copy_us = copy_microseconds(timer, arena, moved);
  return r;
}

void print_formats(Timer& timer, const Arena& arena) {
  std::printf("\n8192x28672, microseconds and fraction of copy\n%-11s %9s %6s %9s %6s %9s %6s\n", "format", "f32", "",
              "f16", "", "bf16", "");
  for (const FormatInfo& f : formats()) {
    if (f.kind == FormatInfo::Kind::not_a_weight) continue;
    std::printf("%-11s", std::string(f.name).c_str());
    for (const Format to : kTypes) {
      const Result r = measure(timer, arena, f.id, to, {8192, 28672}, false, Path::two_step);
      std::printf(" %9.1f %6.3f", r.us, r.fraction());
    }
    std::printf("\n");
  }
}

void print_nested(Timer& timer, const Arena& arena) {
  constexpr Shape kShapes[] = {{4096, 4096}, {4096, 11008}, {8192, 8192}, {8192, 28672}};
  std::printf(
      "\nnested by 256, blocks of 64: microseconds and fraction of copy\n%-4s %-12s %-5s %9s %6s %9s %6s %9s %6s\n", "",
      "shape", "to", "two-step", "", "fused", "", "plain", "");
  for (const Format format : {NIBBLE_NF4, NIBBLE_FP4}) {
    for (const Shape shape : kShapes) {
      for (const Format to : kTypes) {
        const Result two = measure(timer, arena, format, to, shape, true, Path::two_step);
        const Result fused = measure(timer, arena, format, to, shape, true, Path::fused);
        const Result plain = measure(timer, arena, format, to, shape, false, Path::two_step);
        std::printf("%-4s %-12s %-5s %9.1f %6.3f %9.1f %6.3f %9.1f %6.3f\n", format_name(format).c_str(),
                    (std::to_string(shape.n1) + "x" + std::to_string(shape.n0)).c_str(), format_name(to).c_str(),
                    two.us, two.fraction(), fused.us, fused.fraction(), plain.us, plain.fraction());
      }
    }
  }
}

}  // namespace

void print_times() {
  const Arena arena;
  Timer timer;
  const double us = copy_microseconds(timer, arena, std::uint64_t{1} << 30);
  std::printf("copy of 512 MiB: %.1f us, %.0f GB/s counting both ways\n", us,
              1e-3 * static_cast<double>(1u << 30) / us);
  print_formats(timer, arena);
  print_nested(timer, arena);
}

}  // namespace nibble::decode_check
