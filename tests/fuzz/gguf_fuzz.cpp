// Any bytes as a GGUF file: the parser refuses them with one line, or its views hold.
// Apart from the other container's fuzzer because each needs its own corpus.
#include "io/gguf.h"
#include "tests/fuzz/check_views.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto file = nibble::io::parse_gguf({data, size});
  if (file) {
    nibble::fuzz::check_views(*file);
  } else if (file.status().message().find('\n') != std::string::npos) {
    std::abort();
  }
  return 0;
}
