// The table of rules that choose a kernel where tiers alone would not: data, not code.
// Apart from select so that every row can be printed, and proved reachable by a test.
#ifndef NIBBLE_DISPATCH_RULES_H
#define NIBBLE_DISPATCH_RULES_H

#include <nibble/abi.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace nibble {

/// A condition on a device and a request. Every field that is set must hold; a default-made one always holds.
struct When {
  enum class Arch : std::uint8_t { any, exactly, at_least };
  enum class Nested : std::uint8_t { any, yes, no };

  nibble_device_type device = 0;  ///< 0: any
  Arch arch = Arch::any;
  std::uint32_t arch_major = 0, arch_minor = 0;
  std::span<const nibble_format> formats{};  ///< of the weight; empty: any
  Nested nested = Nested::any;
  std::int64_t nested_block_size = 0;  ///< 0: any
  std::int64_t min_tokens = 0;
  std::int64_t max_tokens = INT64_MAX;
  std::int64_t min_values = 0;  ///< of the weight

  [[nodiscard]] bool holds(const nibble_caps& caps, const nibble_request& request) const;
  /// "cuda 10.3 exactly, nf4 or fp4, nested by 256"
  [[nodiscard]] std::string text() const;
};

struct Rule {
  nibble_op op;
  When when;
  std::string_view prefer;   ///< a kernel's name
  std::string_view because;  ///< ends the sentence that `explain` prints
};

/// In order; the first that holds and whose kernel is among the accepted ones wins.
std::span<const Rule> rules();

}  // namespace nibble

#endif
