// Reading the flags of a request.
// Apart from request_flags.h so that the values' names are looked up in one place.
#include "tools/request_flags.h"

#include "tools/common.h"

namespace nibble::cli {
namespace {

nibble_op parse_op(const std::string& text) {
  if (const nibble_op op = find_op_id(text); op != 0) return op;
  const std::vector<std::string> names(op_names().begin(), op_names().end());
  fail(kUsage, "operation '{}': expected one of {}{}", text, fmt::join(names, ", "), did_you_mean(text, names));
}

Format parse_weight_format(const std::string& text) {
  const FormatInfo* info = find_format(text);
  if (info != nullptr && info->kind != FormatInfo::Kind::not_a_weight) return info->id;
  std::vector<std::string> names;
  for (const FormatInfo& f : formats()) {
    if (f.kind != FormatInfo::Kind::not_a_weight) names.emplace_back(f.name);
  }
  fail(kUsage, "--format {}: expected one of {}{}", text, fmt::join(names, ", "), did_you_mean(text, names));
}

nibble_math parse_math(const std::string& text) {
  if (const nibble_math math = find_math(text); math != NIBBLE_MATH_DEFAULT) return math;
  fail(kUsage, "--math {}: expected f32, tf32 or bf16", text);
}

/// A flag that would change nothing is a mistake of the user's that should not pass in silence.
void refuse_idle_flags(const RequestFlags& f, const RequestSpec& s) {
  const bool multiplies = s.op != NIBBLE_OP_DEQUANTIZE, batched = s.op == NIBBLE_OP_OUT_PROD,
             flat = has_statistics(s.format);
  const struct {
    bool given, fits;
    const char* flag;
    std::string with;
    const char* where;
  } checks[] = {{!f.tokens.empty(), multiplies, "--tokens", f.op, "out_prod or linear"},
                {!f.src1.empty(), multiplies, "--src1", f.op, "out_prod or linear"},
                {f.transposed, batched, "--transposed", f.op, "out_prod"},
                {!f.repeat.empty(), batched, "--repeat", f.op, "out_prod"},
                {f.nested, flat, "--nested", format_name(s.format), "nf4, fp4 or blockwise8"},
                {!f.block_size.empty(), flat, "--block-size", format_name(s.format), "nf4, fp4 or blockwise8"},
                {!f.nested_block_size.empty(), f.nested, "--nested-block-size", "plain statistics", "--nested"},
                {!f.device.empty(), f.caps.empty(), "--device", "--caps", "no --caps"}};
  for (const auto& c : checks) {
    if (c.given && !c.fits) fail(kUsage, "{} with {}: expected only with {}", c.flag, c.with, c.where);
  }
}

RequestSpec spec_of(const RequestFlags& f) {
  RequestSpec s;
  s.op = parse_op(f.op);
  if (!f.format.empty()) s.format = parse_weight_format(f.format);
  refuse_idle_flags(f, s);
  s.nested = f.nested;
  s.transposed = f.transposed;
  if (!f.block_size.empty()) s.block_size = parse_count("--block-size", f.block_size, 1);
  if (!f.nested_block_size.empty()) s.nested_block_size = parse_count("--nested-block-size", f.nested_block_size, 1);
  if (!f.to.empty()) s.to = parse_result_type("--to", f.to);
  if (!f.shape.empty()) s.shape = parse_counts("--shape", f.shape, s.op == NIBBLE_OP_DEQUANTIZE ? 1 : 2, 4);
  if (!f.tokens.empty()) s.tokens = parse_count("--tokens", f.tokens, 1);
  if (!f.src1.empty()) s.src1 = parse_result_type("--src1", f.src1);
  if (!f.repeat.empty()) s.repeat = parse_counts("--repeat", f.repeat, 2, 2);
  if (!f.math.empty()) s.math = parse_math(f.math);
  if (!f.device.empty()) s.device = parse_device(f.device);
  return s;
}

}  // namespace

void add_request_flags(CLI::App& sub, RequestFlags& f) {
  sub.add_option("OP", f.op, "dequantize, out_prod or linear")->required();
  sub.add_option("--format", f.format, "Of the weight: q4_k (default), nf4, ...");
  sub.add_flag("--nested", f.nested, "nf4, fp4, blockwise8: compressed statistics");
  sub.add_option("--block-size", f.block_size, "nf4, fp4, blockwise8: values a block (64)");
  sub.add_option("--nested-block-size", f.nested_block_size, "With --nested: blocks a nested block (256)");
  sub.add_option("--to", f.to, "Of the result: f32 (default), f16 or bf16");
  sub.add_option("--shape", f.shape, "IN,OUT[,B2,B3]: of the weight, innermost first (4096,4096)");
  sub.add_option("--tokens", f.tokens, "out_prod, linear: columns of src1 (16)");
  sub.add_option("--src1", f.src1, "out_prod, linear: f32 (default), f16 or bf16");
  sub.add_flag("--transposed", f.transposed, "out_prod: src1 contiguous along OUT");
  sub.add_option("--repeat", f.repeat, "R2,R3: out_prod: batches of src1 for each of the weight's (1,1)");
  sub.add_option("--math", f.math, "Precision class: f32, tf32 (default) or bf16");
  sub.add_option("--device", f.device, "cpu (default), cuda[:N] or hip[:N] of this machine");
  sub.add_option("--caps", f.caps, "An invented device: cuda:10.3, hip:gfx90a, cpu:avx2, ...");
}

ParsedRequest parse_request(const RequestFlags& f) {
  ParsedRequest parsed{spec_of(f), {}};
  if (f.caps.empty()) return parsed;
  parsed.caps = require(invent_caps(f.caps), kUsage);
  parsed.spec.device = {parsed.caps->device_type, 0};
  return parsed;
}

}  // namespace nibble::cli
