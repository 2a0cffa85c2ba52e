// Formats by number and name, contiguous views, and their sizes.
// Apart from the formats because these questions are asked of all of them at once.
#include <nibble/tensor.hpp>

#include "core/formats/formats.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <vector>

namespace nibble {
namespace {

constexpr FormatInfo::Kind kind_of(Engine engine) {
  switch (engine) {
    case Engine::element:
      return FormatInfo::Kind::element;
    case Engine::flat4:
    case Engine::flat8:
      return FormatInfo::Kind::flat;
    case Engine::runs:
    case Engine::grid:
    case Engine::base3:
      break;
  }
  return FormatInfo::Kind::block;
}

template <class F>
constexpr FormatInfo info_of() {
  return {F::kId, F::kName, F::kBlockValues, F::kBlockBytes, kind_of(F::kEngine)};
}

constexpr auto kNot = FormatInfo::Kind::not_a_weight;
constexpr FormatInfo kFormats[] = {
#define NIBBLE_INFO(name) info_of<format::name>(),
    NIBBLE_FORMATS(NIBBLE_INFO)
#undef NIBBLE_INFO
        {NIBBLE_U8, "u8", 1, 1, kNot},
    {NIBBLE_I8, "i8", 1, 1, kNot},
    {NIBBLE_I16, "i16", 1, 2, kNot},
    {NIBBLE_I32, "i32", 1, 4, kNot},
    {NIBBLE_I64, "i64", 1, 8, kNot},
    {NIBBLE_F64, "f64", 1, 8, kNot}};

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) == std::tolower(static_cast<unsigned char>(y));
  });
}

}  // namespace

std::string_view status_name(nibble_status code) {
  static constexpr std::array<std::string_view, 10> kNames = {
      "ok",        "invalid argument", "unsupported", "out of memory", "device error",
      "not found", "bad file",         "i/o error",   "bad setting",   "internal error"};
  const auto index = static_cast<std::size_t>(code);
  return code >= 0 && index < kNames.size() ? kNames[index] : "unknown status";
}

std::span<const FormatInfo> formats() { return kFormats; }

const FormatInfo* find_format(Format id) {
  const auto* found = std::find_if(std::begin(kFormats), std::end(kFormats), [&](const auto& f) { return f.id == id; });
  return found == std::end(kFormats) ? nullptr : found;
}

const FormatInfo* find_format(std::string_view name) {
  const auto* found = std::find_if(std::begin(kFormats), std::end(kFormats),
                                   [&](const auto& f) { return equal_ignoring_case(f.name, name); });
  return found == std::end(kFormats) ? nullptr : found;
}

std::string format_name(Format id) {
  const FormatInfo* info = find_format(id);
  return info != nullptr ? std::string(info->name) : fmt::format("format {}", id);
}

std::string device_name(Device device) {
  switch (device.type) {
    case NIBBLE_DEVICE_CPU:
      return "cpu";
    case NIBBLE_DEVICE_CUDA:
      return fmt::format("cuda:{}", device.index);
    case NIBBLE_DEVICE_HIP:
      return fmt::format("hip:{}", device.index);
    default:
      return fmt::format("device type {}:{}", device.type, device.index);
  }
}

Result<std::uint64_t> storage_bytes(Format format, std::span<const std::int64_t> shape) {
  const FormatInfo* info = find_format(format);
  if (info == nullptr) return Status{NIBBLE_UNSUPPORTED, fmt::format("unknown {}", format_name(format))};
  std::int64_t values = 1;
  bool empty = false;
  for (const std::int64_t d : shape) {
    // A dimension of 0 counts as 1 here: strides are products of the others, whatever their order.
    empty |= d == 0;
    if (d < 0 || __builtin_mul_overflow(values, d == 0 ? 1 : d, &values)) {
      return Status{
          NIBBLE_INVALID_ARGUMENT,
          fmt::format("shape [{}]: expected dimensions >= 0 whose product fits 63 bits", fmt::join(shape, ", "))};
    }
  }
  const std::int64_t block = info->block_values;
  const bool flat = info->kind == FormatInfo::Kind::flat;
  if (!flat && !shape.empty() && shape[0] % block != 0) {
    return Status{NIBBLE_INVALID_ARGUMENT,
                  fmt::format("{} row of {} values: expected a multiple of {}", info->name, shape[0], block)};
  }
  const std::int64_t blocks = values / block + (values % block != 0 ? 1 : 0);
  std::int64_t bytes = 0;  // of the tensor with its dimensions of 0 as 1
  if (__builtin_mul_overflow(blocks, static_cast<std::int64_t>(info->block_bytes), &bytes)) {
    return Status{NIBBLE_INVALID_ARGUMENT, fmt::format("{} tensor of shape [{}]: its bytes do not fit 63 bits",
                                                       info->name, fmt::join(shape, ", "))};
  }
  return empty ? 0 : static_cast<std::uint64_t>(bytes);
}

Tensor make_tensor(void* data, Format format, std::span<const std::int64_t> shape, Device device) {
  Tensor t{};
  if (shape.empty() || shape.size() > 4) return t;
  t.data = data;
  t.device_type = device.type;
  t.device_index = device.index;
  t.format = format;
  t.rank = static_cast<std::uint32_t>(shape.size());
  std::fill_n(t.shape, 4, std::int64_t{1});
  std::copy(shape.begin(), shape.end(), t.shape);
  const FormatInfo* info = find_format(format);
  if (info == nullptr || !storage_bytes(format, shape)) {
    std::fill_n(t.byte_stride, 4, std::int64_t{-1});
    return t;
  }
  if (info->kind == FormatInfo::Kind::flat) return t;
  t.byte_stride[0] = info->block_bytes;
  t.byte_stride[1] = t.shape[0] / info->block_values * info->block_bytes;
  t.byte_stride[2] = t.byte_stride[1] * t.shape[1];
  t.byte_stride[3] = t.byte_stride[2] * t.shape[2];
  return t;
}

Tensor make_tensor(void* data, Format format, std::initializer_list<std::int64_t> shape, Device device) {
  return make_tensor(data, format, std::span(shape.begin(), shape.size()), device);
}

}  // namespace nibble
