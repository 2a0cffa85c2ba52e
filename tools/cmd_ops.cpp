// nibble ops: which back end serves which operation on which format, asked of the kernels' own predicates.
// Apart from the other subcommands: one file each.
#include "tools/commands.h"
#include "tools/common.h"
#include "tools/request.h"
#include "tools/table.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>

namespace nibble::cli {
namespace {

struct Flags {
  bool json = false, markdown = false;
};

/// What a back end does for one operation and format: the best kernel by tier and rank for each type that it writes.
using Cell = std::map<Format, const nibble_kernel*>;

struct Line {
  nibble_op op;
  Format format;
  bool nested;
  std::map<std::string_view, Cell> cells;  ///< by back end
};

bool better(const nibble_kernel& a, const nibble_kernel& b) {
  // A kernel that only a rule brings in comes last: on most devices it is not the one that serves.
  const auto place = [](const nibble_kernel& k) {
    return std::tuple(k.tier == NIBBLE_TIER_BY_RULE ? nibble_tier{0} : k.tier, k.rank, std::string_view(k.name));
  };
  return place(a) > place(b);
}

void ask(const Registry& registry, const nibble_caps& caps, RequestSpec spec, Line& line) {
  spec.device = {caps.device_type, 0};
  const Decision d = require(registry.explain(build_request(spec), &caps));
  for (const Candidate& c : d.candidates) {
    if (!c.accepted) continue;
    for (const KernelRecord& k : registry.kernels()) {
      if (k.kernel->name != c.kernel) continue;
      const nibble_kernel*& best = line.cells[k.backend][spec.to];
      if (best == nullptr || better(*k.kernel, *best)) best = k.kernel;
    }
  }
}

std::vector<Line> all_lines(const Registry& registry) {
  // A back end serves what it serves on any of them. What this machine has plays no part, so that the table is the
  // same everywhere.
  std::vector<nibble_caps> devices;
  for (const std::string_view spec : known_devices()) devices.push_back(require(invent_caps(spec)));
  std::vector<Line> lines;
  for (const std::string_view op : op_names()) {
    for (const FormatInfo& format : formats()) {
      if (format.kind == FormatInfo::Kind::not_a_weight) continue;
      for (const bool nested : {false, true}) {
        if (nested && !has_statistics(format.id)) continue;
        Line& line = lines.emplace_back(Line{find_op_id(op), format.id, nested, {}});
        for (const nibble_caps& caps : devices) {
          for (const Format to : kResultTypes) {
            ask(registry, caps, {.op = line.op, .format = format.id, .nested = nested, .to = to}, line);
          }
        }
      }
    }
  }
  return lines;
}

/// Back ends that have kernels, by name with the reference first, whatever order this machine prefers.
std::vector<std::string> backends_of(const Registry& registry) {
  std::set<std::string> names;
  for (const KernelRecord& k : registry.kernels()) names.emplace(k.backend);
  std::vector<std::string> ordered(names.begin(), names.end());
  std::stable_partition(ordered.begin(), ordered.end(), [](const std::string& name) { return name == "reference"; });
  return ordered;
}

std::string format_text(const Line& line) { return format_name(line.format) + (line.nested ? " nested" : ""); }

/// "f32 f16 bf16: cpu.dequantize.runs.avx512", with "no f16" for a type that is not served; "no" for none at all.
std::string cell_text(const Line& line, const std::string& backend, std::string_view quote) {
  const auto found = line.cells.find(backend);
  if (found == line.cells.end()) return "no";
  std::string types;
  std::vector<std::string> kernels;
  for (const Format to : kResultTypes) {
    const auto served = found->second.find(to);
    types += (types.empty() ? "" : " ") + std::string(served == found->second.end() ? "no " : "") + format_name(to);
    if (served == found->second.end()) continue;
    const std::string name = fmt::format("{}{}{}", quote, served->second->name, quote);
    if (std::find(kernels.begin(), kernels.end(), name) == kernels.end()) kernels.push_back(name);
  }
  return fmt::format("{}: {}", types, fmt::join(kernels, ", "));
}

Table table_of(std::span<const Line> lines, std::span<const std::string> backends, std::string_view quote) {
  std::vector<std::string> headings = {"op", "format"};
  headings.insert(headings.end(), backends.begin(), backends.end());
  Table table(headings);
  for (const Line& line : lines) {
    std::vector<std::string> cells = {op_name(line.op), format_text(line)};
    for (const std::string& backend : backends) cells.push_back(cell_text(line, backend, quote));
    table.add(cells);
  }
  return table;
}

Json lines_json(std::span<const Line> lines, std::span<const std::string> backends) {
  Json rows = Json::array();
  for (const Line& line : lines) {
    Json by_backend = Json::object();
    for (const std::string& backend : backends) {
      Json types = Json::object();
      const auto found = line.cells.find(backend);
      for (const Format to : kResultTypes) {
        const bool served = found != line.cells.end() && found->second.contains(to);
        types[format_name(to)] = served ? Json(found->second.at(to)->name) : Json(nullptr);
      }
      by_backend[backend] = types;
    }
    rows.push_back({{"op", op_name(line.op)},
                    {"format", format_name(line.format)},
                    {"nested", line.nested},
                    {"backends", by_backend}});
  }
  return rows;
}

int run(const Flags& flags) {
  const Registry registry = require(Registry::create());
  const std::vector<std::string> backends = backends_of(registry);
  const std::vector<Line> lines = all_lines(registry);
  if (flags.json) {
    print_json({{"version", std::string(version())}, {"backends", backends}, {"rows", lines_json(lines, backends)}});
  } else if (flags.markdown) {
    fmt::print("<!-- Generated by `nibble ops --markdown`. -->\n\n{}", table_of(lines, backends, "`").markdown());
  } else {
    fmt::print("{}", table_of(lines, backends, "").text());
  }
  return kDone;
}

}  // namespace

Action add_ops(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  CLI::App* sub = app.add_subcommand("ops", "Operation by format by back end, from the kernels' own predicates");
  CLI::Option* json = sub->add_flag("--json", flags->json, "Print JSON alone");
  sub->add_flag("--markdown", flags->markdown, "Print a Markdown table")->excludes(json);
  sub->footer(
      "A cell lists the result types and the best kernel by tier and rank, for the request that 'nibble explain OP' "
      "has\n"
      "as its default, on any device of the back end's kind. The policy's rules may prefer another by device, tokens "
      "and\n"
      "size, which 'nibble explain' tells. Back ends that are not loaded are no columns.\n\n"
      "Example:\n  nibble ops --markdown > ops.md");
  return [flags] { return run(*flags); };
}

}  // namespace nibble::cli
