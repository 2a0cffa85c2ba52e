// GGUF: header, metadata, tensor list, and the checks that tie the list to the file.
// Apart from its header so that the parser's steps stay private.
//
//   "GGUF" | version u32 | tensors u64 | keys u64 | keys: name, type u32, value | tensors: name, rank u32,
//   dimensions u64 innermost first, type u32, offset u64 | padding to general.alignment | data
#include "io/gguf.h"

#include "io/byte_reader.h"
#include "io/sizes.h"
#include "io/text.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>

namespace nibble::io {
namespace {

constexpr char kMagic[] = {'G', 'G', 'U', 'F'};
constexpr char kSwappedMagic[] = {'F', 'U', 'G', 'G'};
constexpr std::uint32_t kDefaultAlignment = 32;
constexpr std::uint32_t kMostAlignment = 1u << 21;  // a huge page: nothing is gained beyond
constexpr std::uint32_t kMostDimensions = 4;
constexpr int kMostArrayDepth = 4;
constexpr std::uint64_t kLeastKeyBytes = 8 + 4 + 1;         // empty name, type, one byte
constexpr std::uint64_t kLeastTensorBytes = 8 + 4 + 4 + 8;  // empty name, rank 0, type, offset

enum ValueType : std::uint32_t { kU32 = 4, kString = 8, kArray = 9 };

struct ValueKind {
  std::string_view name;
  std::uint64_t least_bytes;  // the size of a number; the least that a string or an array takes
};
constexpr std::array<ValueKind, 13> kValueKinds = {{{"u8", 1},
                                                    {"i8", 1},
                                                    {"u16", 2},
                                                    {"i16", 2},
                                                    {"u32", 4},
                                                    {"i32", 4},
                                                    {"f32", 4},
                                                    {"bool", 1},
                                                    {"string", 8},
                                                    {"array", 12},
                                                    {"u64", 8},
                                                    {"i64", 8},
                                                    {"f64", 8}}};

/// Types that files of older or intermediate tools hold. Named, so that a reader learns what the file has.
struct RetiredType {
  std::uint32_t id;
  std::string_view name;
};
constexpr RetiredType kRetiredTypes[] = {{4, "q4_2"},        {5, "q4_3"},       {9, "q8_1"},      {15, "q8_k"},
                                         {31, "q4_0_4_4"},   {32, "q4_0_4_8"},  {33, "q4_0_8_8"}, {36, "iq4_nl_4_4"},
                                         {37, "iq4_nl_4_8"}, {38, "iq4_nl_8_8"}};

/// GGUF's type numbers end where nibble's own formats begin: 256 in a file is unknown, not NF4.
const FormatInfo* find_type(std::uint32_t id) { return id < NIBBLE_NF4 ? find_format(id) : nullptr; }

std::string type_name(std::uint32_t id) {
  if (const FormatInfo* info = find_type(id)) return std::string(info->name);
  for (const RetiredType& retired : kRetiredTypes) {
    if (retired.id == id) return std::string(retired.name);
  }
  return fmt::format("type {}", id);
}

/// Where a tensor claims to lie, counted from the start of the data.
struct Extent {
  std::uint64_t offset;
  std::uint64_t bytes;
  std::size_t tensor;
};

class GgufParser {
 public:
  explicit GgufParser(std::span<const std::uint8_t> bytes) : bytes_(bytes), reader_(bytes) {}

  Result<ParsedFile> parse() {
    for (const auto step : {&GgufParser::read_header, &GgufParser::read_metadata, &GgufParser::read_tensors,
                            &GgufParser::check_extents, &GgufParser::make_views}) {
      if (Status status = (this->*step)(); !status) return status;
    }
    return std::move(file_);
  }

