// TensorWriter: safetensors and .npy, under a temporary name until they are whole.
// Apart from the readers because nothing is shared but the names of element types.
#include <nibble/io.hpp>

#include "io/dtype.h"
#include "io/sizes.h"
#include "io/text.h"

#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <set>

namespace nibble {
namespace {

using io::failure;
using io::quote;

std::string_view dtype_name(Format type) {
  for (const io::Dtype& d : io::kDtypes) {
    if (d.weight == type) return d.name;
  }
  return {};
}

Status os_failure(std::string_view what, const std::string& path, int error) {
  return failure(NIBBLE_IO_ERROR, "{} {}: {}", what, path, io::os_words(error));
}

Result<std::uint64_t> bytes_of_output(const OutputTensor& t) {
  const auto elements = io::element_product(t.shape);
  if (dtype_name(t.type).empty()) {
    return failure(NIBBLE_INVALID_ARGUMENT, "tensor {} has type {}: expected f32, f16 or bf16", quote(t.name), format_name(t.type));
  }
  const auto bytes = elements ? io::checked_product(*elements, t.type == NIBBLE_F32 ? 4 : 2) : std::nullopt;
  if (!bytes) return failure(NIBBLE_INVALID_ARGUMENT, "tensor {} of shape [{}]: its bytes do not fit 63 bits", quote(t.name), fmt::join(t.shape, ", "));
  return *bytes;
}

/// Length, JSON, spaces up to a multiple of 8: readers may then map the data aligned.
Result<std::string> safetensors_header(std::span<const OutputTensor> tensors) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  header["__metadata__"] = {{"format", "pt"}};
  std::set<std::string_view> names;
  std::uint64_t offset = 0;
  for (const OutputTensor& t : tensors) {
    if (!names.insert(t.name).second) return failure(NIBBLE_INVALID_ARGUMENT, "two tensors to write are named {}: expected different names", quote(t.name));
    if (t.name == "__metadata__" || !io::is_utf8(t.name)) {
      return failure(NIBBLE_INVALID_ARGUMENT, "tensor name {}: expected UTF-8 other than __metadata__", quote(t.name));
    }
    auto bytes = bytes_of_output(t);
    if (!bytes) return bytes.status();
    header[t.name] = {{"dtype", dtype_name(t.type)}, {"shape", t.shape}, {"data_offsets", {offset, offset + *bytes}}};
    offset += *bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string out;
  for (int i = 0; i < 8; ++i) out += static_cast<char>(text.size() >> 8 * i & 0xff);
  return out + text;
}

/// Magic, version 1.0, the length of a Python dict, padded so that the data starts at a multiple of 64.
Result<std::string> npy_header(std::span<const OutputTensor> tensors) {
  if (tensors.size() != 1) return failure(NIBBLE_INVALID_ARGUMENT, "{} tensors to write to .npy: expected one; .safetensors holds any number", tensors.size());
  const OutputTensor& t = tensors[0];
  if (t.type == NIBBLE_BF16) return failure(NIBBLE_INVALID_ARGUMENT, "tensor {} is bf16: expected f32 or f16 for .npy; .safetensors holds bf16", quote(t.name));
  if (auto bytes = bytes_of_output(t); !bytes) return bytes.status();
  std::string dict = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", t.type == NIBBLE_F32 ? "<f4" : "<f2",
                                 fmt::join(t.shape, ", "), t.shape.size() == 1 ? "," : "");
  constexpr std::size_t kFixed = 10, kAlignment = 64;
  dict.resize((kFixed + dict.size() + 1 + kAlignment - 1) / kAlignment * kAlignment - kFixed - 1, ' ');
  dict += '\n';
  std::string out("\x93NUMPY\x01\x00", 8);
  out += static_cast<char>(dict.size() & 0xff);
  out += static_cast<char>(dict.size() >> 8 & 0xff);
  return out + dict;
}

}  // namespace

struct TensorWriter::State {
  std::string path, temporary;
  int file = -1;
  std::uint64_t expected = 0, appended = 0;

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (file >= 0) ::close(file);
    if (!temporary.empty()) ::unlink(temporary.c_str());
  }

  Status write(const void* data, std::size_t bytes) const {
    const auto* at = static_cast<const char*>(data);
    while (bytes > 0) {
      const ssize_t n = ::write(file, at, bytes);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return os_failure("cannot write", path, n < 0 ? errno : ENOSPC);
      at += n;
      bytes -= static_cast<std::size_t>(n);
    }
    return {};
  }

  /// A new file beside the target, with the permissions that a plain creation would give.
  Status create_temporary() {
    struct stat info {};
    if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
      return failure(NIBBLE_INVALID_ARGUMENT, "output {} exists and is no regular file: expected a file or a new name", path);
    }
    std::string name = path + ".XXXXXX";
    file = ::mkstemp(name.data());
    if (file < 0) return os_failure("cannot create", path, errno);
    temporary = name;
    const mode_t mask = ::umask(0);
    ::umask(mask);
    if (::fchmod(file, 0666 & ~mask) != 0) return os_failure("cannot create", path, errno);
    return {};
  }
};

TensorWriter::TensorWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
TensorWriter::TensorWriter(TensorWriter&&) noexcept = default;
TensorWriter& TensorWriter::operator=(TensorWriter&&) noexcept = default;
TensorWriter::~TensorWriter() = default;

Result<TensorWriter> TensorWriter::create(const std::string& path, std::span<const OutputTensor> tensors) {
  const bool npy = path.ends_with(".npy");
  if (!npy && !path.ends_with(".safetensors")) {
    return failure(NIBBLE_INVALID_ARGUMENT, "output {}: expected a name that ends in .safetensors or .npy", path);
  }
  auto header = npy ? npy_header(tensors) : safetensors_header(tensors);
  if (!header) return header.status();
  auto state = std::make_unique<State>();
  state->path = path;
  for (const OutputTensor& t : tensors) state->expected += bytes_of_output(t).value();
  if (Status s = state->create_temporary(); !s) return s;
  if (Status s = state->write(header->data(), header->size()); !s) return s;
  return TensorWriter(std::move(state));
}

Status TensorWriter::append(std::span<const std::uint8_t> bytes) {
  if (bytes.size() > state_->expected - state_->appended) {
    return failure(NIBBLE_INVALID_ARGUMENT, "{} more bytes for {}: expected at most {}, as declared", bytes.size(), state_->path, state_->expected - state_->appended);
  }
  if (Status s = state_->write(bytes.data(), bytes.size()); !s) return s;
  state_->appended += bytes.size();
  return {};
}

Status TensorWriter::finish() {
  State& s = *state_;
  if (s.appended != s.expected) {
    return failure(NIBBLE_INVALID_ARGUMENT, "{} of {} bytes were given for {}: expected all", s.appended, s.expected, s.path);
  }
  const int closed = ::close(s.file);
  s.file = -1;
  if (closed != 0) return os_failure("cannot write", s.path, errno);
  if (::rename(s.temporary.c_str(), s.path.c_str()) != 0) return os_failure("cannot put in place", s.path, errno);
  s.temporary.clear();
  return {};
}

}  // namespace nibble
