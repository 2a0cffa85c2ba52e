// Cutting weights and moving them.
// Apart from pieces.h so that the subcommands see what a piece is and not how it is cut.
#include "tools/pieces.h"

#include "tools/common.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace nibble::cli {
namespace {

constexpr std::uint64_t kAlignment = 64;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

/// Room for a line from a back end.
struct Line {
  char data[256] = "";
  nibble_text text{.struct_size = sizeof text, .reserved = 0, .capacity = sizeof data, .data = data};
};

/// Values that must stay together: a block, or as many blocks as share a nested scale.
std::int64_t indivisible_values(const Weight& w) {
  const FormatInfo& info = *find_format(w.packed.format);
  if (info.kind != FormatInfo::Kind::flat) return info.block_values;
  std::int64_t values = 0;
  const bool overflows = __builtin_mul_overflow(w.block_size, std::max<std::int64_t>(w.nested_block_size, 1), &values);
  return overflows ? INT64_MAX : values;
}

/// `count` values from `first` on, of a contiguous tensor.
Tensor slice_tensor(const Tensor& t, std::int64_t first, std::int64_t count) {
  const FormatInfo& info = *find_format(t.format);
  Tensor out = make_tensor(t.data, t.format, {count}, device_of(t));
  out.byte_offset = t.byte_offset + static_cast<std::uint64_t>(first / info.block_values) * info.block_bytes;
  return out;
}

std::uint64_t bytes_in(const Tensor& t) { return require(storage_bytes(t.format, std::span(t.shape, t.rank))); }

}  // namespace

std::vector<Piece> pieces_of(const Weight& weight, std::int64_t most) {
  const std::int64_t values = element_count(weight.packed);
  const std::int64_t unit = indivisible_values(weight);
  const std::int64_t step = most < unit ? unit : most / unit * unit;
  std::vector<Piece> pieces;
  for (std::int64_t first = 0; first < values;) {
    pieces.push_back({first, std::min(step, values - first)});
    first += pieces.back().count;
  }
  return pieces;
}

Weight slice(const Weight& weight, Piece piece) {
  if (piece.count == element_count(weight.packed)) return weight;
  Weight out = weight;
  out.packed = slice_tensor(weight.packed, piece.first, piece.count);
  if (!present(weight.absmax)) return out;
  const std::int64_t block = piece.first / weight.block_size, blocks = ceil_div(piece.count, weight.block_size);
  out.absmax = slice_tensor(weight.absmax, block, blocks);
  if (!nested(weight)) return out;
  const std::int64_t size = weight.nested_block_size;
  out.nested_absmax = slice_tensor(weight.nested_absmax, block / size, ceil_div(blocks, size));
  return out;
}

Buffer::Buffer(const Registry& registry, Device device, std::uint64_t bytes)
    : memory_(require(registry.memory(device), kUnserved)), device_(device) {
  const std::uint64_t rounded = (std::max<std::uint64_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
  Line line;
  if (memory_ != nullptr) {
    check(memory_->allocate(device_.index, rounded, nullptr, &data_, &line.text), line.data, "allocation");
  } else {
    data_ = std::aligned_alloc(kAlignment, rounded);
  }
  if (data_ == nullptr)
    fail(kUnserved, "{} of memory on {}: expected that much to be free", size_text(rounded), device_name(device));
}

Buffer::Buffer(Buffer&& other) noexcept
    : memory_(other.memory_), device_(other.device_), data_(std::exchange(other.data_, nullptr)) {}

Buffer::~Buffer() {
  if (data_ == nullptr) return;
  Line line;
  if (memory_ == nullptr) {
    std::free(data_);
  } else {
    try {
      memory_->release(device_.index, data_, nullptr, &line.text);
    } catch (...) {  // which a plugin must not do; what was computed is good all the same
    }
  }
}

void Buffer::upload(std::span<const std::uint8_t> bytes) {
  Line line;
  if (memory_ == nullptr) {
    std::memcpy(data_, bytes.data(), bytes.size());
  } else {
    check(memory_->to_device(device_.index, data_, bytes.data(), bytes.size(), nullptr, &line.text), line.data,
          "copy to the device");
  }
}

std::span<const std::uint8_t> Buffer::read(std::uint64_t bytes, std::vector<std::uint8_t>& scratch) const {
  if (memory_ == nullptr) return {static_cast<const std::uint8_t*>(data_), bytes};
  scratch.resize(bytes);
  Line line;
  check(memory_->to_host(device_.index, scratch.data(), data_, bytes, nullptr, &line.text), line.data,
        "copy from the device");
  return scratch;
}

void Buffer::check(nibble_status status, const char* line, const char* what) const {
  if (status != NIBBLE_OK) fail(kUnserved, "{} on {}: {}: {}", what, device_name(device_), status_name(status), line);
}

PlacedWeight::PlacedWeight(const Registry& registry, const Weight& host, Device device) : weight_(host) {
  if (device == device_of(host.packed)) return;
  for (Tensor* t : {&weight_.packed, &weight_.code, &weight_.absmax, &weight_.nested_absmax, &weight_.nested_code}) {
    if (!present(*t)) continue;
    const std::uint64_t bytes = bytes_in(*t);
    Buffer& copy = copies_.emplace_back(registry, device, bytes);
    copy.upload({bytes_of(*t), bytes});
    t->data = copy.data();
    t->byte_offset = 0;
    t->device_type = device.type;
    t->device_index = device.index;
  }
}

}  // namespace nibble::cli
