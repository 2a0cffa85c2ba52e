// Runs a fuzzer's entry on files, for compilers that bring no fuzzer: replay FILE|FOLDER...
// Apart from the fuzzers because it is linked with either.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

namespace fs = std::filesystem;

bool replay(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::vector<char> text((std::istreambuf_iterator<char>(in)), {});
  if (!in) {
    std::fprintf(stderr, "cannot read %s\n", path.c_str());
    return false;
  }
  // Its own allocation of the exact size, so that a sanitizer sees a read past the end.
  const std::vector<std::uint8_t> bytes(text.begin(), text.end());
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  std::size_t count = 0;
  for (int i = 1; i < argc; ++i) {
    std::vector<fs::path> paths;
    if (fs::is_directory(argv[i])) {
      for (const auto& entry : fs::recursive_directory_iterator(argv[i])) {
        if (entry.is_regular_file()) paths.push_back(entry.path());
      }
    } else {
      paths.emplace_back(argv[i]);
    }
    for (const fs::path& path : paths) {
      if (!replay(path)) return 1;
      ++count;
    }
  }
  std::printf("%zu files replayed\n", count);
  return count > 0 ? 0 : 1;  // nothing replayed is no success
}
