// Products on a GPU against sums in binary64: every row, every format, every layout; then their speed.
// Apart from the conformance tests because it links the back end directly and runs where nothing else is installed.
#include "backends/cuda/products.h"
#include "tests/gpu/products_bench.h"
#include "tests/gpu/products_compare.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>
#include <string_view>
#include <thread>

namespace nibble::gpu_test {
namespace {

template <class F>
void each_format(bool reduced, F&& f) {
  for (const FormatInfo& info : formats()) {
    if (info.kind == FormatInfo::Kind::not_a_weight) continue;
    const bool kept = info.id == NIBBLE_F32 || info.id == NIBBLE_F16 || info.id == NIBBLE_Q4_K ||
                      info.id == NIBBLE_Q6_K || info.id == NIBBLE_NF4;
    if (reduced && !kept) continue;
    f(info.id, false);
    if (info.id == NIBBLE_NF4 || info.id == NIBBLE_FP4) f(info.id, true);
  }
}

constexpr Case::Layout kBothWays[] = {Case::Layout::along_outer, Case::Layout::along_k};
constexpr nibble_format kTypes[] = {NIBBLE_F32, NIBBLE_F16, NIBBLE_BF16};

/// Formats x tokens x K x batch x repeat x orientation x type of src1.
void check_grid(OnDevice& device, bool reduced) {
  each_format(reduced, [&](nibble_format format, bool nested) {
    for (int bits = 0; bits < 256; ++bits) {
      if (reduced && bits % 5 != 0) continue;
      const auto bit = [&](int i) { return (bits >> i & 1) != 0; };
      run(device, {.format = format,
                   .nested = nested,
                   .columns = columns_for(format),
                   .rows = bit(0) ? 16 : 1,
                   .tokens = bit(1) ? 16 : 1,
                   .weights = {bit(2) ? 3 : 1, bit(3) ? 3 : 1},
                   .repeats = {bit(4) ? 2 : 1, bit(5) ? 2 : 1},
                   .layout = kBothWays[bit(6) ? 1 : 0],
                   .src1 = kTypes[bit(7) ? 1 : 0]});
    }
  });
}

/// Types of src1 and dst, accumulate, views, strides that no library takes, budgets down to one row.
void check_variants(OnDevice& device, bool reduced) {
  each_format(reduced, [&](nibble_format format, bool nested) {
    const std::int64_t columns = columns_for(format);
    for (const nibble_format src1 : kTypes) {
      for (const nibble_format dst : kTypes) {
        for (int bits = 0; bits < 8; ++bits) {
          const bool batched = (bits & 1) != 0;
          run(device, {.format = format,
                       .nested = nested,
                       .columns = columns,
                       .rows = 70,
                       .tokens = 5,
                       .weights = {batched ? 2 : 1, 1},
                       .repeats = {batched ? 3 : 1, batched ? 2 : 1},
                       .layout = kBothWays[bits >> 1 & 1],
                       .src1 = src1,
                       .dst = dst,
                       .accumulate = (bits & 2) != 0,
                       .pad = (bits & 4) != 0 ? 6 : 0,
                       .least_workspace = (bits & 1) == 0});
        }
        for (const auto layout : {Case::Layout::strided, Case::Layout::repeated}) {
          run(device, {.format = format,
                       .nested = nested,
                       .columns = columns,
                       .rows = 40,
                       .tokens = 7,
                       .weights = {1, 2},
                       .repeats = {1, 3},
                       .layout = layout,
                       .src1 = src1,
                       .dst = dst,
                       .accumulate = dst == NIBBLE_F16,
                       .pad = 3});
        }
      }
    }
    run(device, {.format = format, .nested = nested, .columns = columns, .rows = 33, .tokens = 9, .src1_scale = 1e6});
    run(device, {.format = format, .nested = nested, .columns = columns, .rows = 0, .tokens = 3});
    run(device, {.format = format,
                 .nested = nested,
                 .columns = columns,
                 .rows = 0,
                 .tokens = 3,
                 .dst = NIBBLE_BF16,
                 .accumulate = true,
                 .pad = 1});
  });
}

void check_linear(OnDevice& device, bool reduced) {
  each_format(reduced, [&](nibble_format format, bool nested) {
    const std::int64_t columns = columns_for(format);
    for (const nibble_format src1 : kTypes) {
      for (const nibble_format dst : kTypes) {
        for (int bits = 0; bits < 16; ++bits) {
          run(device, {.op = NIBBLE_OP_LINEAR,
                       .format = format,
                       .nested = nested,
                       .columns = columns,
                       .rows = 77,
                       .tokens = (bits & 1) != 0 ? 16 : 1,
                       .layout = (bits & 2) != 0 ? Case::Layout::along_outer : Case::Layout::along_k,
                       .src1 = src1,
                       .dst = dst,
                       .bias = (bits & 4) != 0,
                       .pad = (bits & 8) != 0 ? 6 : 0,
                       .least_workspace = (bits & 1) != 0});
        }
        run(device, {.op = NIBBLE_OP_LINEAR,
                     .format = format,
                     .nested = nested,
                     .columns = columns,
                     .rows = 13,
                     .tokens = 3,
                     .layout = Case::Layout::strided,
                     .src1 = src1,
                     .dst = dst,
                     .bias = true});
      }
    }
  });
  run(device, {.op = NIBBLE_OP_LINEAR,
               .format = NIBBLE_NF4,
               .columns = 0,
               .rows = 12,
               .tokens = 3,
               .dst = NIBBLE_F16,
               .bias = true});
}

/// Many row blocks: a wrong offset or a missing beta shows. Budgets of 256 MiB, 1 MiB, and one row where that is quick.
void check_long(OnDevice& device, bool reduced) {
  const std::int64_t k = reduced ? 20000 : 600000;
  for (const auto layout : kBothWays) {
    for (const nibble_format format : {nibble_format{NIBBLE_Q4_K}, nibble_format{NIBBLE_Q8_0}}) {
      for (const std::uint64_t limit : {std::uint64_t{256} << 20, std::uint64_t{1} << 20}) {
        for (const nibble_format src1 : {nibble_format{NIBBLE_F32}, nibble_format{NIBBLE_F16}}) {
          run(device, {.format = format,
                       .columns = 256,
                       .rows = k,
                       .tokens = 16,
                       .layout = layout,
                       .src1 = src1,
                       .limit = limit});
        }
      }
      run(device,
          {.format = format, .columns = 256, .rows = 2000, .tokens = 16, .layout = layout, .least_workspace = true});
    }
  }
  run(device, {.format = NIBBLE_Q4_K,
               .columns = 256,
               .rows = k,
               .tokens = 16,
               .layout = Case::Layout::repeated,
               .dst = NIBBLE_F16,
               .accumulate = true,
               .src1_scale = 1e-3,
               .limit = 1u << 20});
  run(device, {.op = NIBBLE_OP_LINEAR,
               .format = NIBBLE_Q4_K,
               .columns = 40960,
               .rows = 512,
               .tokens = 16,
               .layout = Case::Layout::along_k,
               .bias = true,
               .limit = 16u << 20});
  run(device, {.format = NIBBLE_NF4, .nested = true, .columns = 128, .rows = 5, .tokens = 70000, .limit = 1u << 20});
  run(device, {.format = NIBBLE_Q8_0,
               .columns = 32,
               .rows = 3,
               .tokens = 2,
               .weights = {1, 1},
               .repeats = {300, 250},
               .dst = NIBBLE_BF16});
}

/// The same bits 50 times, on two streams at once.
void check_determinism(OnDevice& device) {
  const Case c{.format = NIBBLE_Q4_K, .columns = 1024, .rows = 40000, .tokens = 16};
  const Fixture f(c, 3);
  OnDevice other;
  device.upload(f);
  other.upload(f);
  for (const nibble_kernel* row : cuda::product_rows()) {
    if (!device.supports(*row)) continue;
    device.request.math = other.request.math = row->math;
    const Outcome first = device.call(*row, f, false);
    std::thread beside([&] {
      for (int i = 0; i < 25; ++i) {
        if (other.call(*row, f, false).dst != first.dst) report(c, row->name, "another stream's run gave other bits");
      }
    });
    bool same = true;
    for (int i = 0; i < 25; ++i) same = same && device.call(*row, f, false).dst == first.dst;
    beside.join();
    if (!same) report(c, row->name, "a repeated run gave other bits");
    tally.calls += 51;
  }
}

/// The process's very first calls, in a capture: no handle exists yet. The portable row comes first, so that what the
/// library takes for itself can be told from what buffers and our own kernels take.
void check_first_call_captured(OnDevice& device) {
  const auto rows = cuda::product_rows();
  std::size_t before = 0, after = 0, total = 0;
  for (const Case& c : {Case{.format = NIBBLE_Q4_K, .columns = 512, .rows = 300, .tokens = 8, .src1 = NIBBLE_F16},
                        Case{.op = NIBBLE_OP_LINEAR,
                        .format = NIBBLE_NF4,
                        .nested = true,
                        .columns = 512,
                        .rows = 300,
                        .tokens = 8,
                        .dst = NIBBLE_F16,
                        .bias = true}}) {
    const Fixture f(c, 5);
    const auto expected = f.expected();
    device.upload(f);
    device.reserve_workspace(std::uint64_t{64} << 20);
    for (auto row = rows.rbegin(); row != rows.rend(); ++row) {
      if (!device.supports(**row)) continue;
      device.request.math = (*row)->math;
      must(cudaMemGetInfo(&after, &total), "cudaMemGetInfo");
      if (before == 0 && (*row)->rank > 0) before = after;
      compare(c, **row, f, expected, device.captured(**row, f));
      ++tally.calls;
    }
  }
  must(cudaMemGetInfo(&after, &total), "cudaMemGetInfo");
  fmt::print("device memory that cuBLAS took for itself: {:.1f} MiB\n",
             static_cast<double>(before - after) / (1 << 20));
}

void check_second_device() {
  int count = 0;
  must(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  if (count < 2) {
    fmt::print("skipped: tensors on device 1 while 0 is current (this machine has {} device)\n", count);
    return;
  }
  OnDevice second(1);
  check_variants(second, true);
  check_linear(second, true);
  must(cudaSetDevice(0), "cudaSetDevice");
}

void timed(const char* name, const std::function<void()>& check) {
  const auto start = std::chrono::steady_clock::now();
  const std::int64_t calls = tally.calls, failures = tally.failures;
  check();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  fmt::print("{:<22} {:>7} calls {:>5} failures {:>7.1f} s\n", name, tally.calls - calls, tally.failures - failures,
             seconds.count());
  std::fflush(stdout);
}

int main_checked(bool reduced, bool bench_alone) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0) {
    fmt::print("no CUDA device: {}\n", cudaGetErrorString(status));
    return 2;
  }
  OnDevice device;
  fmt::print("{} ({}), {}\n", device.caps().name, device.caps().arch, blas_version());
  if (!bench_alone) {
    timed("captured first call", [&] { check_first_call_captured(device); });
    timed("grid", [&] { check_grid(device, reduced); });
    timed("variants", [&] { check_variants(device, reduced); });
    timed("linear", [&] { check_linear(device, reduced); });
    timed("long sums", [&] { check_long(device, reduced); });
    timed("determinism", [&] { check_determinism(device); });
    timed("second device", [&] { check_second_device(); });
    for (const auto& [row, worst] : tally.worst_bound) {
      fmt::print("{:<32} worst error {:.3f} of its bound, worst NMSE {:.2g}\n", row, worst, tally.worst_nmse[row]);
    }
    fmt::print("{}: {} calls, {} failures\n", tally.failures == 0 ? "PASS" : "FAIL", tally.calls, tally.failures);
  }
  if (!reduced) tally.failures += bench_products();
  return tally.failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace nibble::gpu_test

/// products_check [reduced | bench]
int main(int argc, char** argv) {
  try {
    const std::string_view mode = argc > 1 ? argv[1] : "";
    return nibble::gpu_test::main_checked(mode == "reduced", mode == "bench");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "products_check: %s\n", error.what());
    return 1;
  }
}
