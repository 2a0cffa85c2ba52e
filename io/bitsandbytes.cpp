// The assembly of a state, with every claim of its JSON held against the tensors beside it.
// Apart from bitsandbytes.h so that the steps stay private.
#include "io/bitsandbytes.h"

#include "core/formats/formats.h"
#include "io/sizes.h"
#include "io/text.h"

#include <nlohmann/json.hpp>

#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>

namespace nibble::io {
namespace {

using nlohmann::json;

constexpr std::string_view kStatePrefix = ".quant_state.bitsandbytes__";
constexpr std::string_view kParts[] = {".absmax", ".quant_map", ".nested_absmax", ".nested_quant_map"};
constexpr std::int64_t kLeastBlock = 32, kMostBlock = 4096;

using Index = std::map<std::string_view, std::size_t>;

/// Where a step stops: the line that goes into `usable`.
struct Fault {
  std::string text;
};

class StateReader {
 public:
  StateReader(const std::vector<StoredTensor>& stored, const Index& index, ParsedFile& file, std::string name, std::size_t state)
      : stored_(stored), index_(index), file_(file), name_(std::move(name)), state_(stored[state]) {}

  FileTensor read(std::string_view quant_type) {
    FileTensor t;
    t.name = name_;
    t.type = quant_type;
    if (read_json(t, quant_type) || read_packed(t) || read_statistics(t)) {
      t.usable = bad_file("bitsandbytes state of {}: {}", quote(name_), fault_->text);
      t.weight = {};
    }
    return t;
  }

 private:
  template <class... Args>
  std::optional<Fault> fault(fmt::format_string<Args...> format, Args&&... args) {
    if (!fault_) fault_ = Fault{fmt::format(format, std::forward<Args>(args)...)};
    return fault_;
  }
  const StoredTensor* find(std::string_view suffix) const {
    const auto found = index_.find(name_ + std::string(suffix));
    return found == index_.end() ? nullptr : &stored_[found->second];
  }

  std::optional<Fault> read_json(FileTensor& t, std::string_view quant_type);
  std::optional<Fault> read_nested_json(const json& j);
  std::optional<Fault> read_packed(FileTensor& t);
  std::optional<Fault> read_statistics(FileTensor& t);
  std::optional<Fault> check_codes(Format format);
  /// A statistics tensor of `dtype` and `count` values as a view; f32 ones that lie unaligned are copied.
  Tensor statistics(std::string_view suffix, std::string_view dtype, std::uint64_t count);

