// safetensors: header length, layout of the data, and the step to weights.
// Apart from its header so that the checks stay private.
//
//   header length u64 | JSON header, padded with spaces | data; offsets count from the start of the data
#include "io/safetensors.h"

#include "io/bitsandbytes.h"
#include "io/byte_reader.h"
#include "io/dtype.h"
#include "io/safetensors_header.h"
#include "io/sizes.h"
#include "io/text.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace nibble::io {
namespace {

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kMostHeaderBytes = 100'000'000;  // the format's own bound

Result<std::string_view> header_text(std::span<const std::uint8_t> bytes) {
  ByteReader reader(bytes);
  std::uint64_t length = 0;
  if (!reader.read(length)) return bad_file("{} bytes are too short for safetensors' header length", bytes.size());
  if (length > reader.remaining()) {
    return bad_file("the header length is {}, beyond the {} bytes left in the file", length, reader.remaining());
  }
  if (length > kMostHeaderBytes) {
    return bad_file("the header length is {}; expected at most {}", length, kMostHeaderBytes);
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data() + kLengthBytes),
                              static_cast<std::size_t>(length));
  if (!text.starts_with('{')) return bad_file("the header of {} bytes does not begin with '{{'", length);
  return text;
}

/// Offsets against the data, and the span against the shape.
Status check_entry(const HeaderEntry& entry, std::uint64_t data_bytes) {
  const std::uint64_t begin = entry.offsets[0];
  const std::uint64_t end = entry.offsets[1];
  if (begin > end) return bad_file("tensor {}: data_offsets [{}, {}] are reversed", quote(entry.name), begin, end);
  if (end > data_bytes) {
    return bad_file("tensor {}: data_offsets [{}, {}] reach beyond the {} bytes of data", quote(entry.name), begin, end,
                    data_bytes);
  }
  // An unknown type has no size to check: the tensor is listed, and refused when it is asked for.
  const Dtype* dtype = find_dtype(entry.dtype);
  const auto elements = element_product(entry.shape);
  const std::uint32_t width = dtype != nullptr ? dtype->bits : 1;
  if (!elements || !checked_product(*stride_product(entry.shape), width)) {
    return bad_file("tensor {} of shape [{}]: the product of its dimensions does not fit 63 bits", quote(entry.name),
                    fmt::join(entry.shape, ", "));
  }
  const std::uint64_t bits = *elements * width;
  if (dtype != nullptr && (bits % 8 != 0 || end - begin != bits / 8)) {
    return bad_file("tensor {}: data_offsets span {} bytes; expected {} for {} of shape [{}]", quote(entry.name),
                    end - begin, ceil_div(bits, 8), entry.dtype, fmt::join(entry.shape, ", "));
  }
  return {};
}

/// The format demands that tensors cover the data without holes or overlaps.
Status check_cover(const std::vector<HeaderEntry>& entries, std::uint64_t data_bytes) {
  std::vector<const HeaderEntry*> order;
  order.reserve(entries.size());
  for (const HeaderEntry& entry : entries) order.push_back(&entry);
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) { return a->offsets < b->offsets; });
  std::uint64_t covered = 0;
  std::string_view before;
  for (const HeaderEntry* entry : order) {
    const std::uint64_t begin = entry->offsets[0];
    if (begin < covered) {
      return bad_file("tensors {} and {} overlap at offset {}", quote(before), quote(entry->name), begin);
    }
    if (begin > covered) {
      return bad_file("bytes {} to {} before tensor {} belong to no tensor; expected none", covered, begin,
                      quote(entry->name));
    }
    covered = entry->offsets[1];
    before = entry->name;
  }
  if (covered == data_bytes) return {};
  return bad_file("{} bytes of data after the last tensor belong to no tensor; expected none", data_bytes - covered);
}

}  // namespace

bool is_safetensors(std::span<const std::uint8_t> bytes) {
  return bytes.size() > kLengthBytes && bytes[kLengthBytes] == '{';
}

Result<std::vector<StoredTensor>> read_safetensors(std::span<const std::uint8_t> bytes) {
  const auto text = header_text(bytes);
  if (!text) return text.status();
  auto entries = parse_safetensors_header(*text);
  if (!entries) return entries.status();
  const auto data = bytes.subspan(kLengthBytes + text->size());
  for (const HeaderEntry& entry : *entries) {
    if (Status status = check_entry(entry, data.size()); !status) return status;
  }
  if (Status status = check_cover(*entries, data.size()); !status) return status;
  std::vector<StoredTensor> stored;
  stored.reserve(entries->size());
  for (HeaderEntry& entry : *entries) {
    const auto span = data.subspan(entry.offsets[0], entry.offsets[1] - entry.offsets[0]);
    stored.push_back({std::move(entry.name), std::move(entry.dtype), std::move(entry.shape), span});
  }
  return stored;
}

Result<ParsedFile> parse_safetensors(std::span<const std::uint8_t> bytes) {
  const auto stored = read_safetensors(bytes);
  if (!stored) return stored.status();
  ParsedFile file;
  file.kind = "safetensors";
  assemble_weights(*stored, file);
  return file;
}

}  // namespace nibble::io
