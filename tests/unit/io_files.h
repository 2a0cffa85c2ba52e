// Bytes of GGUF and safetensors files, good ones and such with a chosen fault, and a folder to put them in.
// Apart from the tests because each container's test and the writers' build files the same way.
#ifndef NIBBLE_TESTS_UNIT_IO_FILES_H
#define NIBBLE_TESTS_UNIT_IO_FILES_H

#include <nibble/io.hpp>

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nibble::test {

/// A new folder, removed with all that is in it.
class Folder {
 public:
  Folder() {
    std::string name = ::testing::TempDir() + "nibble-io-XXXXXX";
    path_ = ::mkdtemp(name.data());
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path_); }

  [[nodiscard]] std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) names.push_back(entry.path().filename());
    return names;
  }
  std::string put(std::string_view name, std::string_view bytes) const {
    std::ofstream(*this / name, std::ios::binary) << bytes;
    return *this / name;
  }

 private:
  std::string path_;
};

inline std::string read_all(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

template <class T>
std::string little_endian(T value) {
  std::string out;
  for (std::size_t i = 0; i < sizeof value; ++i) {
    out += static_cast<char>(static_cast<std::uint64_t>(value) >> 8 * i & 0xFFu);
  }
  return out;
}
inline std::string u32(std::uint32_t value) { return little_endian(value); }
inline std::string u64(std::uint64_t value) { return little_endian(value); }

inline std::string floats(const std::vector<float>& values) {
  std::string out;
  for (const float value : values) out += u32(std::bit_cast<std::uint32_t>(value));
  return out;
}

// GGUF

inline std::string gguf_string(std::string_view text) { return u64(text.size()) + std::string(text); }
inline std::string gguf_key(std::string_view name, std::uint32_t type, std::string_view value) {
  return gguf_string(name) + u32(type) + std::string(value);
}

struct GgufTensor {
  std::string name;
  std::vector<std::uint64_t> dimensions;  // innermost first, as the file has them
  std::uint32_t type = NIBBLE_F32;
  std::string data = {};
  std::optional<std::uint64_t> offset = {};  // where it claims to lie, if that is not where it lies
};

struct GgufFile {
  std::string magic = "GGUF";
  std::uint32_t version = 3;
  std::optional<std::uint64_t> tensor_count = {}, key_count = {};  // if they are not the true ones
  std::vector<std::string> keys;
  std::vector<GgufTensor> tensors;
  std::uint32_t alignment = 32;
};

inline void pad(std::string& bytes, std::size_t alignment) {
  bytes.resize((bytes.size() + alignment - 1) / alignment * alignment);
}

inline std::string build(const GgufFile& file) {
  std::string out = file.magic + u32(file.version) + u64(file.tensor_count.value_or(file.tensors.size())) +
                    u64(file.key_count.value_or(file.keys.size()));
  for (const std::string& key : file.keys) out += key;
  std::string data;
  for (const GgufTensor& tensor : file.tensors) {
    pad(data, file.alignment);
    out += gguf_string(tensor.name) + u32(static_cast<std::uint32_t>(tensor.dimensions.size()));
    for (const std::uint64_t dimension : tensor.dimensions) out += u64(dimension);
    out += u32(tensor.type) + u64(tensor.offset.value_or(data.size()));
    data += tensor.data;
  }
  pad(out, file.alignment);
  return out + data;
}

// safetensors

inline std::string safetensors(std::string_view header, std::string_view data = {},
                               std::optional<std::uint64_t> length = {}) {
  return u64(length.value_or(header.size())) + std::string(header) + std::string(data);
}

struct Stored {
  std::string name, dtype;
  std::vector<std::int64_t> shape;
  std::string data;
};

inline std::string build(const std::vector<Stored>& tensors) {
  std::string header = "{", data;
  for (const Stored& tensor : tensors) {
    std::string shape;
    for (const std::int64_t dimension : tensor.shape) {
      shape += (shape.empty() ? "" : ",") + std::to_string(dimension);
    }
    header += (header.size() > 1 ? ",\"" : "\"") + tensor.name + "\":{\"dtype\":\"" + tensor.dtype + "\",\"shape\":[" +
              shape + "],\"data_offsets\":[" + std::to_string(data.size()) + "," +
              std::to_string(data.size() + tensor.data.size()) + "]}";
    data += tensor.data;
  }
  return safetensors(header + "}", data);
}

// What a file with one fault must give

struct BadFile {
  std::string name;
  std::function<std::string()> bytes;
  std::vector<std::string> words;  // each must be in the message
};
inline void PrintTo(const BadFile& bad, std::ostream* out) { *out << bad.name; }

inline std::string case_name(const ::testing::TestParamInfo<BadFile>& info) { return info.param.name; }

inline void expect_line_with(const Status& status, nibble_status code, const std::vector<std::string>& words) {
  EXPECT_EQ(status.code(), code) << status.message();
  EXPECT_EQ(status.message().find('\n'), std::string::npos) << status.message();
  for (const std::string& word : words) {
    EXPECT_NE(status.message().find(word), std::string::npos) << "no '" << word << "' in: " << status.message();
  }
}

/// The file is refused with one line that names it and has all the words.
inline void expect_refused(const BadFile& bad) {
  const Folder folder;
  const auto file = WeightFile::open(folder.put("bad.bin", bad.bytes()));
  ASSERT_FALSE(file.ok());
  expect_line_with(file.status(), NIBBLE_BAD_FILE, {"bad.bin"});
  expect_line_with(file.status(), NIBBLE_BAD_FILE, bad.words);
}

/// Opens bytes that must be good; the folder may go, the mapping stays.
inline WeightFile open_good(std::string_view bytes) {
  const Folder folder;
  auto file = WeightFile::open(folder.put("good.bin", bytes));
  if (!file) {
    ADD_FAILURE() << file.status().message();
    std::abort();
  }
  return std::move(*file);
}

inline const FileTensor& tensor_of(const WeightFile& file, std::string_view name) {
  const auto found = file.find(name);
  if (!found) {
    ADD_FAILURE() << found.status().message();
    std::abort();
  }
  return **found;
}

inline std::string bytes_at(const Tensor& tensor, std::size_t count) {
  return {reinterpret_cast<const char*>(nibble::bytes_of(tensor)), count};
}

}  // namespace nibble::test

#endif
