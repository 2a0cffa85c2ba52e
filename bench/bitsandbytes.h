// bitsandbytes as a rival in the same run: the decoders of its wheel's CPU library.
// Apart from the benchmarks because nothing of bitsandbytes is needed to build them.
#ifndef NIBBLE_BENCH_BITSANDBYTES_H
#define NIBBLE_BENCH_BITSANDBYTES_H

#include <nibble/nibble.hpp>

#include <cstdint>
#include <functional>

namespace nibble::bench {

/// The library in the folder that NIBBLE_BENCH_BITSANDBYTES names (libbitsandbytes_cpu.so).
class BitsAndBytes {
 public:
  /// Nothing where the variable is not set; an error where it is and the library does not load.
  static Result<const BitsAndBytes*> load();

  /// A call that decodes a matrix, plain statistics, on the calling thread alone; empty where there is no function for
  /// it. The weight and the result must outlive the call.
  std::function<void()> decoder(const Weight& weight, Format to, void* result) const;

 private:
  void* opened_ = nullptr;
};

}  // namespace nibble::bench

#endif
