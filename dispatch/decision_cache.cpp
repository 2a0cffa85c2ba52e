// The table's lookups and insertions.
// Apart from the header so that the comparison of requests is compiled once.
#include "dispatch/decision_cache.h"

#include <cstring>

namespace nibble {
namespace {

/// 0 where all of a tensor agrees but where this call's data lies: what follows data and byte_offset, word by word and
/// without a branch, as this is most of what a kept plan costs.
std::uint64_t layout_difference(const Tensor& a, const Tensor& b) {
  constexpr std::size_t kFrom = offsetof(Tensor, device_type), kWord = sizeof(std::uint64_t);
  static_assert(sizeof(Tensor) == kFrom + 4 * sizeof(std::uint32_t) + 8 * sizeof(std::int64_t), "no padding");
  if ((a.rank | b.rank) == 0) return 0;
  std::uint64_t difference = 0;
  for (std::size_t at = kFrom; at < sizeof(Tensor); at += kWord) {
    std::uint64_t left, right;
    std::memcpy(&left, reinterpret_cast<const char*>(&a) + at, kWord);
    std::memcpy(&right, reinterpret_cast<const char*>(&b) + at, kWord);
    difference |= left ^ right;
  }
  return difference;
}

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
  return hash ^ hash >> 29;
}

/// A sum of products, which do not wait for each other.
std::uint64_t layout_hash(const Tensor& t) {
  if (t.rank == 0) return 0;
  const auto word = [](std::int64_t v) { return static_cast<std::uint64_t>(v); };
  return (std::uint64_t{t.format} << 32 | static_cast<std::uint32_t>(t.device_index)) * 0x9e3779b97f4a7c15u +
         word(t.shape[0]) * 0xbf58476d1ce4e5b9u + word(t.shape[1]) * 0x94d049bb133111ebu +
         word(t.shape[2]) * 0xd6e8feb86659fd93u + word(t.shape[3]) * 0xa0761d6478bd642fu +
         word(t.byte_stride[0]) * 0xe7037ed1a0b428dbu + word(t.byte_stride[1]) * 0x8ebc6af09c88c6e3u;
}

}  // namespace

Operands::Operands(const nibble_request& request) : any_result_(element_count(request.dst) != 0) {
  for (const std::size_t place : kTensorPlaces) {
    const Tensor& t = tensor_at(request, place);
    if (!present(t) || element_count(t) == 0) continue;
    const FormatInfo* info = find_format(t.format);  // known: of a request that validation passed
    const std::uint32_t zero_bits = info->block_values == 1 ? info->block_bytes - 1 : 0;
    list_[count_++] = {static_cast<std::uint16_t>(place), static_cast<std::uint16_t>(zero_bits)};
  }
}

bool same_tensors(const nibble_request& a, const nibble_request& b) {
  std::uint64_t difference = 0;
  for (const std::size_t place : kTensorPlaces)
    difference |= layout_difference(tensor_at(a, place), tensor_at(b, place));
  return difference == 0 && a.op == b.op && a.flags == b.flags && a.weight.block_size == b.weight.block_size &&
         a.weight.nested_block_size == b.weight.nested_block_size;
}

bool same_but_for_data(const nibble_request& a, const nibble_request& b) {
  return a.math == b.math && a.threads == b.threads && a.workspace_limit_bytes == b.workspace_limit_bytes &&
         same_tensors(a, b);
}

std::uint64_t request_hash(const nibble_request& r) {
  std::uint64_t hash = mix(std::uint64_t{r.op} << 40 | std::uint64_t{r.math} << 32 | r.flags,
                           r.workspace_limit_bytes ^ std::uint64_t{r.threads} << 48);
  hash = mix(hash, static_cast<std::uint64_t>(r.weight.block_size) ^ std::uint64_t{r.weight.nested_absmax.rank} << 60);
  hash = mix(hash, layout_hash(r.weight.packed));
  hash = mix(hash, layout_hash(r.dst));
  return mix(hash, layout_hash(r.src1));
}

DecisionCache::DecisionCache() : slots_(new std::atomic<const Plan::Choice*>[kSlots]()) {}

DecisionCache::~DecisionCache() {
  for (std::size_t i = 0; i < kSlots; ++i) delete slots_[i].load(std::memory_order_relaxed);
}

const Plan::Choice* DecisionCache::find(const nibble_request& request, std::uint64_t hash) const {
  for (std::size_t i = 0; i < kProbes; ++i) {
    const Plan::Choice* c = slots_[(hash + i) % kSlots].load(std::memory_order_acquire);
    if (c == nullptr) return nullptr;
    if (c->hash == hash && same_but_for_data(c->key, request)) return c;
  }
  return nullptr;
}

const Plan::Choice* DecisionCache::add(const Plan::Choice& choice) {
  auto owned = std::make_unique<Plan::Choice>(choice);
  for (std::size_t i = 0; i < kProbes; ++i) {
    const Plan::Choice* seen = nullptr;
    auto& slot = slots_[(choice.hash + i) % kSlots];
    if (slot.compare_exchange_strong(seen, owned.get(), std::memory_order_acq_rel)) return owned.release();
    if (seen->hash == choice.hash && same_but_for_data(seen->key, choice.key)) return seen;  // another thread's
  }
  return nullptr;
}

}  // namespace nibble
