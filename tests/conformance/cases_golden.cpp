// Golden files: what ggml and bitsandbytes gave, read through WeightFile and decoded by every row.
// Apart from the other cases because these values come from elsewhere, and the files' readers are on the path too.
#include "tests/conformance/suite.h"
#include "tests/support/bits.h"

#include <nibble/io.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <memory>
#include <stdexcept>

namespace nibble::conformance {
namespace {

constexpr std::size_t kGgmlTensors = 54, kBitsandbytesCases = 96;

WeightFile open(const std::string& path) {
  auto file = WeightFile::open(path);
  if (!file) throw std::runtime_error(file.status().message());
  return std::move(file).value();
}

const FileTensor& tensor_of(const WeightFile& file, const std::string& name) {
  const auto found = file.find(name);
  if (!found) throw std::runtime_error(found.status().message());
  return **found;
}

std::vector<std::uint8_t> copy_bytes(const Tensor& t) {
  if (!present(t)) return {};
  return {bytes_of(t), bytes_of(t) + test::extent_bytes(t)};
}

test::HostWeight copy_weight(const Weight& w) {
  test::HostWeight h;
  h.weight = w;
  h.packed = copy_bytes(w.packed);
  h.code = copy_bytes(w.code);
  h.absmax = copy_bytes(w.absmax);
  h.nested_absmax = copy_bytes(w.nested_absmax);
  h.nested_code = copy_bytes(w.nested_code);
  return h;
}

/// Decoding `weight` must give the elements of `expected`, in its type.
Problem build(const Weight& weight, const Tensor& expected) {
  Problem p;
  p.request = make_request(NIBBLE_OP_DEQUANTIZE);
  set_weight(p, copy_weight(weight));
  const Tensor& w = p.request.weight.packed;
  if (!std::equal(w.shape, w.shape + 4, expected.shape))
    throw std::runtime_error("the golden weight and its values have other shapes: expected the same");
  p.request.dst = make_view(expected.format, {w.shape[0], w.shape[1], w.shape[2], w.shape[3]});
  ExactValues exact;
  test::for_each_element(expected, [&](std::size_t, std::int64_t at) {
    exact.bits.push_back(test::element_bits(expected.format, bytes_of(expected) + at));
  });
  p.expected = std::move(exact);
  poison_dst(p);
  return p;
}

/// Two files that belong together, opened when a case first needs them.
class Files {
 public:
  Files(std::string weights, std::string values) : weights_path_(std::move(weights)), values_path_(std::move(values)) {}
  const WeightFile& weights() { return opened(weights_, weights_path_); }
  [[nodiscard]] const std::string& weights_path() const { return weights_path_; }
  const WeightFile& values() { return opened(values_, values_path_); }