  const std::vector<StoredTensor>& stored_;
  const Index& index_;
  ParsedFile& file_;
  std::string name_;
  const StoredTensor& state_;
  std::optional<Fault> fault_;
  Format format_ = NIBBLE_NF4;
  std::int64_t block_size_ = 0, nested_block_size_ = 0;
  float nested_offset_ = 0;
  bool nested_ = false;
  std::uint64_t elements_ = 0;
};

/// A whole number of the JSON, or nothing.
std::optional<std::int64_t> whole(const json& j, const char* key) {
  const auto found = j.find(key);
  if (found == j.end() || !found->is_number_integer()) return std::nullopt;
  if (found->is_number_unsigned() && found->get<std::uint64_t>() > kMostBytes) return std::nullopt;
  return found->get<std::int64_t>();
}

std::string text_of(const json& j, const char* key) {
  const auto found = j.find(key);
  if (found == j.end()) return "missing";
  return found->dump(-1, ' ', true, json::error_handler_t::replace).substr(0, 80);
}

std::optional<Fault> StateReader::read_json(FileTensor& t, std::string_view quant_type) {
  const json j = json::parse(state_.data.begin(), state_.data.end(), nullptr, false);
  if (!j.is_object()) return fault("its quant_state is not a JSON object");
  if (j.value("quant_type", json()) != quant_type || (quant_type != "nf4" && quant_type != "fp4")) {
    return fault("quant_type is {}; expected \"nf4\" or \"fp4\", as the key's name", text_of(j, "quant_type"));
  }
  format_ = quant_type == "nf4" ? NIBBLE_NF4 : NIBBLE_FP4;
  const auto block_size = whole(j, "blocksize");
  if (!block_size || *block_size < kLeastBlock || *block_size > kMostBlock || !std::has_single_bit(static_cast<std::uint64_t>(*block_size))) {
    return fault("blocksize is {}; expected a power of two from {} to {}", text_of(j, "blocksize"), kLeastBlock, kMostBlock);
  }
  block_size_ = *block_size;
  static constexpr std::pair<const char*, Format> kTypes[] = {{"float32", NIBBLE_F32}, {"float16", NIBBLE_F16}, {"bfloat16", NIBBLE_BF16}};
  const auto* type = std::find_if(std::begin(kTypes), std::end(kTypes), [&](const auto& p) { return j.value("dtype", json()) == p.first; });
  if (type == std::end(kTypes)) return fault("dtype is {}; expected \"float32\", \"float16\" or \"bfloat16\"", text_of(j, "dtype"));
  t.own_type = type->second;
  const auto shape = j.find("shape");
  if (shape == j.end() || !shape->is_array() || shape->empty() || shape->size() > 64) return fault("shape is {}; expected a list of dimensions", text_of(j, "shape"));
  for (const json& d : *shape) {
    if (!d.is_number_unsigned() || d.get<std::uint64_t>() > kMostBytes) return fault("shape is {}; expected whole numbers from 0", text_of(j, "shape"));
    t.shape.push_back(d.get<std::int64_t>());
  }
  const auto elements = element_product(t.shape);
  if (!elements) return fault("shape is {}; expected dimensions whose product fits 63 bits", text_of(j, "shape"));
  elements_ = *elements;
  nested_ = j.contains("nested_blocksize") || j.contains("nested_offset") || j.contains("nested_dtype") || find(".nested_absmax") != nullptr ||
            find(".nested_quant_map") != nullptr;
  return nested_ ? read_nested_json(j) : std::nullopt;
}

std::optional<Fault> StateReader::read_nested_json(const json& j) {
  const auto size = whole(j, "nested_blocksize");
  if (!size || *size < 1 || !std::has_single_bit(static_cast<std::uint64_t>(*size))) {
    return fault("nested_blocksize is {}; expected a power of two, since nested keys are present", text_of(j, "nested_blocksize"));
  }
  nested_block_size_ = *size;
  if (j.value("nested_dtype", json()) != "float32") return fault("nested_dtype is {}; expected \"float32\"", text_of(j, "nested_dtype"));
  const auto offset = j.find("nested_offset");
  if (offset == j.end() || !offset->is_number()) return fault("nested_offset is {}; expected a number", text_of(j, "nested_offset"));
  nested_offset_ = offset->get<float>();
  return std::nullopt;
}

std::optional<Fault> StateReader::read_packed(FileTensor& t) {
  const StoredTensor* packed = find("");
  if (packed == nullptr) return fault("{} itself is missing; expected the packed codes", quote(name_));
  const std::uint64_t expected = ceil_div(elements_, 2);
  if (packed->data.size() != expected) {
    return fault("{} holds {} bytes; expected {}, half a byte a value of shape [{}]", quote(name_), packed->data.size(), expected, fmt::join(t.shape, ", "));
  }
  t.bytes = packed->data.size();
  t.weight = make_weight(view_of(packed->data, format_, t.shape));
  // The library hands out the transposed view where the packed tensor is a row; so does a caller's use of this flag.
  t.packed_transposed = packed->shape.size() == 2 && packed->shape[0] == 1;
  return std::nullopt;
}

Tensor StateReader::statistics(std::string_view suffix, std::string_view dtype, std::uint64_t count) {
  const StoredTensor* s = find(suffix);
  if (s == nullptr) return fault("{} is missing; expected {} of {} values", suffix.substr(1), dtype, count), Tensor{};
  if (s->dtype != dtype) return fault("{} has type {}; expected {}", suffix.substr(1), s->dtype, dtype), Tensor{};
  const std::uint64_t size = dtype == "F32" ? 4 : 1;
  if (s->data.size() != count * size) {
    return fault("{} has {} values; expected {}", suffix.substr(1), s->data.size() / size, count), Tensor{};
  }
  const std::int64_t shape[1] = {static_cast<std::int64_t>(count)};
  if (size == 1 || reinterpret_cast<std::uintptr_t>(s->data.data()) % alignof(float) == 0) {
    return view_of(s->data, size == 1 ? Format{NIBBLE_U8} : Format{NIBBLE_F32}, shape);
  }
  auto& copy = file_.copies.emplace_back(std::make_unique<float[]>(static_cast<std::size_t>(count)));
  std::memcpy(copy.get(), s->data.data(), s->data.size());
  return make_tensor(copy.get(), NIBBLE_F32, shape);
}

std::optional<Fault> StateReader::check_codes(Format format) {
  const Tensor map = statistics(".quant_map", "F32", 16);
  if (fault_) return fault_;
  std::optional<Fault> found;
  // Kernels decode by format. The library's own maps differ from its kernels' codes in the last place of some, no more.
  visit_format(format, [&](auto f) {
    if constexpr (decltype(f)::kEngine == Engine::flat4) {
      for (int i = 0; i < 16 && !found; ++i) {
        const float stored = static_cast<const float*>(map.data)[i], expected = decltype(f)::kCodes[i];
        if (std::abs(stored - expected) <= 1e-6f * std::abs(expected)) continue;
        found = fault("quant_map has {} for code {}; expected {}, as {} defines it", stored, i, expected, decltype(f)::kName);
      }
    }
  });
  return found;
}

std::optional<Fault> StateReader::read_statistics(FileTensor& t) {
  if (check_codes(format_)) return fault_;
  Weight& w = t.weight;
  const std::uint64_t blocks = ceil_div(elements_, static_cast<std::uint64_t>(block_size_));
  w.block_size = block_size_;
  w.absmax = statistics(".absmax", nested_ ? "U8" : "F32", blocks);
  if (nested_ && !fault_) {
    const auto group = static_cast<std::uint64_t>(nested_block_size_);
    w.nested_block_size = nested_block_size_;
    w.nested_offset = nested_offset_;
    w.nested_absmax = statistics(".nested_absmax", "F32", ceil_div(blocks, group));
    if (!fault_) w.nested_code = statistics(".nested_quant_map", "F32", 256);
  }
  for (const std::string_view suffix : kParts) {
    if (const StoredTensor* s = find(suffix)) t.bytes += s->data.size();
  }
  t.bytes += state_.data.size();
  return fault_;
}

}  // namespace

std::vector<bool> take_quantized_states(const std::vector<StoredTensor>& stored, ParsedFile& file) {
  std::vector<bool> taken(stored.size(), false);
  Index index;
  for (std::size_t i = 0; i < stored.size(); ++i) index.emplace(stored[i].name, i);
  for (std::size_t i = 0; i < stored.size(); ++i) {
    const std::string& key = stored[i].name;
    const std::size_t at = key.rfind(kStatePrefix);
    if (at == std::string::npos || taken[i]) continue;
    std::string name = key.substr(0, at);
    taken[i] = true;
    const auto take = [&](const std::string& part) {
      if (const auto found = index.find(part); found != index.end()) taken[found->second] = true;
    };
    take(name);
    for (const std::string_view suffix : kParts) take(name + std::string(suffix));
    file.tensors.push_back(StateReader(stored, index, file, std::move(name), i).read(key.substr(at + kStatePrefix.size())));
  }
  return taken;
}

}  // namespace nibble::io
