// TensorWriter: the headers of safetensors and .npy, then the declared bytes.
// Apart from the readers because nothing is shared but the names of element types.
#include <nibble/io.hpp>

#include "io/dtype.h"
#include "io/output_file.h"
#include "io/safetensors_header.h"
#include "io/sizes.h"
#include "io/text.h"

#include <nlohmann/json.hpp>

#include <limits>
#include <set>
#include <utility>

namespace nibble {
namespace {

using io::failure;

template <class... Args>
Status refused(fmt::format_string<Args...> format, Args&&... args) {
  return failure(NIBBLE_INVALID_ARGUMENT, format, std::forward<Args>(args)...);
}

const io::Dtype* output_dtype(Format type) {
  for (const io::Dtype& dtype : io::kDtypes) {
    if (dtype.weight == type) return &dtype;
  }
  return nullptr;
}

Result<std::uint64_t> output_bytes(const OutputTensor& tensor) {
  const io::Dtype* dtype = output_dtype(tensor.type);
  if (dtype == nullptr) {
    return refused("tensor {} to write has type {}; expected f32, f16 or bf16", quote(tensor.name),
                   format_name(tensor.type));
  }
  const auto elements = io::element_product(tensor.shape);
  const auto bytes = elements ? io::checked_product(*elements, dtype->bits / 8) : std::nullopt;
  if (bytes) return *bytes;
  return refused("tensor {} to write has shape [{}]; expected dimensions from 0 whose bytes fit 63 bits",
                 quote(tensor.name), fmt::join(tensor.shape, ", "));
}

/// Little-endian, as both formats want their lengths.
std::string length_field(std::uint64_t value, std::size_t bytes) {
  std::string out;
  for (std::size_t i = 0; i < bytes; ++i) out += static_cast<char>(value >> 8 * i & 0xFFu);
  return out;
}

struct Header {
  std::string text;
  std::uint64_t data_bytes = 0;  ///< that follow it
};

Status check_name(const std::string& name, std::set<std::string_view>& seen) {
  if (name == io::kMetadataKey)
    return refused("a tensor to write is named {}, which safetensors keeps for itself", name);
  if (!is_utf8(name)) return refused("the name of a tensor to write, {}, is not UTF-8", quote(name));
  if (!seen.insert(name).second) return refused("two tensors to write are named {}; expected one", quote(name));
  return {};
}

/// Length, JSON, spaces: the data then starts at a multiple of 8.
Result<Header> safetensors_header(std::span<const OutputTensor> tensors) {
  constexpr std::size_t kAlignment = 8;
  // "pt" says how to read the shapes; some readers refuse a file that does not say it.
  nlohmann::ordered_json header = {{io::kMetadataKey, {{"format", "pt"}}}};
  std::set<std::string_view> seen;
  std::uint64_t end = 0;
  for (const OutputTensor& tensor : tensors) {
    if (Status status = check_name(tensor.name, seen); !status) return status;
    const auto bytes = output_bytes(tensor);
    if (!bytes) return bytes.status();
    if (*bytes > io::kMostBytes - end) return refused("the tensors to write take more bytes than fit 63 bits");
    const std::uint64_t begin = std::exchange(end, end + *bytes);
    header[tensor.name] = {
        {"dtype", output_dtype(tensor.type)->name}, {"shape", tensor.shape}, {"data_offsets", {begin, end}}};
  }
  std::string text = header.dump();
  text.resize(io::ceil_div(text.size(), kAlignment) * kAlignment, ' ');
  return Header{length_field(text.size(), 8) + text, end};
}

/// Magic, version 1.0, length, a Python dict, spaces: the data then starts at a multiple of 64.
Result<Header> npy_header(std::span<const OutputTensor> tensors) {
  constexpr std::string_view kMagic("\x93NUMPY\x01\x00", 8);
  constexpr std::size_t kAlignment = 64, kLengthBytes = 2;
  if (tensors.size() != 1) {
    return refused("{} tensors to write as .npy; expected one (.safetensors holds any number)", tensors.size());
  }
  const OutputTensor& tensor = tensors[0];
  if (tensor.type == NIBBLE_BF16) {
    return refused("tensor {} to write as .npy is bf16; expected f32 or f16 (.safetensors holds bf16)",
                   quote(tensor.name));
  }
  const auto bytes = output_bytes(tensor);
  if (!bytes) return bytes.status();
  std::string dict = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}",
                                 tensor.type == NIBBLE_F32 ? "<f4" : "<f2", fmt::join(tensor.shape, ", "),
                                 tensor.shape.size() == 1 ? "," : "");
  const std::size_t before = kMagic.size() + kLengthBytes;
  dict.resize(io::ceil_div(before + dict.size() + 1, kAlignment) * kAlignment - before - 1, ' ');
  dict += '\n';
  if (dict.size() > std::numeric_limits<std::uint16_t>::max()) {
    return refused("tensor {} to write as .npy has {} dimensions, more than its header holds", quote(tensor.name),
                   tensor.shape.size());
  }
  return Header{std::string(kMagic) + length_field(dict.size(), kLengthBytes) + dict, *bytes};
}

struct Container {
  std::string_view ending;
  Result<Header> (*header)(std::span<const OutputTensor>);
};
constexpr Container kContainers[] = {{".safetensors", safetensors_header}, {".npy", npy_header}};

Result<Header> make_header(const std::string& path, std::span<const OutputTensor> tensors) {
  for (const Container& container : kContainers) {
    if (path.ends_with(container.ending)) return container.header(tensors);
  }
  return refused("output {} has an unknown ending; expected .safetensors or .npy", quote(path));
}

std::span<const std::uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

}  // namespace

struct TensorWriter::State {
  io::OutputFile file;
  std::uint64_t declared = 0;
  std::uint64_t appended = 0;
  Status ended;  ///< why nothing can follow: after a failure the file's end is unknown

  /// A failure is final: it is given again by every later call, so that no file with a gap is put in place.
  Status keep(Status status) {
    if (!status) ended = status;
    return status;
  }
};

TensorWriter::TensorWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
TensorWriter::TensorWriter(TensorWriter&&) noexcept = default;
TensorWriter& TensorWriter::operator=(TensorWriter&&) noexcept = default;
TensorWriter::~TensorWriter() = default;

Result<TensorWriter> TensorWriter::create(const std::string& path, std::span<const OutputTensor> tensors) {
  const auto header = make_header(path, tensors);
  if (!header) return header.status();
  auto file = io::OutputFile::create(path);
  if (!file) return file.status();
  if (Status status = file->write(bytes_of(header->text)); !status) return status;
  return TensorWriter(std::make_unique<State>(State{std::move(*file), header->data_bytes, 0, {}}));
}

Status TensorWriter::append(std::span<const std::uint8_t> bytes) {
  State& state = *state_;
  if (!state.ended) return state.ended;
  if (bytes.size() > state.declared - state.appended) {
    return state.keep(refused("{} bytes more for {}; expected at most {}, as declared", bytes.size(),
                              quote(state.file.path()), state.declared - state.appended));
  }
  state.appended += bytes.size();
  return state.keep(state.file.write(bytes));
}

Status TensorWriter::finish() {
  State& state = *state_;
  if (!state.ended) return state.ended;
  if (state.appended != state.declared) {
    return state.keep(refused("{} of {} declared bytes were given for {}; expected all of them", state.appended,
                              state.declared, quote(state.file.path())));
  }
  if (Status status = state.file.commit(); !status) return state.keep(std::move(status));
  state.ended = refused("{} is finished already", quote(state.file.path()));
  return {};
}

}  // namespace nibble
