// The selection and its words.
// Apart from select.h so that the order of the steps reads in one place: needs, override, rules, tiers.
#include "dispatch/select.h"

#include "core/ops/ops.h"
#include "dispatch/plugin_call.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <tuple>

namespace nibble {
namespace {

bool contains(const nibble_format* list, std::uint64_t count, nibble_format f) {
  return std::find(list, list + count, f) != list + count;
}

std::string isa_text(std::uint64_t isa) {
  static constexpr std::pair<std::uint64_t, std::string_view> kNames[] = {{NIBBLE_ISA_PORTABLE, "portable"},
                                                                          {NIBBLE_ISA_SSE4, "sse4"},
                                                                          {NIBBLE_ISA_AVX2, "avx2"},
                                                                          {NIBBLE_ISA_AVX512, "avx512"},
                                                                          {NIBBLE_ISA_NEON, "neon"}};
  std::vector<std::string_view> names;
  for (const auto& [bit, name] : kNames) {
    if ((isa & bit) != 0) names.push_back(name);
  }
  return names.empty() ? "an instruction set of a newer version" : fmt::format("{}", fmt::join(names, "+"));
}

std::string_view tier_name(nibble_tier tier) {
  switch (tier) {
    case NIBBLE_TIER_REFERENCE:
      return "reference";
    case NIBBLE_TIER_GENERIC:
      return "generic";
    case NIBBLE_TIER_TUNED:
      return "tuned";
    case NIBBLE_TIER_BY_RULE:
      return "by_rule";
    default:
      return "unknown";
  }
}

/// Sets *why (where there is one) and answers false.
template <class... Args>
bool refuse(std::string* why, fmt::format_string<Args...> text, Args&&... args) {
  if (why != nullptr) *why = fmt::format(text, std::forward<Args>(args)...);
  return false;
}

/// Smaller is better.
auto preference(const Row& row) {
  const nibble_kernel& k = *row.kernel;
  return std::tuple(-static_cast<int>(k.tier), row.backend_order, -static_cast<std::int64_t>(k.rank),
                    std::string_view(k.name));
}

const Row* best_by_tier(std::span<const Row* const> accepted) {
  const Row* best = nullptr;
  for (const Row* row : accepted) {
    if (row->kernel->tier == NIBBLE_TIER_BY_RULE) continue;
    if (best == nullptr || preference(*row) < preference(*best)) best = row;
  }
  return best;
}

const Row* find_row(std::span<const Row* const> rows, std::string_view name) {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const Row* r) { return r->kernel->name == name; });
  return found == rows.end() ? nullptr : *found;
}

/// Notes a candidate's place among the accepted: why it was passed over, once the choice is known.
void explain_accepted(std::span<const Row* const> accepted, const Selection& chosen, std::vector<Candidate>& trace) {
  for (Candidate& c : trace) {
    if (!c.accepted) continue;
    const nibble_kernel& k = *find_row(accepted, c.kernel)->kernel;
    if (chosen.row != nullptr && k.name == std::string_view(chosen.row->kernel->name)) {
      c.reason = "chosen: " + chosen.reason;
    } else if (k.tier == NIBBLE_TIER_BY_RULE) {
      c.reason = "fits, but comes in only by a rule or an override";
    } else {
      c.reason = fmt::format("fits; tier {}, rank {}", tier_name(k.tier), k.rank);
    }
  }
}

std::string none_text(const nibble_request& request, std::string_view cause) {
  const OpInfo* op = find_op(request.op);
  const std::string device = device_name(device_of(request.weight.packed));
  return fmt::format("no kernel for {} of {} to {} on {}: {}", op != nullptr ? op->name : "?",
                     format_name(request.weight.packed.format), format_name(request.dst.format), device, cause);
}

}  // namespace

bool needs_met(const Row& row, const nibble_request& request, std::string* why) {
  const nibble_kernel& k = *row.kernel;
  const OpInfo* op = find_op(request.op);
  if (row.disabled) return refuse(why, "disabled by NIBBLE_DISABLE or the registry's settings");
  if (!row.unavailable.empty()) return refuse(why, "{}", row.unavailable);
  if ((k.isa & ~row.caps->isa) != 0) {
    return refuse(why, "needs {}, which this processor or its operating system does not offer",
                  isa_text(k.isa & ~row.caps->isa));
  }
  if (!contains(k.formats, k.format_count, request.weight.packed.format)) {
    return refuse(why, "does not decode {}", format_name(request.weight.packed.format));
  }
  if (!contains(k.types, k.type_count, request.dst.format)) {
    return refuse(why, "does not write {}", format_name(request.dst.format));
  }
  if (op->multiplies && k.math > request.math) {
    return refuse(why, "achieves class {} where {} is asked", math_name(k.math), math_name(request.math));
  }
  if (k.supports == nullptr) return true;
  TextBuffer text;
  const nibble_status status = guarded(text, [&] { return k.supports(&k, row.caps, &request, text.get()); });
  return status == NIBBLE_OK || refuse(why, "{}", text.line("refused without a reason"));
}

Selection select(std::span<const Row> rows, std::span<const Rule> rules, const nibble_request& request,
                 std::string_view forced, std::vector<Candidate>* trace) {
  std::vector<const Row*> accepted;
  accepted.reserve(rows.size());
  std::string forced_refusal;
  for (const Row& row : rows) {
    std::string why;
    const bool wanted = trace != nullptr || row.kernel->name == forced;
    const bool ok = needs_met(row, request, wanted ? &why : nullptr);
    if (ok) accepted.push_back(&row);
    if (!ok && row.kernel->name == forced) forced_refusal = why;
    if (trace != nullptr) trace->push_back({row.kernel->name, ok, why});
  }
  Selection chosen;
  const Rule* rule = nullptr;
  if (!forced.empty()) {
    chosen.row = find_row(accepted, forced);
    if (chosen.row == nullptr) {
      chosen.reason =
          none_text(request, fmt::format("{} is forced, but {}", forced,
                                         forced_refusal.empty() ? "runs on another type of device" : forced_refusal));
    }
  } else {
    for (const Rule& r : rules) {
      if (r.op != request.op || rows.empty() || !r.when.holds(*rows.front().caps, request)) continue;
      chosen.row = find_row(accepted, r.prefer);
      if (chosen.row == nullptr) continue;
      rule = &r;
      break;
    }
    if (chosen.row == nullptr) chosen.row = best_by_tier(accepted);
    if (chosen.row == nullptr) {
      chosen.reason =
          none_text(request, rows.empty() ? "no loaded back end has a kernel there" : "every kernel was refused");
    }
  }
  if (trace == nullptr) return chosen;
  if (chosen.row == nullptr) {
    explain_accepted(accepted, chosen, *trace);
    return chosen;
  }
  const nibble_kernel& k = *chosen.row->kernel;
  if (!forced.empty()) {
    chosen.reason = "forced by an override or by its caller";
  } else if (rule != nullptr) {
    chosen.reason = fmt::format("rule [{}]: {}", rule->when.text(), rule->because);
  } else {
    chosen.reason = fmt::format("tier {}, rank {}: first of {} that fit", tier_name(k.tier), k.rank, accepted.size());
  }
  explain_accepted(accepted, chosen, *trace);
  return chosen;
}

}  // namespace nibble
