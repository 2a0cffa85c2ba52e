// nibble inspect: what lies in a weight file.
// Apart from the other subcommands: one file each.
#include "tools/commands.h"
#include "tools/common.h"
#include "tools/table.h"

#include <memory>

namespace nibble::cli {
namespace {

struct Flags {
  std::string file;
  bool json = false;
};

bool has_statistics(const FileTensor& t) { return t.usable && present(t.weight.absmax); }

Json tensor_json(const FileTensor& t) {
  Json j = {{"name", t.name},
            {"format", t.type},
            {"shape", t.shape},
            {"bytes", t.bytes},
            {"usable", t.usable.ok()},
            {"nested", t.usable && nested(t.weight)},
            {"type", t.usable ? Json(format_name(t.own_type)) : Json(nullptr)}};
  if (!t.usable) j["reason"] = t.usable.message();
  if (has_statistics(t)) j["block_size"] = t.weight.block_size;
  if (t.usable && nested(t.weight)) j["nested_block_size"] = t.weight.nested_block_size;
  return j;
}

std::string statistics_text(const FileTensor& t) {
  if (!has_statistics(t)) return "";
  if (!nested(t.weight)) return fmt::format("plain, block {}", t.weight.block_size);
  return fmt::format("nested, block {} by {}", t.weight.block_size, t.weight.nested_block_size);
}

struct Totals {
  std::uint64_t bytes = 0;
  std::size_t usable = 0, nested = 0;
};

Totals totals_of(const WeightFile& file) {
  Totals totals;
  for (const FileTensor& t : file.tensors()) {
    totals.bytes += t.bytes;
    totals.usable += t.usable ? 1 : 0;
    totals.nested += t.usable && nested(t.weight) ? 1 : 0;
  }
  return totals;
}

void print_tensors(const WeightFile& file, const std::string& path) {
  fmt::print("{}: {}\n\n", printable(path), file.kind());
  Table table({"tensor", "format", "shape", ">bytes", "statistics", "type"});
  std::string refusals;
  for (const FileTensor& t : file.tensors()) {
    table.add({t.name, t.type, shape_text(t.shape), fmt::format("{}", t.bytes), statistics_text(t),
               t.usable ? format_name(t.own_type) : "not usable"});
    if (!t.usable) refusals += fmt::format("  {}\n", printable(t.usable.message()));
  }
  const Totals totals = totals_of(file);
  fmt::print("{}\n{}{} tensors, {} ({} bytes); {} can be dequantized, {} of them nested\n", table.text(),
             refusals.empty() ? "" : "not usable:\n" + refusals + "\n", file.tensors().size(), size_text(totals.bytes),
             totals.bytes, totals.usable, totals.nested);
}

int run(const Flags& flags) {
  const WeightFile file = open_file(flags.file);
  if (!flags.json) {
    print_tensors(file, flags.file);
    return kDone;
  }
  Json tensors = Json::array();
  for (const FileTensor& t : file.tensors()) tensors.push_back(tensor_json(t));
  const Totals totals = totals_of(file);
  print_json({{"file", flags.file},
              {"kind", std::string(file.kind())},
              {"tensors", tensors},
              {"totals", {{"tensors", file.tensors().size()}, {"usable", totals.usable}, {"bytes", totals.bytes}}}});
  return kDone;
}

}  // namespace

Action add_inspect(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  CLI::App* sub = app.add_subcommand("inspect", "Tensors of a file: name, format, shape, bytes, nested or not");
  sub->add_option("FILE", flags->file, "A GGUF or safetensors file")->required();
  sub->add_flag("--json", flags->json, "Print JSON alone");
  sub->footer("Example:\n  nibble inspect model.safetensors --json");
  return [flags] { return run(*flags); };
}

}  // namespace nibble::cli
