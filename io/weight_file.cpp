// WeightFile: a mapping, the parser that fits it, and lookups by name.
// Apart from the parsers because they work on bytes, wherever those lie.
#include <nibble/io.hpp>

#include "io/gguf.h"
#include "io/mapping.h"
#include "io/parsed_file.h"
#include "io/safetensors.h"
#include "io/text.h"

#include <algorithm>
#include <new>
#include <numeric>
#include <utility>

namespace nibble {

struct WeightFile::State {
  io::Mapping mapping;
  io::ParsedFile parsed;
};

namespace {

/// Insertions, deletions and substitutions that lead from a to b, whatever the case.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c; };
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t above = row[j + 1];
      row[j + 1] = std::min({row[j] + 1, above + 1, diagonal + (lower(a[i]) == lower(b[j]) ? 0 : 1)});
      diagonal = above;
    }
  }
  return row.back();
}

/// At most three names that contain `name` or lie near it, nearest first.
std::vector<std::string> near_names(std::span<const FileTensor> tensors, std::string_view name) {
  constexpr std::size_t kMost = 3, kLongest = 256;
  std::vector<std::pair<std::size_t, std::string_view>> near;
  if (name.size() > kLongest) return {};
  for (const FileTensor& t : tensors) {
    if (t.name.size() > kLongest) continue;
    const bool contains = !name.empty() && t.name.find(name) != std::string::npos;
    const std::size_t distance = contains ? 0 : edit_distance(t.name, name);
    if (contains || distance <= std::max<std::size_t>(2, name.size() / 3)) near.emplace_back(distance, t.name);
  }
  std::sort(near.begin(), near.end());
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(kMost, near.size()); ++i) names.push_back(quote(near[i].second));
  return names;
}

Status with_path(const Status& status, const std::string& path) {
  return {status.code(), fmt::format("{}: {}", quote(path), status.message())};
}

Result<io::ParsedFile> parse(std::span<const std::uint8_t> bytes) {
  if (io::is_gguf(bytes)) return io::parse_gguf(bytes);
  if (io::is_safetensors(bytes)) return io::parse_safetensors(bytes);
  return io::bad_file("neither GGUF nor safetensors; expected 'GGUF', or a length and a JSON object, at its start");
}

}  // namespace

Result<WeightFile> WeightFile::open(const std::string& path) {
  auto mapping = io::Mapping::open(path);
  if (!mapping) return mapping.status();
  // The parsers check each count against the bytes that are left, yet a large file may list more than memory holds.
  try {
    auto parsed = parse(mapping->bytes());
    if (!parsed) return with_path(parsed.status(), path);
    return WeightFile(std::make_unique<State>(State{std::move(*mapping), std::move(*parsed)}));
  } catch (const std::bad_alloc&) {
    return io::failure(NIBBLE_OUT_OF_MEMORY, "{}: not enough memory to list its tensors", quote(path));
  }
}

WeightFile::WeightFile(std::unique_ptr<State> state) : state_(std::move(state)) {}
WeightFile::WeightFile(WeightFile&&) noexcept = default;
WeightFile& WeightFile::operator=(WeightFile&&) noexcept = default;
WeightFile::~WeightFile() = default;

std::span<const FileTensor> WeightFile::tensors() const { return state_->parsed.tensors; }
std::string_view WeightFile::kind() const { return state_->parsed.kind; }

Result<const FileTensor*> WeightFile::find(std::string_view name) const {
  const auto all = tensors();
  const auto found = std::find_if(all.begin(), all.end(), [&](const FileTensor& t) { return t.name == name; });
  if (found != all.end()) return &*found;
  const std::vector<std::string> near = near_names(all, name);
  if (near.empty()) {
    return io::failure(NIBBLE_NOT_FOUND, "no tensor {}: expected one of the {} in the file", quote(name), all.size());
  }
  return io::failure(NIBBLE_NOT_FOUND, "no tensor {}: expected a name such as {}", quote(name), fmt::join(near, ", "));
}

}  // namespace nibble
