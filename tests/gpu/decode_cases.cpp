// Every format, output type and layout through the decoders, compared with the reference by bits.
// Apart from the timings: this half can run under a memory checker.
#include "tests/gpu/decode_cases.h"

#include "backends/gpu/decode.h"
#include "core/decode.h"
#include "tests/gpu/decode_fixture.h"

#include <cuda_runtime_api.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

namespace nibble::decode_check {
namespace {

constexpr Format kTypes[] = {NIBBLE_F32, NIBBLE_F16, NIBBLE_BF16};
constexpr std::int64_t kCanary = 64;  // elements before and after what a call may touch

/// Where a result goes, in elements.
struct Target {
  std::int64_t offset = 0;
  std::int64_t row_padding = 0;
  std::int64_t slice_padding = 0;
};

/// Rows of one slice, or the whole tensor.
struct Range {
  std::int64_t first = 0, count = 0, i2 = 0, i3 = 0;  // count 0: all
};

struct Case {
  std::string name;
  Spec spec;
  Target target{};
  Range range{};
};

enum class Path { two_step, fused };

/// The destination's shape and strides in elements, from the case.
struct Layout {
  std::int64_t shape[4], stride[4], extent;
  explicit Layout(const Case& c) {
    const auto& s = c.spec.shape;
    const bool whole = c.range.count == 0;
    for (int d = 0; d < 4; ++d) shape[d] = d == 0 || whole ? s[static_cast<std::size_t>(d)] : 1;
    if (!whole) shape[1] = c.range.count;
    stride[0] = 1;
    stride[1] = shape[0] + c.target.row_padding;
    stride[2] = stride[1] * shape[1] + c.target.slice_padding;
    stride[3] = stride[2] * shape[2] + c.target.slice_padding;
    extent = 1;
    for (int d = 0; d < 4; ++d) extent += (shape[d] - 1) * stride[d];
  }
};

/// Bits of the element at `at`, and whether they are a NaN.
std::uint32_t bits_at(Format to, const std::uint8_t* at) { return to == NIBBLE_F32 ? load_u32(at) : load_u16(at); }

class Checker {
 public:
  explicit Checker(gpu::Stream stream) : stream_(stream) {}

  void run(const Case& c) {
    const TestWeight w(c.spec);
    const Layout layout(c);
    std::vector<float> expected(
        static_cast<std::size_t>(layout.shape[0] * layout.shape[1] * layout.shape[2] * layout.shape[3]));
    std::size_t at = 0;
    for (std::int64_t i3 = 0; i3 < layout.shape[3]; ++i3) {
      for (std::int64_t i2 = 0; i2 < layout.shape[2]; ++i2) {
        for (std::int64_t i1 = 0; i1 < layout.shape[1]; ++i1, at += static_cast<std::size_t>(layout.shape[0])) {
          decode_row(w.host, c.range.first + i1, c.range.i2 + i2, c.range.i3 + i3, 0, layout.shape[0],
                     expected.data() + at);
        }
      }
    }
    for (const Format to : kTypes) {
      // NaN bytes show an element left unwritten where a number belongs, the others where a NaN belongs; a canary that
      // a NaN overwrote shows with those as well.
      for (const int poison : {0xff, 0x5a}) {
        run_path(c, w, layout, to, expected, Path::two_step, poison);
        if (c.spec.nested_group != 0) run_path(c, w, layout, to, expected, Path::fused, poison);
      }
    }
  }

  [[nodiscard]] int cases() const { return cases_; }
  [[nodiscard]] int failures() const { return failures_; }

 private:
  void run_path(const Case& c, const TestWeight& w, const Layout& layout, Format to, const std::vector<float>& expected,
                Path path, int poison) {
    const std::int64_t size = to == NIBBLE_F32 ? 4 : 2;
    const std::int64_t elements = kCanary + c.target.offset + layout.extent + kCanary;
    const auto bytes = static_cast<std::uint64_t>(elements * size);
    const DeviceMemory out(bytes);
    require(cudaMemsetAsync(out.data(), poison, bytes, static_cast<cudaStream_t>(stream_)), "poisoning");
    call(c, w, layout, to, out.data() + (kCanary + c.target.offset) * size, path);
    std::vector<std::uint8_t> got(bytes), want(bytes, static_cast<std::uint8_t>(poison));
    require(cudaMemcpyAsync(got.data(), out.data(), bytes, cudaMemcpyDeviceToHost, static_cast<cudaStream_t>(stream_)),
            "copying back");
    require(cudaStreamSynchronize(static_cast<cudaStream_t>(stream_)), c.name.c_str());
    place(layout, expected, to, want.data() + (kCanary + c.target.offset) * size);
    compare(c, to, path, got, want);
  }

