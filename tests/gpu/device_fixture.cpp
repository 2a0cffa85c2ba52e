// The runtime calls behind the fixture.
// Apart from the header so that tests compile them once.
#include "tests/gpu/device_fixture.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <stdexcept>
#include <utility>

namespace nibble::device_test {

void must(int cuda_error, const char* what) {
  if (cuda_error != cudaSuccess)
    throw std::runtime_error(fmt::format("{}: {}", what, cudaGetErrorString(static_cast<cudaError_t>(cuda_error))));
}

const Registry& registry() { return Registry::default_registry().value(); }

Buffer::Buffer(std::size_t bytes) : bytes_(bytes) {
  void* data = nullptr;
  must(cudaMalloc(&data, bytes), "cudaMalloc");
  data_ = static_cast<std::uint8_t*>(data);
  poison();
}
Buffer::Buffer(std::span<const std::uint8_t> bytes) : Buffer(bytes.size()) { upload(bytes); }
Buffer::Buffer(Buffer&& other) noexcept : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}
Buffer::~Buffer() { cudaFree(data_); }

void Buffer::poison() const {
  must(cudaMemset(data_, 0xff, bytes_), "cudaMemset");
  must(cudaDeviceSynchronize(), "cudaMemset");
}
void Buffer::upload(std::span<const std::uint8_t> bytes) const {
  must(cudaMemcpy(data_, bytes.data(), bytes.size(), cudaMemcpyHostToDevice), "copy to the device");
}
std::vector<std::uint8_t> Buffer::download(std::size_t offset, std::size_t bytes) const {
  std::vector<std::uint8_t> out(bytes);
  must(cudaMemcpy(out.data(), data_ + offset, bytes, cudaMemcpyDeviceToHost), "copy to the host");
  return out;
}

Stream::Stream() {
  cudaStream_t stream = nullptr;
  must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  stream_ = stream;
}
Stream::~Stream() { cudaStreamDestroy(static_cast<cudaStream_t>(stream_)); }
void Stream::wait() const { must(cudaStreamSynchronize(static_cast<cudaStream_t>(stream_)), "the stream"); }

PlacedWeight::PlacedWeight(test::WeightKind kind, const test::WeightLayout& layout, const char* name) {
  test::Random random(name);
  host = test::make_host_weight(kind, layout, test::Contents::moderate, random);
  weight = host.weight;
  const std::pair<Tensor*, const std::vector<std::uint8_t>*> parts[] = {{&weight.packed, &host.packed},
                                                                        {&weight.code, &host.code},
                                                                        {&weight.absmax, &host.absmax},
                                                                        {&weight.nested_absmax, &host.nested_absmax},
                                                                        {&weight.nested_code, &host.nested_code}};
  for (const auto& [tensor, bytes] : parts) {
    if (!present(*tensor)) continue;
    memory.emplace_back(*bytes);
    *tensor = on_device(*tensor, memory.back().data());
  }
}

Tensor on_device(Tensor t, void* data) {
  t.data = data;
  t.device_type = NIBBLE_DEVICE_CUDA;
  t.device_index = 0;
  return t;
}

std::vector<float> numbers(std::size_t count, const char* name) {
  test::Random random(name);
  std::vector<float> values(count);
  for (float& v : values) v = random.normal();
  return values;
}

std::span<const std::uint8_t> bytes_of(std::span<const float> values) {
  return {reinterpret_cast<const std::uint8_t*>(values.data()), values.size_bytes()};
}

}  // namespace nibble::device_test
