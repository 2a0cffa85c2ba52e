// The checks of validate.h.
// Apart from the header so that messages and overflow arithmetic are compiled once.
#include "core/ops/validate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>

namespace nibble {
namespace {

template <class... Args>
Status invalid(fmt::format_string<Args...> text, Args&&... args) {
  return {NIBBLE_INVALID_ARGUMENT, fmt::format(text, std::forward<Args>(args)...)};
}

std::string shape_text(const Tensor& t) { return fmt::format("[{}]", fmt::join(t.shape, ", ")); }

/// Bytes from the first to past the last element, or -1 where that overflows.
std::int64_t extent_bytes(const Tensor& t, const FormatInfo& info) {
  std::int64_t total = info.block_bytes;
  for (int d = 0; d < 4; ++d) {
    const std::int64_t steps = d == 0 ? t.shape[0] / info.block_values : t.shape[d];
    std::int64_t reach = 0;
    if (steps > 1 &&
        (__builtin_mul_overflow(steps - 1, t.byte_stride[d], &reach) || __builtin_add_overflow(total, reach, &total))) {
      return -1;
    }
  }
  return total;
}

Status check_statistics(Named t, Format format, std::int64_t count, std::string_view why) {
  if (!present(*t.tensor))
    return invalid("{} is missing: expected {} of {} values ({})", t.name, format_name(format), count, why);
  if (Status s = check_shape(t); !s) return s;
  if (t.tensor->format != format) {
    return invalid("{} is {}: expected {}", t.name, format_name(t.tensor->format), format_name(format));
  }
  if (element_count(*t.tensor) != count) {
    return invalid("{} has {} values: expected {} ({})", t.name, element_count(*t.tensor), count, why);
  }
  // Kernels read them as one array.
  std::int64_t packed = find_format(format)->block_bytes;
  for (int d = 0; d < 4; ++d) {
    if (t.tensor->shape[d] > 1 && t.tensor->byte_stride[d] != packed) {
      return invalid("{} has byte stride {} in dimension {}: expected {}, its values side by side", t.name,
                     t.tensor->byte_stride[d], d, packed);
    }
    packed *= t.tensor->shape[d];
  }
  return {};
}

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

Status check_flat_weight(const Weight& w, const FormatInfo& info) {
  constexpr std::int64_t kLeast = 32, kMost = 4096;
  if (w.block_size < kLeast || w.block_size > kMost || !std::has_single_bit(static_cast<std::uint64_t>(w.block_size))) {
    return invalid("{} block size {}: expected a power of two from {} to {}", info.name, w.block_size, kLeast, kMost);
  }
  const std::int64_t blocks = ceil_div(element_count(w.packed), w.block_size);
  if (w.packed.format == NIBBLE_BLOCKWISE8) {
    if (Status s = check_statistics({"code", &w.code}, NIBBLE_F32, 256, "one a byte value"); !s) return s;
  } else if (Status s = check_absent({"code", &w.code}, "the format's own codes serve"); !s) {
    return s;
  }
  if (!nested(w)) return check_statistics({"absmax", &w.absmax}, NIBBLE_F32, blocks, "one a block");
  const std::int64_t size = w.nested_block_size;
  if (size < 1 || !std::has_single_bit(static_cast<std::uint64_t>(size))) {
    return invalid("nested block size {}: expected a power of two", size);
  }
  if (Status s = check_statistics({"absmax", &w.absmax}, NIBBLE_U8, blocks, "one a block, nested"); !s) return s;
  if (Status s = check_statistics({"nested_code", &w.nested_code}, NIBBLE_F32, 256, "one a scale byte"); !s) return s;
  return check_statistics({"nested_absmax", &w.nested_absmax}, NIBBLE_F32, ceil_div(blocks, size),
                          "one a nested block");
}

bool is_result_type(Format f) { return f == NIBBLE_F32 || f == NIBBLE_F16 || f == NIBBLE_BF16; }

Status check_element_type(Named t) {
  if (is_result_type(t.tensor->format)) return {};
  return invalid("{} is {}: expected f32, f16 or bf16", t.name, format_name(t.tensor->format));
}

}  // namespace

Status check_shape(Named named) {
  const Tensor& t = *named.tensor;
  if (t.rank < 1 || t.rank > 4) return invalid("{} has rank {}: expected 1 to 4", named.name, t.rank);
  const FormatInfo* info = find_format(t.format);
  if (info == nullptr) return invalid("{} has unknown {}", named.name, format_name(t.format));
  if (auto bytes = storage_bytes(t.format, t.shape); !bytes)
    return invalid("{}: {}", named.name, bytes.status().message());
  for (std::uint32_t d = 0; d < 4; ++d) {
    if (d >= t.rank && t.shape[d] != 1) {
      return invalid("{} has rank {} and shape {}: expected 1 beyond the rank", named.name, t.rank, shape_text(t));
    }
    if (t.byte_stride[d] < 0) return invalid("{} has byte stride {}: expected >= 0", named.name, t.byte_stride[d]);
  }
  if (info->kind != FormatInfo::Kind::flat && extent_bytes(t, *info) < 0) {
    return invalid("{} has shape {} and strides [{}]: its bytes do not fit 63 bits", named.name, shape_text(t),
                   fmt::join(t.byte_stride, ", "));
  }
  return {};
}

Status check_weight(const Weight& w) {
  const Tensor& t = w.packed;
  if (Status s = check_shape({"weight", &t}); !s) return s;
  const FormatInfo& info = *find_format(t.format);
  if (info.kind == FormatInfo::Kind::not_a_weight) {
    return {NIBBLE_UNSUPPORTED,
            fmt::format("weight is {}: expected a weight format; integers and f64 are not dequantized", info.name)};
  }
  if (info.kind == FormatInfo::Kind::flat) return check_flat_weight(w, info);
  if (t.byte_stride[0] != info.block_bytes) {
    return invalid("{} weight has byte stride {} between blocks: expected {}", info.name, t.byte_stride[0],
                   info.block_bytes);
  }
  for (const Named& part : {Named{"absmax", &w.absmax}, Named{"nested_absmax", &w.nested_absmax},
                            Named{"nested_code", &w.nested_code}, Named{"code", &w.code}}) {
    if (Status s = check_absent(part, "the weight's scales are in its blocks"); !s) return s;
  }
  return {};
}

Status check_absent(Named t, std::string_view why) {
  if (!present(*t.tensor)) return {};
  return invalid("{} is there: expected none, {}", t.name, why);
}

Status check_output(Named named) {
  const Tensor& t = *named.tensor;
  if (Status s = check_shape(named); !s) return s;
  if (Status s = check_element_type(named); !s) return s;
  const std::int64_t size = find_format(t.format)->block_bytes;
  if (t.byte_stride[0] != size) {
    return invalid("{} has byte stride {} in dimension 0: expected {}, neighbours", named.name, t.byte_stride[0], size);
  }
  if (element_count(t) == 0) return {};  // nothing lies anywhere, and contiguous strides may be 0
  // Sorted by stride, each dimension must step past all that the smaller ones cover.
  std::array<int, 4> order = {0, 1, 2, 3};
  std::sort(order.begin() + 1, order.end(), [&](int a, int b) { return t.byte_stride[a] < t.byte_stride[b]; });
  std::int64_t covered = size;
  for (const int d : order) {
    if (t.shape[d] <= 1) continue;
    if (t.byte_stride[d] < covered) {
      return invalid(
          "{} has byte stride {} in dimension {}: expected at least {}, so that no two elements share a place",
          named.name, t.byte_stride[d], d, covered);
    }
    if (t.byte_stride[d] % size != 0) {
      return invalid("{} has byte stride {} in dimension {}: expected a multiple of {}", named.name, t.byte_stride[d],
                     d, size);
    }
    covered = (t.shape[d] - 1) * t.byte_stride[d] + covered;
  }
  return {};
}

Status check_activation(Named named) {
  const Tensor& t = *named.tensor;
  if (Status s = check_shape(named); !s) return s;
  if (Status s = check_element_type(named); !s) return s;
  const std::int64_t size = find_format(t.format)->block_bytes;
  for (int d = 0; d < 4; ++d) {
    if (t.byte_stride[d] % size != 0) {
      return invalid("{} has byte stride {} in dimension {}: expected a multiple of {}", named.name, t.byte_stride[d],
                     d, size);
    }
  }
  return {};
}

Status check_dimensions(Named t, const std::int64_t (&expected)[4], std::string_view meaning) {
  if (std::equal(std::begin(expected), std::end(expected), t.tensor->shape)) return {};
  return invalid("{} has shape {}: expected [{}], {}", t.name, shape_text(*t.tensor), fmt::join(expected, ", "),
                 meaning);
}

Status check_no_flags(std::string_view op, std::uint32_t flags) {
  if (flags == 0) return {};
  return invalid("{} was given flags {}: expected none, out_prod alone can accumulate", op, flags);
}

Status check_one_device(std::initializer_list<Named> tensors) {
  const Named& first = *tensors.begin();
  for (const Named& t : tensors) {
    if (!present(*t.tensor) || device_of(*t.tensor) == device_of(*first.tensor)) continue;
    return invalid("{} is on {} and {} on {}: expected one device", first.name, device_name(device_of(*first.tensor)),
                   t.name, device_name(device_of(*t.tensor)));
  }
  return {};
}

Status check_data(std::initializer_list<Named> tensors) {
  for (const Named& t : tensors) {
    if (!present(*t.tensor) || element_count(*t.tensor) == 0) continue;
    if (t.tensor->data == nullptr) return invalid("{} has no data: expected a pointer", t.name);
    const FormatInfo* info = find_format(t.tensor->format);  // known: a tensor that validation passed
    if (info->block_values != 1) continue;
    if (reinterpret_cast<std::uintptr_t>(bytes_of(*t.tensor)) % info->block_bytes != 0) {
      return invalid("{} lies at an address that is not a multiple of {}, the size of {}", t.name, info->block_bytes,
                     info->name);
    }
  }
  return {};
}

}  // namespace nibble
