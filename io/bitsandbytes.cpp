// bitsandbytes 4-bit weights: which tensors belong together, and the checks of each part against the others.
// Apart from its header so that the steps stay private.
#include "io/bitsandbytes.h"

#include "core/formats/fp4.h"
#include "core/formats/nf4.h"
#include "io/dtype.h"
#include "io/quant_state.h"
#include "io/sizes.h"
#include "io/text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace nibble::io {
namespace {

constexpr std::string_view kStateMark = ".quant_state.bitsandbytes__";
constexpr std::uint64_t kCodes4 = 16;
constexpr std::uint64_t kCodes8 = 256;

enum Part : std::size_t { kAbsmax, kQuantMap, kNestedAbsmax, kNestedQuantMap, kPartCount };
constexpr std::array<std::string_view, kPartCount> kPartSuffixes = {".absmax", ".quant_map", ".nested_absmax",
                                                                    ".nested_quant_map"};
constexpr std::array<Part, 2> kNestedParts = {kNestedAbsmax, kNestedQuantMap};

struct QuantFormat {
  std::string_view name;
  Format format;
  const float (&codes)[kCodes4];
};
constexpr QuantFormat kQuantFormats[] = {{format::NF4::kName, NIBBLE_NF4, format::NF4::kCodes},
                                         {format::FP4::kName, NIBBLE_FP4, format::FP4::kCodes}};

const QuantFormat* find_quant_format(std::string_view name) {
  for (const QuantFormat& format : kQuantFormats) {
    if (format.name == name) return &format;
  }
  return nullptr;
}

/// The stored tensors of one weight, by role; null where the file has none.
struct Family {
  std::string_view name;  // of the weight
  const StoredTensor* packed = nullptr;
  std::vector<const StoredTensor*> states;
  std::array<const StoredTensor*, kPartCount> parts{};
};

float load_float(std::span<const std::uint8_t> bytes, std::size_t index) {
  float value = 0;
  std::memcpy(&value, bytes.data() + index * sizeof value, sizeof value);
  return value;
}

/// Where the bytes lie if that is aligned, else as a copy that the file owns: kernels load whole elements, and headers
/// need not be padded.
std::span<const std::uint8_t> aligned(std::span<const std::uint8_t> bytes, std::size_t alignment, ParsedFile& file) {
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % alignment == 0) return bytes;
  auto copy = std::make_unique<float[]>((bytes.size() + sizeof(float) - 1) / sizeof(float));
  auto* data = reinterpret_cast<std::uint8_t*>(copy.get());
  std::copy(bytes.begin(), bytes.end(), data);
  file.copies.push_back(std::move(copy));
  return {data, bytes.size()};
}

Status check_count(std::string_view what, std::uint64_t count, std::uint64_t expected, std::string_view why) {
  if (count == expected) return {};
  return bad_file("{} holds {} values; expected {}{}", what, count, expected, why);
}

/// Makes one weight of a family. Messages name the part; the caller puts the weight's name before them.
class Assembler {
 public:
  Assembler(const Family& family, ParsedFile& file) : family_(family), file_(file) {}

  Status assemble(FileTensor& out) {
    for (const auto step : {&Assembler::read_state, &Assembler::check_packed, &Assembler::check_statistics,
                            &Assembler::check_nested, &Assembler::check_codes}) {
      if (Status status = (this->*step)(out); !status) return status;
    }
    out.weight = make();
    return {};
  }

 private:
  Status read_state(FileTensor& out);
  Status check_packed(FileTensor& out);
  Status check_statistics(FileTensor& out);
  Status check_nested(FileTensor& out);
  Status check_codes(FileTensor& out);
  Status require_part(Part part, std::string_view dtype) const;
  Weight make();
  Tensor floats(Part part);

  [[nodiscard]] std::uint64_t blocks() const {
    return ceil_div(state_.elements, static_cast<std::uint64_t>(state_.block_size));
  }
  [[nodiscard]] std::uint64_t groups() const {
    return ceil_div(blocks(), static_cast<std::uint64_t>(state_.nested->block_size));
  }
  [[nodiscard]] std::uint64_t count(Part part) const { return *element_product(family_.parts[part]->shape); }

  const Family& family_;
  ParsedFile& file_;
  const QuantFormat* format_ = nullptr;
  QuantState state_;
};

