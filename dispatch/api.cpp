// The operations as functions, and the memory that their allocating forms return.
// Apart from the registry: these only write a request down and hand it over.
#include <nibble/nibble.hpp>

#include "core/ops/validate.h"
#include "dispatch/allocation.h"

#include <fmt/format.h>

#include <algorithm>

namespace nibble {
namespace {

constexpr std::uint64_t kAlignment = 64;  // as OwnedTensor promises

Result<Registry> registry_of(const Options& options) {
  if (options.registry != nullptr) return *options.registry;
  return Registry::default_registry();
}

nibble_request request_of(nibble_op op, const Weight& weight, const Tensor& dst, const Options& options) {
  nibble_request r = make_request(op);
  r.weight = weight;
  r.dst = dst;
  r.math = options.math;
  r.threads = options.threads;
  if (options.accumulate) r.flags = NIBBLE_FLAG_ACCUMULATE;
  return r;
}

Status run(const nibble_request& request, const Options& options) {
  if (options.registry != nullptr) return options.registry->run(request, options.workspace, options.stream);
  const Result<Registry>& registry = Registry::default_registry();
  return registry ? registry->run(request, options.workspace, options.stream) : registry.status();
}

/// Allocates `shape` of type `to` where the weight is, then runs `fill` into it. The weight is checked before, since
/// shape and place come from it.
template <class Fill>
Result<OwnedTensor> into_new(const Weight& weight, Format to, std::span<const std::int64_t> shape,
                             const Options& options, Fill&& fill) {
  if (Status s = check_weight(weight); !s) return s;
  auto registry = registry_of(options);
  if (!registry) return registry.status();
  auto out = OwnedTensor::allocate(*registry, to, shape, device_of(weight.packed), options.stream);
  if (!out) return out.status();
  if (Status s = fill(out->view()); !s) return s;
  return out;
}

}  // namespace

Result<OwnedTensor> OwnedTensor::allocate(const Registry& registry, Format type, std::span<const std::int64_t> shape,
                                          Device device, void* stream) {
  if (type != NIBBLE_F32 && type != NIBBLE_F16 && type != NIBBLE_BF16) {
    return Status{NIBBLE_INVALID_ARGUMENT, fmt::format("result type {}: expected f32, f16 or bf16", format_name(type))};
  }
  if (shape.empty() || shape.size() > 4)
    return Status{NIBBLE_INVALID_ARGUMENT, fmt::format("result of rank {}: expected 1 to 4", shape.size())};
  auto bytes = storage_bytes(type, shape);
  if (!bytes) return bytes.status();
  auto memory = registry.memory(device);
  if (!memory) return memory.status();
  OwnedTensor t;
  t.memory_ = *memory;
  t.stream_ = stream;
  t.owner_ = std::make_shared<const Registry>(registry);
  Allocation allocation;
  TextBuffer text;
  const std::uint64_t rounded = (std::max<std::uint64_t>(*bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
  const nibble_status status = nibble::allocate(*memory, device.index, rounded, kAlignment, stream, allocation, text);
  if (status != NIBBLE_OK) {
    const std::string_view otherwise = status == NIBBLE_OUT_OF_MEMORY ? "out of memory" : "no reason given";
    return Status{status, fmt::format("{} bytes on {}: {}", rounded, device_name(device), text.line(otherwise))};
  }
  t.data_ = allocation.base;
  t.view_ = make_tensor(allocation.data, type, shape, device);
  return t;
}

OwnedTensor::OwnedTensor(OwnedTensor&& other) noexcept { *this = std::move(other); }

OwnedTensor& OwnedTensor::operator=(OwnedTensor&& other) noexcept {
  std::swap(view_, other.view_);
  std::swap(memory_, other.memory_);
  std::swap(data_, other.data_);
  std::swap(stream_, other.stream_);
  std::swap(owner_, other.owner_);
  return *this;
}

OwnedTensor::~OwnedTensor() { release(memory_, view_.device_index, data_, stream_); }

Status dequantize(const Weight& weight, const Tensor& dst, const Options& options) {
  return run(request_of(NIBBLE_OP_DEQUANTIZE, weight, dst, options), options);
}

Result<OwnedTensor> dequantize(const Weight& weight, Format to, const Options& options) {
  const Tensor& packed = weight.packed;
  const std::span<const std::int64_t> shape(packed.shape, std::min<std::size_t>(packed.rank, 4));
  auto out = into_new(weight, to, shape, options, [&](const Tensor& dst) { return dequantize(weight, dst, options); });
  if (!out || !options.packed_transposed) return out;
  std::swap(out->view_.shape[0], out->view_.shape[1]);
  std::swap(out->view_.byte_stride[0], out->view_.byte_stride[1]);
  out->view_.rank = std::max(out->view_.rank, 2u);
  return out;
}

Status out_prod(const Weight& weight, const Tensor& src1, const Tensor& dst, const Options& options) {
  nibble_request r = request_of(NIBBLE_OP_OUT_PROD, weight, dst, options);
  r.src1 = src1;
  return run(r, options);
}

Result<OwnedTensor> out_prod(const Weight& weight, const Tensor& src1, Format to, const Options& options) {
  if (options.accumulate)
    return Status{NIBBLE_INVALID_ARGUMENT, "out_prod into new memory cannot accumulate: expected accumulate = false"};
  if (Status s = check_activation({"src1", &src1}); !s) return s;
  const std::int64_t shape[4] = {weight.packed.shape[0], src1.shape[0], src1.shape[2], src1.shape[3]};
  return into_new(weight, to, shape, options, [&](const Tensor& dst) { return out_prod(weight, src1, dst, options); });
}

Status linear(const Weight& weight, const Tensor& src1, const Tensor& bias, const Tensor& dst, const Options& options) {
  nibble_request r = request_of(NIBBLE_OP_LINEAR, weight, dst, options);
  r.src1 = src1;
  r.bias = bias;
  return run(r, options);
}

Result<OwnedTensor> linear(const Weight& weight, const Tensor& src1, const Tensor& bias, Format to,
                           const Options& options) {
  if (Status s = check_activation({"src1", &src1}); !s) return s;
  const std::int64_t shape[2] = {weight.packed.shape[1], src1.shape[1]};
  return into_new(weight, to, shape, options,
                  [&](const Tensor& dst) { return linear(weight, src1, bias, dst, options); });
}

std::string_view version() { return NIBBLE_VERSION; }

}  // namespace nibble
