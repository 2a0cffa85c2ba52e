// Past decisions by request: what makes a repeated call cheap. Lock-free to read, and to add to.
// Apart from the registry so that its memory order and its bounds can be read and tested alone.
#ifndef NIBBLE_DISPATCH_DECISION_CACHE_H
#define NIBBLE_DISPATCH_DECISION_CACHE_H

#include <nibble/nibble.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace nibble {

/// Where in a request its tensors lie.
inline constexpr std::size_t kTensorPlaces[] = {offsetof(nibble_request, weight.packed),
                                                offsetof(nibble_request, weight.code),
                                                offsetof(nibble_request, weight.absmax),
                                                offsetof(nibble_request, weight.nested_absmax),
                                                offsetof(nibble_request, weight.nested_code),
                                                offsetof(nibble_request, src1),
                                                offsetof(nibble_request, bias),
                                                offsetof(nibble_request, dst)};

inline const Tensor& tensor_at(const nibble_request& request, std::size_t place) {
  return *reinterpret_cast<const Tensor*>(reinterpret_cast<const char*>(&request) + place);
}

/// What each call's data must be: tensors that have elements, and the bits of their address that must be 0.
class Operands {
 public:
  Operands() = default;
  explicit Operands(const nibble_request& request);
  /// False where the result has no elements, so that there is no work.
  [[nodiscard]] bool any_result() const { return any_result_; }
  /// False where some data is missing or not aligned; check_data has the words.
  [[nodiscard]] bool ready(const nibble_request& request) const {
    bool good = true;
    for (std::size_t i = 0; i < count_; ++i) {
      const Tensor& t = tensor_at(request, list_[i].place);
      const std::uintptr_t address = reinterpret_cast<std::uintptr_t>(t.data) + t.byte_offset;
      good &= t.data != nullptr && (address & list_[i].zero_bits) == 0;
    }
    return good;
  }

 private:
  struct Operand {
    std::uint16_t place, zero_bits;
  };
  std::array<Operand, std::size(kTensorPlaces)> list_{};
  std::size_t count_ = 0;
  bool any_result_ = false;
};

/// A kernel for requests of one shape, with all that running it needs.
struct Plan::Choice {
  nibble_request key{};  ///< its pointers and offsets mean nothing
  std::uint64_t hash = 0;
  const nibble_kernel* kernel = nullptr;
  const nibble_caps* caps = nullptr;
  const nibble_memory* memory = nullptr;  ///< nullptr: the host's own
  nibble_workspace_need need{};
  Operands operands;
};

/// True where two requests ask for the same of tensors of the same layouts; math, threads and the limit of workspace,
/// which settings fill in where the caller leaves them, are not looked at.
bool same_tensors(const nibble_request& a, const nibble_request& b);
/// True where two requests differ in nothing but data pointers and byte offsets.
bool same_but_for_data(const nibble_request& a, const nibble_request& b);
/// Of the fields that tell requests apart most often; equal for requests that are the same but for data.
std::uint64_t request_hash(const nibble_request& request);

/// A table of fixed size; a choice once put in stays until the cache goes, so readers need no lock. When the places
/// for a hash are taken, the decision is made anew each time instead: slower, never wrong.
class DecisionCache {
 public:
  DecisionCache();
  DecisionCache(const DecisionCache&) = delete;
  DecisionCache& operator=(const DecisionCache&) = delete;
  ~DecisionCache();

  /// nullptr where it is not remembered.
  [[nodiscard]] const Plan::Choice* find(const nibble_request& request, std::uint64_t hash) const;
  /// The remembered choice, or nullptr where there was no place.
  const Plan::Choice* add(const Plan::Choice& choice);

 private:
  static constexpr std::size_t kSlots = 1024, kProbes = 8;
  std::unique_ptr<std::atomic<const Plan::Choice*>[]> slots_;
};

}  // namespace nibble

#endif