/// Nested or plain is what the type of absmax says; all else must agree with it.
Status Assembler::read_state(FileTensor& out) {
  if (family_.states.size() > 1) {
    return bad_file("there are {} states, {} and {}; expected one", family_.states.size(),
                    quote(family_.states[0]->name), quote(family_.states[1]->name));
  }
  const StoredTensor& text = *family_.states[0];
  if (text.dtype != "U8") return bad_file("the state has type {}; expected U8", quote(text.dtype));
  const StoredTensor* absmax = family_.parts[kAbsmax];
  if (absmax == nullptr) return bad_file("absmax is missing");
  if (absmax->dtype != "F32" && absmax->dtype != "U8") {
    return bad_file("absmax has type {}; expected F32 (plain) or U8 (nested)", quote(absmax->dtype));
  }
  auto state =
      parse_quant_state({reinterpret_cast<const char*>(text.data.data()), text.data.size()}, absmax->dtype == "U8");
  if (!state) return state.status();
  state_ = std::move(*state);
  if (!text.name.ends_with(state_.quant_type)) {
    return bad_file("the state's quant_type is {}, but its tensor is named {}", state_.quant_type, quote(text.name));
  }
  format_ = find_quant_format(state_.quant_type);
  out.shape = state_.shape;
  out.own_type = state_.own_type;
  return {};
}

Status Assembler::check_packed(FileTensor& out) {
  if (family_.packed == nullptr) return bad_file("the packed tensor is missing");
  const std::uint64_t expected = ceil_div(state_.elements, 2);
  const std::uint64_t bytes = family_.packed->data.size();
  if (bytes != expected) {
    return bad_file("the packed tensor has {} bytes; expected {} for {} values of shape [{}]", bytes, expected,
                    state_.elements, fmt::join(state_.shape, ", "));
  }
  // One packed element is [1, 1] either way: that is how the library writes a weight of one or two values.
  const auto& shape = family_.packed->shape;
  out.packed_transposed = shape.size() == 2 && shape[0] == 1 && shape[1] > 1;
  return {};
}

Status Assembler::require_part(Part part, std::string_view dtype) const {
  const std::string_view name = kPartSuffixes[part].substr(1);
  if (family_.parts[part] == nullptr) return bad_file("{} is missing", name);
  if (family_.parts[part]->dtype == dtype) return {};
  return bad_file("{} has type {}; expected {}", name, quote(family_.parts[part]->dtype), dtype);
}

Status Assembler::check_statistics(FileTensor&) {
  return check_count("absmax", count(kAbsmax), blocks(),
                     fmt::format(" for {} values in blocks of {}", state_.elements, state_.block_size));
}

Status Assembler::check_nested(FileTensor&) {
  if (!state_.nested) {
    for (const Part part : kNestedParts) {
      if (family_.parts[part] != nullptr) {
        return bad_file("{} is there, but absmax is plain (F32)", kPartSuffixes[part].substr(1));
      }
    }
    return {};
  }
  for (const Part part : kNestedParts) {
    if (Status status = require_part(part, "F32"); !status) return status;
  }
  const std::string why = fmt::format(" for {} blocks in groups of {}", blocks(), state_.nested->block_size);
  if (Status status = check_count("nested_absmax", count(kNestedAbsmax), groups(), why); !status) return status;
  return check_count("nested_quant_map", count(kNestedQuantMap), kCodes8, "");
}

/// Kernels decode by the format's own codes, so a file that brings others must not be decoded as if it had not.
Status Assembler::check_codes(FileTensor&) {
  constexpr float kTolerance = 1e-6f;
  if (Status status = require_part(kQuantMap, "F32"); !status) return status;
  if (Status status = check_count("quant_map", count(kQuantMap), kCodes4, ""); !status) return status;
  for (std::size_t i = 0; i < kCodes4; ++i) {
    const float code = load_float(family_.parts[kQuantMap]->data, i);
    const float expected = format_->codes[i];
    // Written so that a NaN is refused too.
    if (!(std::abs(code - expected) <= kTolerance * std::abs(expected))) {
      return bad_file("code {} of quant_map is {}; expected {} as {} has it", i, code, expected, format_->name);
    }
  }
  return {};
}

Tensor Assembler::floats(Part part) {
  return view_of(aligned(family_.parts[part]->data, sizeof(float), file_), NIBBLE_F32,
                 std::array{static_cast<std::int64_t>(count(part))});
}

Weight Assembler::make() {
  Weight weight = make_weight(view_of(family_.packed->data, format_->format, state_.shape));
  weight.block_size = state_.block_size;
  if (!state_.nested) {
    weight.absmax = floats(kAbsmax);
    return weight;
  }
  weight.absmax = view_of(family_.parts[kAbsmax]->data, NIBBLE_U8, std::array{static_cast<std::int64_t>(blocks())});
  weight.nested_absmax = floats(kNestedAbsmax);
  weight.nested_code = floats(kNestedQuantMap);
  weight.nested_block_size = state_.nested->block_size;
  weight.nested_offset = state_.nested->offset;
  return weight;
}

