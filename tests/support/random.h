// Deterministic random numbers: the same bytes for a name on every machine.
// Apart from <random> because its distributions differ between standard libraries.
#ifndef NIBBLE_TESTS_SUPPORT_RANDOM_H
#define NIBBLE_TESTS_SUPPORT_RANDOM_H

#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace nibble::test {

/// splitmix64, seeded by a case's name so that cases do not share data and order does not matter.
class Random {
 public:
  explicit Random(std::string_view name) {
    for (const char c : name) state_ = (state_ ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  }

  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
  }
  /// A whole number below `count`.
  std::uint64_t below(std::uint64_t count) { return next() % count; }
  /// From [low, high).
  double uniform(double low, double high) { return low + (high - low) * static_cast<double>(next() >> 11) * 0x1p-53; }
  /// Mean 0, deviation 1, at most 6: twelve uniform numbers, which needs no function of a mathematics library.
  float normal() {
    std::int64_t sum = 0;
    for (int i = 0; i < 3; ++i) {
      const std::uint64_t bits = next();
      for (int part = 0; part < 64; part += 16) sum += static_cast<std::int64_t>(bits >> part & 0xffffu);
    }
    return static_cast<float>(static_cast<double>(sum) / 65536.0 - 6.0 + 6.0 / 65536.0);
  }
  void fill(std::span<std::uint8_t> bytes) {
    for (std::size_t i = 0; i < bytes.size(); i += 8) {
      const std::uint64_t bits = next();
      std::memcpy(bytes.data() + i, &bits, bytes.size() - i < 8 ? bytes.size() - i : 8);
    }
  }

 private:
  std::uint64_t state_ = 0xcbf29ce484222325u;
};

}  // namespace nibble::test

#endif
