// Past decisions by request: what makes a repeated call cheap. Lock-free to read, and to add to.
// Apart from the registry so that its memory order and its bounds can be read and tested alone.
#ifndef NIBBLE_DISPATCH_DECISION_CACHE_H
#define NIBBLE_DISPATCH_DECISION_CACHE_H

#include <nibble/nibble.hpp>

#include <atomic>
#include <cstdint>
#include <memory>

namespace nibble {

/// A kernel for requests of one shape, with all that running it needs.
struct Plan::Choice {
  nibble_request key{};  ///< its pointers and offsets mean nothing
  std::uint64_t hash = 0;
  const nibble_kernel* kernel = nullptr;
  const nibble_caps* caps = nullptr;
  const nibble_memory* memory = nullptr;  ///< nullptr: the host's own
  nibble_workspace_need need{};
};

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
