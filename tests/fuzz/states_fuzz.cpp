// Tensors as a safetensors file could hold them, put together to bitsandbytes weights: each is refused with one line,
// or its views hold and it decodes. Apart from the container's fuzzer, whose inputs seldom reach a state: there names,
// offsets and JSON must fit first.
#include "core/formats/fp4.h"
#include "core/formats/nf4.h"
#include "io/bitsandbytes.h"
#include "io/dtype.h"
#include "io/sizes.h"
#include "tests/fuzz/bytes.h"
#include "tests/fuzz/check_views.h"

#include <cstring>
#include <list>
#include <set>

namespace nibble::fuzz {
namespace {

// Names that make and break families; two weights, one of them named like a part of the other.
constexpr const char* kNames[] = {"W",
                                  "W.absmax",
                                  "W.quant_map",
                                  "W.nested_absmax",
                                  "W.nested_quant_map",
                                  "W.quant_state.bitsandbytes__nf4",
                                  "W.quant_state.bitsandbytes__fp4",
                                  "W.absmax.quant_state.bitsandbytes__nf4",
                                  "W.absmax.absmax",
                                  "W.absmax.quant_map",
                                  ".quant_state.bitsandbytes__nf4",
                                  "plain"};

constexpr std::uint64_t kMostElements = 4096;

// The codes that a state must bring, as an input can hardly guess them.
enum Content : std::uint8_t { kInput, kNf4Codes, kFp4Codes, kContentCount };

/// One tensor of the input: name, type, rank and content in a byte each, dimensions, then the bytes. As the container
/// promises, the bytes are as many as shape and type ask for.
bool read_tensor(Bytes& in, std::list<std::vector<std::uint8_t>>& owned, io::StoredTensor& out) {
  out.name = kNames[in.u8() % std::size(kNames)];
  const io::Dtype& dtype = io::kDtypes[in.u8() % std::size(io::kDtypes)];
  out.dtype = dtype.name;
  const unsigned rank = in.u8() % 4, content = in.u8() % kContentCount;
  for (unsigned d = 0; d < rank; ++d) out.shape.push_back(in.u16());
  const auto elements = io::element_product(out.shape);
  if (!elements || *elements > kMostElements || *elements * dtype.bits % 8 != 0) return false;
  owned.push_back(in.fill(static_cast<std::size_t>(*elements * dtype.bits / 8)));
  std::vector<std::uint8_t>& data = owned.back();
  const auto& codes = content == kNf4Codes ? format::NF4::kCodes : format::FP4::kCodes;
  if (content != kInput && data.size() >= sizeof codes) std::memcpy(data.data(), codes, sizeof codes);
  out.data = data;
  return true;
}

void assemble(Bytes in) {
  constexpr std::size_t kMostTensors = 16;
  std::list<std::vector<std::uint8_t>> owned;
  std::vector<io::StoredTensor> stored;
  std::set<std::string> names;
  while (!in.empty() && stored.size() < kMostTensors) {
    io::StoredTensor tensor;
    if (!read_tensor(in, owned, tensor)) return;
    // The container refuses a name that it has twice.
    if (names.insert(tensor.name).second) stored.push_back(std::move(tensor));
  }
  io::ParsedFile file;
  io::assemble_weights(stored, file);
  check_views(file);
}

}  // namespace
}  // namespace nibble::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  nibble::fuzz::assemble({data, size});
  return 0;
}
