// The few functions of ggml's C interface that are called, declared here as its public headers have them.
// Apart from the header so that ggml's types stay in one file.
#include "bench/ggml.h"

#include "bench/library.h"

#include <cstring>
#include <string>

namespace nibble::bench {
namespace {

struct InitParams {
  std::size_t mem_size;
  void* mem_buffer;
  bool no_alloc;
};

class Graph : public GgmlOutProd {
 public:
  using Free = void(void*);
  using Compute = int(void*, void*, int);
  Graph(void* context, void* graph, Free* free, Compute* compute)
      : context_(context, free), graph_(graph), compute_(compute) {}
  bool run(int threads) override { return compute_(context_.get(), graph_, threads) == 0; }

 private:
  std::unique_ptr<void, Free*> context_;
  void* graph_;
  Compute* compute_;
};

}  // namespace

Result<const Ggml*> Ggml::load() {
  static Ggml ggml;
  for (auto [library, file] : {std::pair(&ggml.base_, "libggml-base.so"), std::pair(&ggml.cpu_, "libggml-cpu.so")}) {
    auto opened = open_rival("NIBBLE_BENCH_GGML", file);
    if (!opened) return opened.status();
    if (*opened == nullptr) return static_cast<const Ggml*>(nullptr);
    *library = *opened;
  }
  return static_cast<const Ggml*>(&ggml);
}

Ggml::Decode Ggml::decoder(Format format) const {
  const auto name_of = look_up<const char*(int)>(base_, "ggml_type_name");
  // Formats with numbers of their own are not GGUF's.
  if (name_of == nullptr || format >= NIBBLE_NF4) return nullptr;
  const char* name = name_of(static_cast<int>(format));
  return name == nullptr
             ? nullptr
             : look_up<void(const void*, float*, std::int64_t)>(base_, std::string("dequantize_row_") + name);
}

std::unique_ptr<GgmlOutProd> Ggml::out_prod(Format format, std::int64_t columns, std::int64_t rows, std::int64_t tokens,
                                            std::span<const std::uint8_t> packed,
                                            std::span<const float> gradient) const {
  const auto init = look_up<void*(InitParams)>(base_, "ggml_init");
  const auto release = look_up<Graph::Free>(base_, "ggml_free");
  const auto tensor = look_up<void*(void*, int, std::int64_t, std::int64_t)>(base_, "ggml_new_tensor_2d");
  const auto data = look_up<void*(const void*)>(base_, "ggml_get_data");
  const auto product = look_up<void*(void*, void*, void*)>(base_, "ggml_out_prod");
  const auto new_graph = look_up<void*(void*)>(base_, "ggml_new_graph");
  const auto expand = look_up<void(void*, void*)>(base_, "ggml_build_forward_expand");
  const auto compute = look_up<Graph::Compute>(cpu_, "ggml_graph_compute_with_ctx");
  if (!init || !release || !tensor || !data || !product || !new_graph || !expand || !compute) return nullptr;

  const std::size_t result = static_cast<std::size_t>(columns * tokens) * sizeof(float);
  void* context = init({packed.size_bytes() + gradient.size_bytes() + 3 * result + (64u << 20), nullptr, false});
  if (context == nullptr) return nullptr;
  void* w = tensor(context, static_cast<int>(format), columns, rows);
  void* g = tensor(context, NIBBLE_F32, tokens, rows);
  std::memcpy(data(w), packed.data(), packed.size_bytes());
  std::memcpy(data(g), gradient.data(), gradient.size_bytes());
  void* graph = new_graph(context);
  expand(graph, product(context, w, g));
  return std::make_unique<Graph>(context, graph, release, compute);
}

}  // namespace nibble::bench
