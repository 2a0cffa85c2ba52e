// A user's program: the three operations as the README shows them, on a weight of its own and on the file it is given.
// Apart from the project's own tests because it is built against an install.
#include <nibble/io.hpp>
#include <nibble/nibble.hpp>

#include <cstdio>
#include <vector>

extern "C" std::size_t request_size_in_c(void);

namespace {

/// W[in, out] is 2 in its first column and 0 elsewhere, so both products are sums that can be done in the head.
bool products_are_right() {
  constexpr std::int64_t in = 3, out = 2, tokens = 4;
  std::vector<float> w = {2, 0, 0, 2, 0, 0}, grad(out * tokens, 1.0f), x(in * tokens, 3.0f);
  std::vector<float> dst(in * tokens), y(out * tokens), bias = {0.5f, 0.25f};
  const nibble::Weight weight = nibble::make_weight(nibble::make_tensor(w.data(), NIBBLE_F32, {in, out}));
  const nibble::Tensor g = nibble::make_tensor(grad.data(), NIBBLE_F32, {out, tokens});
  nibble::Status s =
      nibble::out_prod(weight, nibble::transposed(g), nibble::make_tensor(dst.data(), NIBBLE_F32, {in, tokens}));
  if (!s) return std::puts(s.message().c_str()), false;
  s = nibble::linear(weight, nibble::make_tensor(x.data(), NIBBLE_F32, {in, tokens}),
                     nibble::make_tensor(bias.data(), NIBBLE_F32, {out}),
                     nibble::make_tensor(y.data(), NIBBLE_F32, {out, tokens}));
  if (!s) return std::puts(s.message().c_str()), false;
  return dst[0] == 4 && dst[1] == 0 && dst[9] == 4 && y[0] == 6.5f && y[7] == 6.25f;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 || request_size_in_c() != sizeof(nibble_request)) return 2;
  if (!products_are_right()) return std::puts("a product is wrong"), 1;
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