 private:
  static const WeightFile& opened(std::unique_ptr<WeightFile>& file, const std::string& path) {
    if (!file) file = std::make_unique<WeightFile>(open(path));
    return *file;
  }
  std::string weights_path_, values_path_;
  std::unique_ptr<WeightFile> weights_, values_;
};

/// A filter reads '-' and ':' as its own.
std::string plain_name(std::string name) {
  std::replace(name.begin(), name.end(), '-', 'm');
  return name;
}

/// One of bnb-cases.json.
struct BnbCase {
  std::string name, quant_type;
  std::int64_t block_size;
};

std::vector<BnbCase> read_cases(const std::string& path) {
  std::ifstream file(path);
  std::vector<BnbCase> cases;
  for (const auto& c : nlohmann::json::parse(file)) {
    cases.push_back({c.at("name").get<std::string>(), c.at("quant_type").get<std::string>(),
                     c.at("blocksize").get<std::int64_t>()});
  }
  return cases;
}

/// The bytes of a safetensors file's tensor, without WeightFile: it hands out no bytes that are no weight by
/// themselves.
std::vector<std::uint8_t> stored_bytes(const std::string& path, const std::string& name) {
  std::ifstream file(path, std::ios::binary);
  std::uint64_t header_bytes = 0;
  file.read(reinterpret_cast<char*>(&header_bytes), sizeof header_bytes);
  std::string header(header_bytes, ' ');
  file.read(header.data(), static_cast<std::streamsize>(header.size()));
  const auto offsets = nlohmann::json::parse(header).at(name).at("data_offsets").get<std::vector<std::uint64_t>>();
  std::vector<std::uint8_t> bytes(offsets.at(1) - offsets.at(0));
  file.seekg(static_cast<std::streamoff>(sizeof header_bytes + header_bytes + offsets[0]));
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!file) throw std::runtime_error(fmt::format("{} ends before tensor {} does", path, name));
  return bytes;
}

/// The 8-bit blockwise weights carry no state in the file: put together from their tensors and the case's block size.
Problem build_blockwise8(Files& files, const BnbCase& c, const Tensor& values) {
  std::vector<std::uint8_t> packed = stored_bytes(files.weights_path(), c.name + ".weight");
  Weight w{};
  w.packed = make_tensor(packed.data(), NIBBLE_BLOCKWISE8, {static_cast<std::int64_t>(packed.size())});
  w.code = tensor_of(files.weights(), c.name + ".weight.quant_map").weight.packed;
  w.absmax = tensor_of(files.weights(), c.name + ".weight.absmax").weight.packed;
  w.block_size = c.block_size;
  return build(w, values);
}

Problem build_bnb(Files& files, const BnbCase& c) {
  const Tensor& values = tensor_of(files.values(), c.name).weight.packed;
  if (c.quant_type == "dynamic8") return build_blockwise8(files, c, values);
  const FileTensor& t = tensor_of(files.weights(), c.name + ".weight");
  if (!t.usable) throw std::runtime_error(t.usable.message());
  if (t.own_type != values.format)
    throw std::runtime_error(
        fmt::format("{} says {}: expected {}", c.name, format_name(t.own_type), format_name(values.format)));
  return build(t.weight, values);
}

std::string count_text(std::string_view what, std::size_t count, std::size_t expected) {
  return count == expected ? "" : fmt::format("{} {} were registered for each row: expected {}", count, what, expected);
}

std::size_t add_ggml(Suite& suite, const std::string& folder) {
  const auto files = std::make_shared<Files>(folder + "/ggml.gguf", folder + "/ggml-expected.gguf");
  std::size_t count = 0;
  for (const FileTensor& t : files->weights().tensors()) {
    ++count;
    suite.add(NIBBLE_OP_DEQUANTIZE, {"golden", t.type, "ggml_" + t.name}, [files, name = t.name] {
      const FileTensor& weight = tensor_of(files->weights(), name);
      if (!weight.usable) throw std::runtime_error(weight.usable.message());
      return build(weight.weight, tensor_of(files->values(), name).weight.packed);
    });
  }
  return count;
}

std::size_t add_bitsandbytes(Suite& suite, const std::string& folder) {
  const auto files = std::make_shared<Files>(folder + "/bnb.safetensors", folder + "/bnb-expected.safetensors");
  std::size_t count = 0;
  for (const BnbCase& c : read_cases(folder + "/bnb-cases.json")) {
    ++count;
    suite.add(
        NIBBLE_OP_DEQUANTIZE,
        {"golden", c.quant_type == "dynamic8" ? "blockwise8" : c.quant_type, "bitsandbytes_" + plain_name(c.name)},
        [files, c] { return build_bnb(*files, c); });
  }
  return count;
}

}  // namespace

void add_golden_cases(Suite& suite, const std::string& data) {
  // A count that cannot be taken is told by the check, so that the other cases still run.
  const auto guarded = [&](const char* name, std::size_t expected, auto&& add) {
    std::string fault;
    try {
      fault = count_text(name, add(), expected);
    } catch (const std::exception& e) {
      fault = e.what();
    }
    suite.add_check("golden", fmt::format("{}_has_{}_cases", name, expected), [fault] { return fault; });
  };
  guarded("ggml", kGgmlTensors, [&] { return add_ggml(suite, data + "/ggml"); });
  guarded("bitsandbytes", kBitsandbytesCases, [&] { return add_bitsandbytes(suite, data + "/bitsandbytes"); });
}

}  // namespace nibble::conformance