using Index = std::unordered_map<std::string_view, const StoredTensor*>;

const StoredTensor* look_up(const Index& index, const std::string& name) {
  const auto found = index.find(name);
  return found == index.end() ? nullptr : found->second;
}

/// The weight's name where `name` is that of a state; empty otherwise.
std::string_view weight_of_state(std::string_view name) {
  const std::size_t mark = name.rfind(kStateMark);
  return mark == std::string_view::npos ? std::string_view{} : name.substr(0, mark);
}

FileTensor entry_of_family(const Family& family, ParsedFile& file) {
  FileTensor tensor;
  tensor.name = family.name;
  const std::string_view state_name = family.states[0]->name;
  tensor.type = state_name.substr(family.name.size() + kStateMark.size());
  if (family.packed != nullptr) {
    tensor.shape = family.packed->shape;
    tensor.bytes = family.packed->data.size();
  }
  for (const StoredTensor* state : family.states) tensor.bytes += state->data.size();
  for (const StoredTensor* part : family.parts) tensor.bytes += part != nullptr ? part->data.size() : 0;
  if (Status status = Assembler(family, file).assemble(tensor); !status) {
    tensor.usable = bad_file("bitsandbytes weight {}: {}", quote(family.name), status.message());
  }
  return tensor;
}

/// Why a tensor beside bitsandbytes statistics, but without a state, must not be taken for what its type says.
Status without_state(const StoredTensor& stored, const Index& index) {
  const StoredTensor* map = look_up(index, stored.name + ".quant_map");
  if (map == nullptr || look_up(index, stored.name + ".absmax") == nullptr) return {};
  const std::uint64_t codes = *element_product(map->shape);
  if (codes == kCodes4) {
    return bad_file("bitsandbytes weight {}: its state, {} or the same with fp4, is missing", quote(stored.name),
                    quote(stored.name + std::string(kStateMark) + "nf4"));
  }
  if (codes == kCodes8 && stored.dtype == "U8") {
    return failure(
        NIBBLE_UNSUPPORTED,
        "tensor {} has type u8; an 8-bit blockwise weight's block size is in no file: expected a caller that "
        "gives it to the library",
        quote(stored.name));
  }
  return {};
}

FileTensor entry_of_plain(const StoredTensor& stored, const Index& index, ParsedFile& file) {
  FileTensor tensor;
  tensor.name = stored.name;
  tensor.shape = stored.shape;
  tensor.bytes = stored.data.size();
  tensor.type = stored.dtype;
  std::transform(tensor.type.begin(), tensor.type.end(), tensor.type.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  tensor.usable = without_state(stored, index);
  if (!tensor.usable) return tensor;
  const Dtype* dtype = find_dtype(stored.dtype);
  if (dtype != nullptr && dtype->weight) {
    const auto data = aligned(stored.data, find_format(*dtype->weight)->block_bytes, file);
    tensor.weight = make_weight(view_of(data, *dtype->weight, stored.shape));
    tensor.own_type = *dtype->weight;
  } else {
    tensor.usable = not_a_weight(stored.name, quote(tensor.type));
  }
  return tensor;
}

}  // namespace

void assemble_weights(const std::vector<StoredTensor>& stored, ParsedFile& file) {
  Index index;
  for (const StoredTensor& tensor : stored) index.emplace(tensor.name, &tensor);
  std::unordered_map<std::string_view, Family> families;  // by the weight's name
  std::unordered_map<const StoredTensor*, const Family*> owner;
  for (const StoredTensor& tensor : stored) {
    const std::string_view name = weight_of_state(tensor.name);
    if (!name.empty()) families[name].states.push_back(&tensor);
  }
  for (auto& [name, family] : families) {
    family.name = name;
    family.packed = look_up(index, std::string(name));
    for (std::size_t i = 0; i < kPartCount; ++i) {
      family.parts[i] = look_up(index, std::string(name).append(kPartSuffixes[i]));
      if (family.parts[i] != nullptr) owner.emplace(family.parts[i], &family);
    }
    for (const StoredTensor* state : family.states) owner.emplace(state, &family);
  }
  for (const StoredTensor& tensor : stored) {
    // A weight stands where its packed tensor does, or its state where that is missing.
    const auto own = families.find(tensor.name);
    const auto owned = owner.find(&tensor);
    if (own != families.end()) {
      file.tensors.push_back(entry_of_family(own->second, file));
    } else if (owned == owner.end()) {
      file.tensors.push_back(entry_of_plain(tensor, index, file));
    } else if (owned->second->packed == nullptr && owned->second->states[0] == &tensor) {
      file.tensors.push_back(entry_of_family(*owned->second, file));
    }
  }
}

}  // namespace nibble::io
