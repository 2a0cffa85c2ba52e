// The container's offsets against its data, and its tensors as weights.
// Apart from the header's parser because this half knows offsets and no JSON.
//
//   length u64 | JSON header of that length | data; an entry's offsets count from the start of the data
#include "io/safetensors.h"

#include "io/bitsandbytes.h"
#include "io/byte_reader.h"
#include "io/dtype.h"
#include "io/safetensors_header.h"
#include "io/sizes.h"
#include "io/text.h"

#include <algorithm>
#include <cctype>

namespace nibble::io {
namespace {

constexpr std::uint64_t kMostHeaderBytes = 100'000'000;  // the format's own bound

/// The size that type and shape demand, against the span that the offsets give.
Status check_span(const HeaderEntry& entry, std::uint64_t data_bytes) {
  const std::uint64_t begin = entry.offsets[0], end = entry.offsets[1];
  if (begin > end) return bad_file("tensor {} has offsets {} and {}; expected them in order", quote(entry.name), begin, end);
  if (end > data_bytes) {
    return bad_file("tensor {} ends at byte {} of the data; expected at most {}, where the file ends", quote(entry.name), end, data_bytes);
  }
  const auto elements = element_product(entry.shape);
  const Dtype* dtype = find_dtype(entry.dtype);
  const auto bits = elements ? checked_product(*elements, dtype != nullptr ? dtype->bits : 1) : std::nullopt;
  if (!bits) {
    return bad_file("tensor {} of shape [{}]: the product of its dimensions does not fit 63 bits", quote(entry.name), fmt::join(entry.shape, ", "));
  }
  if (dtype != nullptr && (*bits % 8 != 0 || *bits / 8 != end - begin)) {
    return bad_file("tensor {} of shape [{}] and type {} spans {} bytes; expected {}", quote(entry.name),
                    fmt::join(entry.shape, ", "), entry.dtype, end - begin, ceil_div(*bits, 8));
  }
  return {};
}

/// The format has the data covered without overlap and without holes.
Status check_cover(const std::vector<HeaderEntry>& entries, std::uint64_t data_bytes) {
  std::vector<const HeaderEntry*> sorted;
  for (const HeaderEntry& e : entries) sorted.push_back(&e);
  std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) { return a->offsets < b->offsets; });
  std::uint64_t end = 0;
  for (const HeaderEntry* e : sorted) {
    if (e->offsets[0] != end) {
      return bad_file("tensor {} begins at byte {} of the data; expected {}, where the one before it ends", quote(e->name), e->offsets[0], end);
    }
    end = e->offsets[1];
  }
  if (end != data_bytes) return bad_file("the tensors end at byte {} of the data; expected {}, where the file ends", end, data_bytes);
  return {};
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

}  // namespace

bool is_safetensors(std::span<const std::uint8_t> bytes) { return bytes.size() > 8 && bytes[8] == '{'; }

Result<std::vector<StoredTensor>> read_safetensors(std::span<const std::uint8_t> bytes) {
  ByteReader reader(bytes);
  std::uint64_t length = 0;
  if (!reader.read(length)) return bad_file("safetensors file of {} bytes; expected at least 8, the header's length", bytes.size());
  if (length > reader.remaining() || length > kMostHeaderBytes) {
    return bad_file("the header claims {} bytes; expected at most {}", length, std::min(reader.remaining(), kMostHeaderBytes));
  }
  const auto text = bytes.subspan(8, static_cast<std::size_t>(length));
  auto entries = parse_safetensors_header({reinterpret_cast<const char*>(text.data()), text.size()});
  if (!entries) return entries.status();
  const auto data = bytes.subspan(8 + static_cast<std::size_t>(length));
  for (const HeaderEntry& e : *entries) {
    if (Status s = check_span(e, data.size()); !s) return s;
  }
  if (Status s = check_cover(*entries, data.size()); !s) return s;
  std::vector<StoredTensor> tensors;
  for (HeaderEntry& e : *entries) {
    tensors.push_back({std::move(e.name), std::move(e.dtype), std::move(e.shape), data.subspan(e.offsets[0], e.offsets[1] - e.offsets[0])});
  }
  return tensors;
}

Result<ParsedFile> parse_safetensors(std::span<const std::uint8_t> bytes) {
  auto stored = read_safetensors(bytes);
  if (!stored) return stored.status();
  ParsedFile file;
  file.kind = "safetensors";
  std::vector<bool> taken = take_quantized_states(*stored, file);
  for (std::size_t i = 0; i < stored->size(); ++i) {
    if (taken[i]) continue;
    const StoredTensor& s = (*stored)[i];
    FileTensor t;
    t.name = s.name;
    t.type = lower(s.dtype);
    t.shape = s.shape;
    t.bytes = s.data.size();
    const Dtype* dtype = find_dtype(s.dtype);
    if (dtype == nullptr || !dtype->weight) {
      t.usable = not_a_weight(s.name, t.type);
      // Bytes can still be looked at: 8-bit blockwise weights lie in files as plain u8 beside their statistics.
      if (s.dtype == "U8") t.weight = make_weight(view_of(s.data, NIBBLE_U8, s.shape));
    } else {
      t.weight = make_weight(view_of(s.data, *dtype->weight, s.shape));
      t.own_type = *dtype->weight;
    }
    file.tensors.push_back(std::move(t));
  }
  return file;
}

}  // namespace nibble::io