  void call(const Case& c, const TestWeight& w, const Layout& layout, Format to, std::uint8_t* out, Path path) {
    char line[256] = "";
    nibble_text why{.struct_size = sizeof why, .reserved = 0, .capacity = sizeof line, .data = line};
    const std::uint64_t scale_bytes = path == Path::two_step ? gpu::decode_scales_bytes(w.device) : 0;
    const DeviceMemory memory(scale_bytes);
    auto* scales = scale_bytes == 0 ? nullptr : reinterpret_cast<float*>(memory.data());
    if (path == Path::two_step)
      require_ok(gpu::rebuild_scales(w.device, scales, stream_, &why), line, "rebuild_scales");
    nibble_status status = NIBBLE_OK;
    if (c.range.count != 0) {
      const Range& r = c.range;
      const gpu::WeightDecoder& decoder = path == Path::fused ? gpu::kNestedDecoder : gpu::kTwoStepDecoder;
      status = decoder.rows(w.device, r.first, r.count, r.i2, r.i3, to, out, layout.stride[1], scales, stream_, &why);
    } else {
      Tensor dst = make_tensor(out, to, c.spec.shape);
      for (int d = 0; d < 4; ++d) dst.byte_stride[d] = layout.stride[d] * (to == NIBBLE_F32 ? 4 : 2);
      status = path == Path::fused ? gpu::decode_tensor_nested(w.device, dst, stream_, &why)
                                   : gpu::decode_tensor(w.device, dst, scales, stream_, &why);
    }
    require_ok(status, line, c.name.c_str());
    require(cudaStreamSynchronize(static_cast<cudaStream_t>(stream_)), c.name.c_str());
  }

  static void place(const Layout& l, const std::vector<float>& values, Format to, std::uint8_t* at) {
    const std::int64_t size = to == NIBBLE_F32 ? 4 : 2;
    std::size_t v = 0;
    for (std::int64_t i3 = 0; i3 < l.shape[3]; ++i3) {
      for (std::int64_t i2 = 0; i2 < l.shape[2]; ++i2) {
        for (std::int64_t i1 = 0; i1 < l.shape[1]; ++i1) {
          std::uint8_t* row = at + (i1 * l.stride[1] + i2 * l.stride[2] + i3 * l.stride[3]) * size;
          for (std::int64_t i0 = 0; i0 < l.shape[0]; ++i0) store_element(to, row + i0 * size, values[v++]);
        }
      }
    }
  }

  /// Equal bits; where a NaN is expected any NaN.
  void compare(const Case& c, Format to, Path path, const std::vector<std::uint8_t>& got,
               const std::vector<std::uint8_t>& want) {
    ++cases_;
    const std::size_t size = to == NIBBLE_F32 ? 4 : 2;
    for (std::size_t i = 0; i < got.size(); i += size) {
      const std::uint32_t g = bits_at(to, &got[i]), e = bits_at(to, &want[i]);
      if (g == e) continue;
      const bool nans = std::isnan(load_element(to, &got[i])) && std::isnan(load_element(to, &want[i]));
      if (nans) continue;
      if (++failures_ <= 40) {
        std::printf("FAILED %s %s to %s%s: element %lld is %x, expected %x\n", format_name(c.spec.format).c_str(),
                    c.name.c_str(), format_name(to).c_str(), path == Path::fused ? " fused" : "",
                    static_cast<long long>(i / size) - kCanary - c.target.offset, g, e);
      }
      return;
    }
  }

