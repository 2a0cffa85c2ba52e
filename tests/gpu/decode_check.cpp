// decode_check [--values] [--reduced] [--times]: the GPU decoders against the reference, and their times.
// Apart from the conformance tests because it links the decoders themselves: it needs no library, plugin or registry.
#include "tests/gpu/decode_cases.h"

#include <cstdio>
#include <string_view>

int main(int argc, char** argv) {
  bool values = argc == 1, reduced = false, times = argc == 1;
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    values |= flag == "--values" || flag == "--reduced";
    reduced |= flag == "--reduced";
    times |= flag == "--times";
  }
  if (!values && !times) {
    std::fprintf(stderr, "usage: decode_check [--values] [--reduced] [--times]\n");
    return 2;
  }
  const bool good = !values || nibble::decode_check::check_values(reduced);
  if (times) nibble::decode_check::print_times();
  return good ? 0 : 1;
}
