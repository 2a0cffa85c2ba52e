// The runtime calls behind the fixture.
// Apart from the header so that tests compile them once.
#include "tests/gpu/device_fixture.h"

#include NIBBLE_GPU_NATIVE

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

namespace nibble::device_test {

void must(int error, const char* what) {
  if (error != GPU(Success))
    throw std::runtime_error(fmt::format("{}: {}", what, GPU(GetErrorString)(static_cast<GPU(Error_t)>(error))));
}

const Registry& registry() { return Registry::default_registry().value(); }

Buffer::Buffer(std::size_t bytes) : bytes_(bytes) {
  void* data = nullptr;
  must(GPU(Malloc)(&data, bytes), "Malloc");
  data_ = static_cast<std::uint8_t*>(data);
  poison();
}
Buffer::Buffer(std::span<const std::uint8_t> bytes) : Buffer(bytes.size()) { upload(bytes); }
Buffer::Buffer(Buffer&& other) noexcept : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}
Buffer::~Buffer() { static_cast<void>(GPU(Free)(data_)); }

void Buffer::poison() const {
  must(GPU(Memset)(data_, 0xff, bytes_), "Memset");
  must(GPU(DeviceSynchronize)(), "Memset");
}
void Buffer::upload(std::span<const std::uint8_t> bytes) const {
  must(GPU(Memcpy)(data_, bytes.data(), bytes.size(), GPU(MemcpyHostToDevice)), "copy to the device");
}
std::vector<std::uint8_t> Buffer::download(std::size_t offset, std::size_t bytes) const {
  std::vector<std::uint8_t> out(bytes);
  must(GPU(Memcpy)(out.data(), data_ + offset, bytes, GPU(MemcpyDeviceToHost)), "copy to the host");
  return out;
}

Stream::Stream() {
  GPU(Stream_t) stream = nullptr;
  must(GPU(StreamCreateWithFlags)(&stream, GPU(StreamNonBlocking)), "StreamCreateWithFlags");
  stream_ = stream;
}
Stream::~Stream() { static_cast<void>(GPU(StreamDestroy)(static_cast<GPU(Stream_t)>(stream_))); }
void Stream::wait() const { must(GPU(StreamSynchronize)(static_cast<GPU(Stream_t)>(stream_)), "the stream"); }

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
  t.device_type = kDeviceType;
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