  gpu::Stream stream_;
  int cases_ = 0, failures_ = 0;
};

void block_cases(const FormatInfo& f, bool reduced, std::vector<Case>& out) {
  const bool element = f.kind == FormatInfo::Kind::element;
  const std::int64_t v = element ? 1 : f.block_values, unit = element ? f.block_bytes : 2;
  const std::int64_t row = element ? 1001 : 17 * v, rows = reduced ? 5 : 37;
  const auto add = [&](const char* name, Spec s, Target t = {}, Range r = {}) {
    s.format = f.id;
    out.push_back({name, s, t, r});
  };
  add("contiguous", {.shape = {row, rows, 1, 1}});
  add("dst off by one element", {.shape = {row, rows, 1, 1}}, {.offset = 1});
  add("src off by 2 bytes or one element", {.shape = {row, rows, 1, 1}, .src_offset = unit});
  add("src off by 8 bytes", {.shape = {row, rows, 1, 1}, .src_offset = 8});
  if (!element) add("src off by 1 byte", {.shape = {row, rows, 1, 1}, .src_offset = 1});
  add("dst rows 16 bytes apart and more", {.shape = {3 * v * (element ? 8 : 1), 9, 1, 1}}, {.row_padding = 8});
  add("dst rows 3 elements apart", {.shape = {3 * v, 9, 1, 1}}, {.row_padding = 3});
  add("src rows padded", {.shape = {row, 7, 1, 1}, .src_row_padding = unit});
  add("src and dst rows padded", {.shape = {row, 7, 1, 1}, .src_row_padding = 16}, {.row_padding = 8});
  add("four dimensions, padded", {.shape = {2 * v, 5, 3, 2}, .src_row_padding = unit},
      {.row_padding = 8, .slice_padding = 24});
  add("four dimensions, contiguous", {.shape = {2 * v, 5, 3, 2}});
  for (const std::int64_t blocks : {1, 2, 3, 5, 33}) add("one row", {.shape = {blocks * v, 1, 1, 1}});
  add("range of rows", {.shape = {row, 9, 2, 2}}, {}, {2, 5, 1, 1});
  add("range of rows, padded", {.shape = {row, 9, 2, 2}}, {.row_padding = 8}, {3, 6, 0, 1});
  add("no rows", {.shape = {row, 0, 1, 1}});
  if (!reduced && v <= 32) add("70000 rows", {.shape = {v, 70000, 1, 1}}, {.row_padding = 8});
}

void flat_cases(const FormatInfo& f, bool reduced, std::vector<Case>& out) {
  for (const std::int64_t group : {0, 256, 4}) {
    if (group != 0 && f.id == NIBBLE_BLOCKWISE8) continue;
    const auto add = [&](const std::string& name, Spec s, Target t = {}, Range r = {}) {
      s.format = f.id;
      s.nested_group = group;
      out.push_back({name + (group != 0 ? " nested by " + std::to_string(group) : ""), s, t, r});
    };
    for (const std::int64_t n : {1, 2, 7, 9, 63, 64, 65, 8191, 8192, 8193, 16320, 16384, 16448, 16447, 32705}) {
      add(std::to_string(n) + " values", {.shape = {n, 1, 1, 1}});
    }
    for (std::int64_t size = 32; size <= 4096; size *= 2) {
      add("blocks of " + std::to_string(size),
          {.shape = {reduced ? 4096 + 17 : 300 * 4096 / 8 + 17, 1, 1, 1}, .block_size = size, .nested_offset = -1e4f});
    }
    add("dst off by one", {.shape = {4097, 9, 1, 1}, .nested_offset = 1e-6f}, {.offset = 1});
    add("src off by one", {.shape = {4096, 9, 1, 1}, .src_offset = 1});
    add("src off by two", {.shape = {4096, 9, 1, 1}, .src_offset = 2});
    add("odd rows", {.shape = {33, 65, 1, 1}});
    add("odd rows, padded", {.shape = {33, 65, 1, 1}}, {.row_padding = 8});
    add("rows padded by 16 bytes and more", {.shape = {72, 65, 1, 1}}, {.row_padding = 8});
    add("rows padded by 3 elements", {.shape = {72, 65, 1, 1}}, {.row_padding = 3});
    add("range of odd rows", {.shape = {33, 65, 2, 2}}, {}, {3, 20, 1, 1});
    add("range of even rows", {.shape = {96, 65, 2, 2}}, {.row_padding = 32}, {3, 20, 1, 1});
    add("four dimensions", {.shape = {40, 5, 3, 2}}, {.row_padding = 8, .slice_padding = 16});
    add("no values", {.shape = {0, 3, 1, 1}});
    if (!reduced) add("70000 rows", {.shape = {9, 70000, 1, 1}}, {.row_padding = 7});
  }
}

}  // namespace

bool check_values(bool reduced) {
  cudaStream_t stream = nullptr;
  require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "creating a stream");
  Checker checker(stream);
  int weights = 0;
  for (const FormatInfo& f : formats()) {
    std::vector<Case> cases;
    if (f.kind == FormatInfo::Kind::flat) flat_cases(f, reduced, cases);
    if (f.kind == FormatInfo::Kind::block || f.kind == FormatInfo::Kind::element) block_cases(f, reduced, cases);
    for (const Case& c : cases) checker.run(c);
    weights += cases.empty() ? 0 : 1;
  }
  require(cudaStreamDestroy(stream), "destroying a stream");
  std::printf("values: %d formats, %d cases, %d failed\n", weights, checker.cases(), checker.failures());
  return checker.failures() == 0 && weights == 31 && checker.cases() > 1000;
}

}  // namespace nibble::decode_check
