// Making the weights.
// Apart from the header so that the runtime's own header stays out of it.
#include "tests/gpu/decode_fixture.h"

#include "core/formats/formats.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

namespace nibble::decode_check {
namespace {

constexpr Device kDevice{NIBBLE_DEVICE_CUDA, 0};

void fill(std::vector<std::uint8_t>& bytes, std::mt19937& rng) {
  for (std::size_t i = 0; i < bytes.size(); i += 4) {
    const std::uint32_t word = static_cast<std::uint32_t>(rng());
    std::memcpy(bytes.data() + i, &word, std::min<std::size_t>(4, bytes.size() - i));
  }
}

void fill(std::vector<float>& values, std::mt19937& rng) {
  std::normal_distribution<float> normal;
  for (float& x : values) x = normal(rng);
  if (values.size() > 8) values[3] = 1e-42f, values[5] = 3e38f, values[7] = -0.0f;
}

}  // namespace

void require(int cuda_error, const char* what) {
  if (cuda_error == 0) return;
  std::printf("FAILED %s: %s\n", what, cudaGetErrorString(static_cast<cudaError_t>(cuda_error)));
  std::exit(1);
}

void require_ok(nibble_status status, const char* why, const char* what) {
  if (status == NIBBLE_OK) return;
  std::printf("FAILED %s: status %d, %s\n", what, status, why);
  std::exit(1);
}

DeviceMemory::DeviceMemory(std::uint64_t bytes) {
  require(cudaMalloc(&data_, std::max<std::uint64_t>(bytes, 1)), "allocating");
}
DeviceMemory::DeviceMemory(const void* host, std::uint64_t bytes) : DeviceMemory(bytes) {
  require(cudaMemcpy(data_, host, bytes, cudaMemcpyHostToDevice), "copying");
}
DeviceMemory::~DeviceMemory() {
  if (data_ != nullptr) cudaFree(data_);
}

TestWeight::TestWeight(const Spec& spec, unsigned seed) {
  std::mt19937 rng(seed);
  const FormatInfo& info = *find_format(spec.format);
  host.packed = make_tensor(nullptr, spec.format, spec.shape);
  Tensor& t = host.packed;
  const std::int64_t n = element_count(t);
  std::int64_t bytes = (n + info.block_values - 1) / info.block_values * info.block_bytes;
  if (info.kind != FormatInfo::Kind::flat) {
    t.byte_stride[1] += spec.src_row_padding;
    t.byte_stride[2] = t.byte_stride[1] * t.shape[1];
    t.byte_stride[3] = t.byte_stride[2] * t.shape[2];
    bytes = t.byte_stride[3] * t.shape[3] - spec.src_row_padding;
  }
  packed.resize(static_cast<std::size_t>(bytes + spec.src_offset));
  fill(packed, rng);
  t.data = packed.data();
  t.byte_offset = static_cast<std::uint64_t>(spec.src_offset);
  device = host;
  const auto put = [&](Tensor& on_host, Tensor& on_device, void* data, std::uint64_t size, Tensor shape) {
    on_host = on_device = shape;
    on_host.data = data;
    memory.emplace_back(data, size);
    on_device.data = memory.back().data();
    on_device.device_type = kDevice.type;
    on_device.device_index = kDevice.index;
  };
  put(host.packed, device.packed, packed.data(), packed.size(), host.packed);
  if (info.kind != FormatInfo::Kind::flat) return;

  const std::int64_t blocks = (n + spec.block_size - 1) / spec.block_size;
  host.block_size = device.block_size = spec.block_size;
  if (spec.format == NIBBLE_BLOCKWISE8 || spec.nested_group != 0) {
    code.resize(256);
    fill(code, rng);
  }
  if (spec.format == NIBBLE_BLOCKWISE8) {
    put(host.code, device.code, code.data(), 1024, make_tensor(nullptr, NIBBLE_F32, {256}));
  }
  if (spec.nested_group == 0) {
    absmax.resize(static_cast<std::size_t>(blocks));
    fill(absmax, rng);
    put(host.absmax, device.absmax, absmax.data(), absmax.size() * 4, make_tensor(nullptr, NIBBLE_F32, {blocks}));
    return;
  }
  const std::int64_t count = (blocks + spec.nested_group - 1) / spec.nested_group;
  host.nested_block_size = device.nested_block_size = spec.nested_group;
  host.nested_offset = device.nested_offset = spec.nested_offset;
  codes.resize(static_cast<std::size_t>(blocks));
  fill(codes, rng);
  groups.resize(static_cast<std::size_t>(count));
  fill(groups, rng);
  put(host.absmax, device.absmax, codes.data(), codes.size(), make_tensor(nullptr, NIBBLE_U8, {blocks}));
  put(host.nested_code, device.nested_code, code.data(), 1024, make_tensor(nullptr, NIBBLE_F32, {256}));
  put(host.nested_absmax, device.nested_absmax, groups.data(), groups.size() * 4,
      make_tensor(nullptr, NIBBLE_F32, {count}));
}

std::uint64_t stored_bytes(const Weight& w) {
  const FormatInfo& info = *find_format(w.packed.format);
  std::int64_t bytes = (element_count(w.packed) + info.block_values - 1) / info.block_values * info.block_bytes;
  if (present(w.absmax)) bytes += element_count(w.absmax) * (nested(w) ? 1 : 4);
  if (nested(w)) bytes += element_count(w.nested_absmax) * 4;
  return static_cast<std::uint64_t>(bytes);
}

}  // namespace nibble::decode_check
