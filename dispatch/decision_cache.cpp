// The table's lookups and insertions.
// Apart from the header so that the comparison of requests is compiled once.
#include "dispatch/decision_cache.h"

#include <cstring>

namespace nibble {
namespace {

bool same_layout(const Tensor& a, const Tensor& b) {
  // From device_type on, a tensor is what the request asks; before it, where this call's data lies. No padding.
  constexpr std::size_t kFrom = offsetof(Tensor, device_type);
  static_assert(sizeof(Tensor) == kFrom + 4 * sizeof(std::uint32_t) + 8 * sizeof(std::int64_t));
  if (a.rank == 0 && b.rank == 0) return true;
  return std::memcmp(reinterpret_cast<const char*>(&a) + kFrom, reinterpret_cast<const char*>(&b) + kFrom,
                     sizeof(Tensor) - kFrom) == 0;
}

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
  return hash ^ hash >> 29;
}

std::uint64_t mix_tensor(std::uint64_t hash, const Tensor& t) {
  if (t.rank == 0) return hash;
  hash = mix(hash, std::uint64_t{t.format} << 32 | static_cast<std::uint32_t>(t.device_index));
  for (const std::int64_t d : t.shape) hash = mix(hash, static_cast<std::uint64_t>(d));
  return mix(hash, static_cast<std::uint64_t>(t.byte_stride[0] ^ t.byte_stride[1] << 20));
}

}  // namespace

bool same_but_for_data(const nibble_request& a, const nibble_request& b) {
  const Weight &v = a.weight, &w = b.weight;
  return a.op == b.op && a.math == b.math && a.flags == b.flags && a.threads == b.threads &&
         a.workspace_limit_bytes == b.workspace_limit_bytes && v.block_size == w.block_size &&
         v.nested_block_size == w.nested_block_size && same_layout(v.packed, w.packed) && same_layout(a.dst, b.dst) &&
         same_layout(a.src1, b.src1) && same_layout(a.bias, b.bias) && same_layout(v.absmax, w.absmax) &&
         same_layout(v.nested_absmax, w.nested_absmax) && same_layout(v.nested_code, w.nested_code) &&
         same_layout(v.code, w.code);
}

std::uint64_t request_hash(const nibble_request& r) {
  std::uint64_t hash = mix(std::uint64_t{r.op} << 40 | std::uint64_t{r.math} << 32 | r.flags,
                           r.workspace_limit_bytes ^ std::uint64_t{r.threads} << 48);
  hash = mix(hash, static_cast<std::uint64_t>(r.weight.block_size) ^ std::uint64_t{r.weight.nested_absmax.rank} << 60);
  hash = mix_tensor(hash, r.weight.packed);
  hash = mix_tensor(hash, r.dst);
  return mix_tensor(hash, r.src1);
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
