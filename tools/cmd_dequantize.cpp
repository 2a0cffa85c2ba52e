// nibble dequantize: decodes a file's weights into a safetensors or .npy file, piece by piece.
// Apart from the other subcommands: one file each.
#include "tools/commands.h"
#include "tools/common.h"
#include "tools/pieces.h"

#include <algorithm>
#include <filesystem>
#include <memory>

namespace nibble::cli {
namespace {

struct Flags {
  std::string file, to, device = "cpu", out;
  std::vector<std::string> names;
  bool quiet = false;
};

bool is_npy(const Flags& flags) { return flags.out.ends_with(".npy"); }

/// What can be said of the output's name before the input is read.
void check_output_name(const Flags& flags) {
  if (!is_npy(flags) && !flags.out.ends_with(".safetensors")) {
    fail(kUsage, "output '{}': expected a name that ends in .safetensors or .npy", flags.out);
  }
  std::error_code none;
  if (std::filesystem::equivalent(flags.file, flags.out, none)) {
    fail(kUsage, "output '{}' is the input: expected another file", flags.out);
  }
}

std::vector<OutputTensor> outputs_of(std::span<const FileTensor* const> tensors, const Flags& flags) {
  std::vector<OutputTensor> outputs;
  for (const FileTensor* t : tensors) {
    outputs.push_back({t->name, flags.to.empty() ? t->own_type : parse_result_type("--to", flags.to), t->shape});
  }
  if (!is_npy(flags)) return outputs;
  if (outputs.size() != 1) {
    fail(kUsage, "output '{}' for {} tensors: expected .safetensors, or one tensor named with -t", flags.out,
         outputs.size());
  }
  if (outputs.front().type == NIBBLE_BF16) {
    fail(kUsage, "output '{}' of type bf16, which .npy does not have: expected --to f32 or f16, or .safetensors",
         flags.out);
  }
  return outputs;
}

/// The writer's own refusals are of the operating system's making, but for wrong names.
TensorWriter open_writer(const Flags& flags, std::span<const OutputTensor> outputs) {
  auto writer = TensorWriter::create(flags.out, outputs);
  const bool usage = writer.status().code() == NIBBLE_INVALID_ARGUMENT;
  return require(std::move(writer), usage ? kUsage : kCheckFailed);
}

void write_tensor(const Registry& registry, const FileTensor& tensor, Format to, Device device, TensorWriter& writer,
                  Progress& progress) {
  const std::uint64_t size = find_format(to)->block_bytes;
  const std::vector<Piece> pieces = pieces_of(tensor.weight);
  if (pieces.empty()) return;
  Buffer buffer(registry, device, static_cast<std::uint64_t>(pieces.front().count) * size);
  std::vector<std::uint8_t> scratch;
  for (const Piece piece : pieces) {
    if (interrupted()) fail(kCheckFailed, "output is not finished: interrupted");
    const PlacedWeight weight(registry, slice(tensor.weight, piece), device);
    const Tensor& packed = weight.view().packed;
    const Tensor dst = make_tensor(buffer.data(), to, std::span(packed.shape, packed.rank), device);
    Options options;
    options.registry = &registry;
    require(dequantize(weight.view(), dst, options), kUnserved);
    require(writer.append(buffer.read(static_cast<std::uint64_t>(piece.count) * size, scratch)), kCheckFailed);
    progress.advance(tensor.name, static_cast<std::uint64_t>(piece.count));
  }
}

int run(const Flags& flags) {
  check_output_name(flags);
  const Device device = parse_device(flags.device);
  if (!flags.to.empty()) parse_result_type("--to", flags.to);
  const WeightFile file = open_file(flags.file);
  const Chosen chosen = choose_tensors(file, flags.file, flags.names);
  const std::vector<const FileTensor*>& tensors = chosen.tensors;
  const std::vector<OutputTensor> outputs = outputs_of(tensors, flags);
  const Registry registry = require(Registry::create());
  require(registry.memory(device).status(), kUnserved);
  std::uint64_t values = 0;
  for (const FileTensor* t : tensors) values += static_cast<std::uint64_t>(element_count(t->weight.packed));
  TensorWriter writer = open_writer(flags, outputs);
  Progress progress(flags.quiet, values);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    write_tensor(registry, *tensors[i], outputs[i].type, device, writer, progress);
  }
  require(writer.finish(), kCheckFailed);
  progress.clear();
  refuse_broken(chosen, flags.file);
  return kDone;
}

}  // namespace

Action add_dequantize(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  CLI::App* sub = app.add_subcommand("dequantize", "Decode weights into a .safetensors or .npy file");
  sub->add_option("FILE", flags->file, "A GGUF or safetensors file")->required();
  sub->add_option("-t,--tensor", flags->names, "A tensor by name, repeatable; without it all that can be decoded")
      ->allow_extra_args(false);
  sub->add_option("--to", flags->to, "f32, f16 or bf16; without it f32 for GGUF, else the weight's own type");
  sub->add_option("--device", flags->device, "cpu, cuda[:N] or hip[:N]")->capture_default_str();
  sub->add_option("-o,--output", flags->out, "Ends in .safetensors, or .npy for one tensor in f32 or f16")->required();
  sub->add_flag("-q,--quiet", flags->quiet, "No progress on the terminal");
  sub->footer(
      "Examples:\n  nibble dequantize model.gguf -o model.safetensors\n"
      "  nibble dequantize model.gguf -t output.weight --to f16 -o head.npy");
  return [flags] { return run(*flags); };
}

}  // namespace nibble::cli
