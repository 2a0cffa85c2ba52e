// A user's program: opens the file it is given, decodes its first usable tensor, says which kernel would serve.
// Apart from the project's own tests because it is built against an install.
#include <nibble/io.hpp>
#include <nibble/nibble.hpp>

#include <cstdio>

extern "C" std::size_t request_size_in_c(void);

int main(int argc, char** argv) {
  if (argc != 2 || request_size_in_c() != sizeof(nibble_request)) return 2;
  auto file = nibble::WeightFile::open(argv[1]);
  if (!file) return std::puts(file.status().message().c_str()), 1;
  for (const nibble::FileTensor& t : file->tensors()) {
    if (!t.usable) continue;
    auto values = nibble::dequantize(t.weight, NIBBLE_F32);
    if (!values) return std::puts(values.status().message().c_str()), 1;
    nibble_request r = nibble::make_request(NIBBLE_OP_DEQUANTIZE);
    r.weight = t.weight;
    r.dst = values->view();
    const auto& registry = nibble::Registry::default_registry();
    if (!registry) return std::puts(registry.status().message().c_str()), 1;
    std::printf("%s: first value %g, by %s\n", t.name.c_str(),
                static_cast<double>(*static_cast<const float*>(values->view().data)),
                registry->explain(r)->kernel.c_str());
    return 0;
  }
  return 1;
}