 private:
  Status read_header();
  Status read_metadata();
  Status read_key(std::uint64_t index, std::unordered_set<std::string_view>& seen);
  Status read_alignment(std::uint32_t type);
  Status skip_value(std::uint32_t type, std::string_view key, int depth);
  Status skip_array(std::string_view key, int depth);
  Status read_tensors();
  Status read_tensor(std::uint64_t index, std::unordered_set<std::string_view>& seen);
  Status read_shape(FileTensor& tensor);
  Status read_type(FileTensor& tensor, Extent& extent);
  Status check_extents();
  Status make_views();

  [[nodiscard]] Status truncated(std::string_view what) const {
    return bad_file("{} ends beyond the file: {} bytes are left at byte {} of {}", what, reader_.remaining(),
                    reader_.position(), bytes_.size());
  }

  std::span<const std::uint8_t> bytes_;
  ByteReader reader_;
  std::uint64_t tensor_count_ = 0;
  std::uint64_t key_count_ = 0;
  std::uint32_t alignment_ = kDefaultAlignment;
  std::vector<Extent> extents_;  // one a tensor, in the file's order
  std::vector<const FormatInfo*> types_;
  ParsedFile file_;
};

Status GgufParser::read_header() {
  if (!is_gguf(bytes_)) return bad_file("not a GGUF file: it does not begin with 'GGUF'");
  std::uint32_t version = 0;
  if (!reader_.skip(sizeof kMagic) || !reader_.read(version)) return truncated("the GGUF header");
  const bool swapped = std::memcmp(bytes_.data(), kSwappedMagic, sizeof kSwappedMagic) == 0;
  if (swapped || (version != 0 && (version & 0xFFFFu) == 0)) {
    return bad_file("big-endian GGUF file; expected little-endian");
  }
  if (version != 2 && version != 3) return bad_file("GGUF version {}; expected 2 or 3", version);
  if (!reader_.read(tensor_count_) || !reader_.read(key_count_)) return truncated("the GGUF header");
  if (key_count_ > reader_.remaining() / kLeastKeyBytes) {
    return bad_file("{} metadata keys do not fit in the {} bytes left", key_count_, reader_.remaining());
  }
  if (tensor_count_ > reader_.remaining() / kLeastTensorBytes) {
    return bad_file("{} tensors do not fit in the {} bytes left", tensor_count_, reader_.remaining());
  }
  file_.kind = fmt::format("GGUF v{}", version);
  return {};
}

Status GgufParser::read_metadata() {
  std::unordered_set<std::string_view> seen;
  for (std::uint64_t i = 0; i < key_count_; ++i) {
    if (Status status = read_key(i, seen); !status) return status;
  }
  return {};
}

Status GgufParser::read_key(std::uint64_t index, std::unordered_set<std::string_view>& seen) {
  std::string_view key;
  std::uint32_t type = 0;
  if (!reader_.read_string(key)) return truncated(fmt::format("the name of metadata key {}", index));
  if (!seen.insert(key).second) return bad_file("metadata key {} occurs twice", quote(key));
  if (!reader_.read(type)) return truncated(fmt::format("metadata key {}", quote(key)));
  return key == "general.alignment" ? read_alignment(type) : skip_value(type, key, 0);
}

Status GgufParser::read_alignment(std::uint32_t type) {
  if (type != kU32) {
    const std::string name(type < kValueKinds.size() ? kValueKinds[type].name : "unknown");
    return bad_file("general.alignment has type {} ({}); expected 4 (u32)", type, name);
  }
  if (!reader_.read(alignment_)) return truncated("general.alignment");
  if (!std::has_single_bit(alignment_) || alignment_ % 8 != 0 || alignment_ > kMostAlignment) {
    return bad_file("general.alignment is {}; expected a power of two from 8 to {}", alignment_, kMostAlignment);
  }
  return {};
}

Status GgufParser::skip_value(std::uint32_t type, std::string_view key, int depth) {
  if (type >= kValueKinds.size()) {
    return bad_file("metadata key {} has value type {}; expected 0 to {}", quote(key), type, kValueKinds.size() - 1);
  }
  if (type == kArray) return skip_array(key, depth);
  std::string_view text;
  const bool there = type == kString ? reader_.read_string(text) : reader_.skip(kValueKinds[type].least_bytes);
  return there ? Status{} : truncated(fmt::format("the value of metadata key {}", quote(key)));
}

Status GgufParser::skip_array(std::string_view key, int depth) {
  if (depth == kMostArrayDepth) {
    return bad_file("metadata key {} nests arrays deeper than {}", quote(key), kMostArrayDepth);
  }
  std::uint32_t type = 0;
  std::uint64_t count = 0;
  if (!reader_.read(type) || !reader_.read(count)) {
    return truncated(fmt::format("the array of metadata key {}", quote(key)));
  }
  if (type >= kValueKinds.size()) {
    return bad_file("metadata key {} is an array of value type {}; expected 0 to {}", quote(key), type,
                    kValueKinds.size() - 1);
  }
  const ValueKind& kind = kValueKinds[type];
  if (count > reader_.remaining() / kind.least_bytes) {
    return bad_file("metadata key {}: an array of {} {} values does not fit in the {} bytes left", quote(key), count,
                    kind.name, reader_.remaining());
  }
  if (type != kString && type != kArray) {
    return reader_.skip(count * kind.least_bytes) ? Status{} : truncated(fmt::format("metadata key {}", quote(key)));
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    if (Status status = skip_value(type, key, depth + 1); !status) return status;
  }
  return {};
}

Status GgufParser::read_tensors() {
  std::unordered_set<std::string_view> seen;
  for (std::uint64_t i = 0; i < tensor_count_; ++i) {
    if (Status status = read_tensor(i, seen); !status) return status;
  }
  return {};
}

Status GgufParser::read_tensor(std::uint64_t index, std::unordered_set<std::string_view>& seen) {
  std::string_view name;
  if (!reader_.read_string(name)) return truncated(fmt::format("the name of tensor {} of {}", index, tensor_count_));
  if (!is_utf8(name)) return bad_file("the name of tensor {}, {}, is not UTF-8", index, quote(name));
  if (!seen.insert(name).second) return bad_file("two tensors are named {}", quote(name));
  FileTensor tensor;
  tensor.name = name;
  Extent extent{0, 0, static_cast<std::size_t>(index)};
  if (Status status = read_shape(tensor); !status) return status;
  if (Status status = read_type(tensor, extent); !status) return status;
  if (extent.offset % alignment_ != 0) {
    return bad_file("tensor {} lies at offset {}; expected a multiple of the alignment {}", quote(name), extent.offset,
                    alignment_);
  }
  extents_.push_back(extent);
  file_.tensors.push_back(std::move(tensor));
  return {};
}

Status GgufParser::read_shape(FileTensor& tensor) {
  std::uint32_t rank = 0;
  if (!reader_.read(rank)) return truncated(fmt::format("tensor {}", quote(tensor.name)));
  if (rank > kMostDimensions) {
    return bad_file("tensor {} has {} dimensions; expected at most {}", quote(tensor.name), rank, kMostDimensions);
  }
  for (std::uint32_t i = 0; i < rank; ++i) {
    std::uint64_t dimension = 0;
    if (!reader_.read(dimension)) return truncated(fmt::format("tensor {}", quote(tensor.name)));
    if (dimension > kMostBytes) {
      return bad_file("tensor {} has a dimension of {}; expected less than 2^63", quote(tensor.name), dimension);
    }
    tensor.shape.insert(tensor.shape.begin(), static_cast<std::int64_t>(dimension));
  }
  return {};
}

Status GgufParser::read_type(FileTensor& tensor, Extent& extent) {
  std::uint32_t id = 0;
  if (!reader_.read(id) || !reader_.read(extent.offset)) return truncated(fmt::format("tensor {}", quote(tensor.name)));
  tensor.type = type_name(id);
  const auto elements = element_product(tensor.shape);
  const FormatInfo* info = find_type(id);
  types_.push_back(info);
  // Of an unknown type only this much is known: a tensor with elements takes at least a byte.
  const std::uint64_t block_values = info != nullptr ? info->block_values : 1;
  const std::uint64_t block_bytes = info != nullptr ? info->block_bytes : 1;
  if (!elements || !checked_product(*stride_product(tensor.shape), block_bytes)) {
    return bad_file("tensor {} of shape [{}]: the product of its dimensions does not fit 63 bits of bytes",
                    quote(tensor.name), fmt::join(tensor.shape, ", "));
  }
  const std::int64_t row = tensor.shape.empty() ? 1 : tensor.shape.back();
  if (static_cast<std::uint64_t>(row) % block_values != 0) {
    return bad_file("tensor {} of type {} has rows of {} values; expected a multiple of {}", quote(tensor.name),
                    tensor.type, row, block_values);
  }
  if (info == nullptr) {
    extent.bytes = *elements == 0 ? 0 : 1;
    const std::string number = fmt::format("type {}", id);
    tensor.usable = failure(NIBBLE_UNSUPPORTED, "tensor {} has GGUF {}{}, which nibble does not read",
                            quote(tensor.name), number, tensor.type == number ? "" : " (" + tensor.type + ")");
    return {};
  }
  extent.bytes = tensor.bytes = *elements / block_values * block_bytes;
  if (info->kind == FormatInfo::Kind::not_a_weight) tensor.usable = not_a_weight(tensor.name, tensor.type);
  return {};
}

Status GgufParser::check_extents() {
  const std::uint64_t header = reader_.position();
  const std::uint64_t data_start = ceil_div(header, alignment_) * alignment_;
  const std::uint64_t data_bytes = data_start < bytes_.size() ? bytes_.size() - data_start : 0;
  std::vector<Extent> by_offset;
  for (const Extent& extent : extents_) {
    if (extent.offset > data_bytes || extent.bytes > data_bytes - extent.offset) {
      return bad_file("tensor {} takes {} bytes at offset {}, beyond the {} bytes of data in the file",
                      quote(file_.tensors[extent.tensor].name), extent.bytes, extent.offset, data_bytes);
    }
    if (extent.bytes > 0) by_offset.push_back(extent);
  }
  std::sort(by_offset.begin(), by_offset.end(), [](const Extent& a, const Extent& b) { return a.offset < b.offset; });
  for (std::size_t i = 1; i < by_offset.size(); ++i) {
    const Extent& before = by_offset[i - 1];
    if (before.bytes > by_offset[i].offset - before.offset) {
      return bad_file("tensors {} and {} overlap at offset {}", quote(file_.tensors[before.tensor].name),
                      quote(file_.tensors[by_offset[i].tensor].name), by_offset[i].offset);
    }
  }
  bytes_ = bytes_.subspan(std::min<std::size_t>(data_start, bytes_.size()));
  return {};
}

Status GgufParser::make_views() {
  for (const Extent& extent : extents_) {
    FileTensor& tensor = file_.tensors[extent.tensor];
    const FormatInfo* info = types_[extent.tensor];
    if (info == nullptr) continue;
    const auto data = bytes_.subspan(extent.offset, extent.bytes);
    tensor.weight = make_weight(view_of(data, info->id, tensor.shape));
  }
  return {};
}

bool begins_with(std::span<const std::uint8_t> bytes, std::span<const char, 4> magic) {
  return bytes.size() >= magic.size() && std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

}  // namespace

bool is_gguf(std::span<const std::uint8_t> bytes) {
  return begins_with(bytes, kMagic) || begins_with(bytes, kSwappedMagic);
}

Result<ParsedFile> parse_gguf(std::span<const std::uint8_t> bytes) { return GgufParser(bytes).parse(); }

}  // namespace nibble::io
