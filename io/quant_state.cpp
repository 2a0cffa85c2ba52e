// The JSON text of a bitsandbytes state: presence, kind and range of each key.
// Apart from its header because only this file needs the JSON library.
#include "io/quant_state.h"

#include "io/sizes.h"
#include "io/text.h"

#include <nlohmann/json.hpp>

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

namespace nibble::io {
namespace {

using nlohmann::json;

constexpr std::size_t kMostTextBytes = 65536;  // a real state has less than 300
constexpr std::size_t kMostDimensions = 64;    // as for tensors of the file itself
constexpr std::int64_t kLeastBlockSize = 32;
constexpr std::int64_t kMostBlockSize = 4096;
constexpr std::array<std::string_view, 3> kNestedKeys = {"nested_blocksize", "nested_dtype", "nested_offset"};

struct NamedType {
  std::string_view name;
  Format type;
};
constexpr NamedType kOwnTypes[] = {{"float32", NIBBLE_F32}, {"float16", NIBBLE_F16}, {"bfloat16", NIBBLE_BF16}};

/// A value for a message, cut where it is long. What nests is only named: writing it out recurses as deep as it goes.
std::string shown(const json& value) {
  if (value.is_structured()) return fmt::format("an {} of {}", value.type_name(), value.size());
  constexpr auto kReplace = json::error_handler_t::replace;
  return quote(value.dump(-1, ' ', false, kReplace));
}

Result<json> parse_object(std::string_view text) {
  if (text.size() > kMostTextBytes) {
    return bad_file("the state's text has {} bytes; expected at most {}", text.size(), kMostTextBytes);
  }
  std::set<std::string> seen;
  std::string twice;
  const auto note_keys = [&](int depth, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::key && depth == 1 && !seen.insert(parsed.get<std::string>()).second) {
      twice = parsed.get<std::string>();
    }
    return true;
  };
  json object = json::parse(text.begin(), text.end(), note_keys, false);
  if (!object.is_object()) return bad_file("the state's text is not a JSON object");
  if (!twice.empty()) return bad_file("the state has the key {} twice", quote(twice));
  return object;
}

Result<const json*> find(const json& object, std::string_view key) {
  const auto found = object.find(key);
  if (found == object.end()) return bad_file("the state lacks '{}'", key);
  return &*found;
}

Result<std::string> read_text(const json& object, std::string_view key) {
  const auto value = find(object, key);
  if (!value) return value.status();
  if (!(*value)->is_string()) return bad_file("the state's {} is {}; expected a string", key, shown(**value));
  return (*value)->get<std::string>();
}

/// A whole number from 0 to 2^63 - 1.
std::optional<std::int64_t> whole_number(const json& value) {
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > kMostBytes) return std::nullopt;
  const auto number = value.get<std::int64_t>();
  return number < 0 ? std::nullopt : std::optional(number);
}

Status read_block_size(const json& object, QuantState& state) {
  const auto value = find(object, "blocksize");
  if (!value) return value.status();
  const auto number = whole_number(**value);
  if (!number || !std::has_single_bit(static_cast<std::uint64_t>(*number)) || *number < kLeastBlockSize ||
      *number > kMostBlockSize) {
    return bad_file("the state's blocksize is {}; expected a power of two from {} to {}", shown(**value),
                    kLeastBlockSize, kMostBlockSize);
  }
  state.block_size = *number;
  return {};
}

Status read_own_type(const json& object, QuantState& state) {
  const auto name = read_text(object, "dtype");
  if (!name) return name.status();
  for (const NamedType& type : kOwnTypes) {
    if (type.name != *name) continue;
    state.own_type = type.type;
    return {};
  }
  return bad_file("the state's dtype is {}; expected float32, float16 or bfloat16", quote(*name));
}

Status read_shape(const json& object, QuantState& state) {
  const auto value = find(object, "shape");
  if (!value) return value.status();
  if (!(*value)->is_array()) return bad_file("the state's shape is {}; expected an array", shown(**value));
  if ((*value)->size() > kMostDimensions) {
    return bad_file("the state's shape has {} dimensions; expected at most {}", (*value)->size(), kMostDimensions);
  }
  for (const json& dimension : **value) {
    const auto number = whole_number(dimension);
    if (!number) return bad_file("the state's shape holds {}; expected whole numbers from 0", shown(dimension));
    state.shape.push_back(*number);
  }
  const auto elements = element_product(state.shape);
  if (!elements) {
    return bad_file("the product of the state's shape [{}] does not fit 63 bits", fmt::join(state.shape, ", "));
  }
  state.elements = *elements;
  return {};
}

Status read_nested(const json& object, QuantState& state) {
  NestedState nested;
  const auto size = find(object, "nested_blocksize");
  if (!size) return size.status();
  const auto number = whole_number(**size);
  if (!number || !std::has_single_bit(static_cast<std::uint64_t>(*number))) {
    return bad_file("the state's nested_blocksize is {}; expected a power of two", shown(**size));
  }
  nested.block_size = *number;
  const auto type = read_text(object, "nested_dtype");
  if (!type) return type.status();
  if (*type != "float32") return bad_file("the state's nested_dtype is {}; expected float32", quote(*type));
  const auto offset = find(object, "nested_offset");
  if (!offset) return offset.status();
  if (!(*offset)->is_number()) return bad_file("the state's nested_offset is {}; expected a number", shown(**offset));
  const auto wide = (*offset)->get<double>();
  if (!(std::abs(wide) <= static_cast<double>(std::numeric_limits<float>::max()))) {
    return bad_file("the state's nested_offset is {}; expected a number that fits float32", shown(**offset));
  }
  nested.offset = static_cast<float>(wide);
  state.nested = nested;
  return {};
}

}  // namespace

Result<QuantState> parse_quant_state(std::string_view text, bool nested) {
  const auto object = parse_object(text);
  if (!object) return object.status();
  QuantState state;
  auto quant_type = read_text(*object, "quant_type");
  if (!quant_type) return quant_type.status();
  if (*quant_type != "nf4" && *quant_type != "fp4") {
    return bad_file("the state's quant_type is {}; expected nf4 or fp4", quote(*quant_type));
  }
  state.quant_type = std::move(*quant_type);
  for (const auto read : {&read_block_size, &read_own_type, &read_shape}) {
    if (Status status = read(*object, state); !status) return status;
  }
  if (nested) {
    if (Status status = read_nested(*object, state); !status) return status;
    return state;
  }
  for (const std::string_view key : kNestedKeys) {
    if (object->contains(key)) return bad_file("the state has '{}', but its absmax is plain (F32)", key);
  }
  return state;
}

}  // namespace nibble::io
