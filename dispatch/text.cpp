// Names of operations and precision classes, invented devices, and a decision as a screenful of text.
// Apart from the registry because all of it is words about data, and none of it decides anything.
#include <nibble/nibble.hpp>

#include "core/ops/ops.h"
#include "core/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>

namespace nibble {
namespace {

constexpr std::string_view kMathNames[] = {"default", "f32", "tf32", "bf16"};

constexpr struct {
  std::string_view name;
  std::uint64_t isa;  ///< with all that it implies
} kCpus[] = {
    {"portable", NIBBLE_ISA_PORTABLE},
    {"sse4", NIBBLE_ISA_PORTABLE | NIBBLE_ISA_SSE4},
    {"avx2", NIBBLE_ISA_PORTABLE | NIBBLE_ISA_SSE4 | NIBBLE_ISA_AVX2},
    {"avx512", NIBBLE_ISA_PORTABLE | NIBBLE_ISA_SSE4 | NIBBLE_ISA_AVX2 | NIBBLE_ISA_AVX512},
    {"neon", NIBBLE_ISA_PORTABLE | NIBBLE_ISA_NEON},
};

Status bad_spec(std::string_view spec) {
  return {NIBBLE_INVALID_ARGUMENT,
          fmt::format(
              "capabilities {}: expected cuda:MAJOR.MINOR, hip:gfxNNN, or cpu:ISA (portable, sse4, avx2, avx512, neon)",
              quote(spec))};
}

bool parse_number(std::string_view text, std::uint32_t& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc{} && end == text.data() + text.size();
}

bool parse_cuda(std::string_view arch, nibble_caps& caps) {
  const std::size_t dot = arch.find('.');
  caps.device_type = NIBBLE_DEVICE_CUDA;
  caps.lanes = 32;
  return dot != std::string_view::npos && parse_number(arch.substr(0, dot), caps.arch_major) &&
         parse_number(arch.substr(dot + 1), caps.arch_minor) && caps.arch_major > 0;
}

bool parse_hip(std::string_view arch, nibble_caps& caps) {
  constexpr std::string_view kPrefix = "gfx";
  caps.device_type = NIBBLE_DEVICE_HIP;
  // gfx9 (GCN, CDNA) has wavefronts of 64; gfx10 and later (RDNA) of 32.
  const bool gfx9 = arch.size() == 6 && arch[3] == '9', later = arch.size() == 7 && arch[3] == '1';
  caps.lanes = gfx9 ? 64 : 32;
  return (gfx9 || later) && arch.starts_with(kPrefix) && std::all_of(arch.begin() + 3, arch.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

bool parse_cpu(std::string_view arch, nibble_caps& caps) {
  const auto* cpu = std::find_if(std::begin(kCpus), std::end(kCpus), [&](const auto& c) { return c.name == arch; });
  if (cpu == std::end(kCpus)) return false;
  caps.device_type = NIBBLE_DEVICE_CPU;
  caps.isa = cpu->isa;
  caps.lanes = 1;
  return true;
}

}  // namespace

Result<nibble_caps> invent_caps(std::string_view spec) {
  nibble_caps caps{};
  caps.struct_size = sizeof caps;
  caps.device_index = -1;
  const std::size_t colon = spec.find(':');
  if (colon == std::string_view::npos) return bad_spec(spec);
  const std::string_view kind = spec.substr(0, colon), arch = spec.substr(colon + 1);
  const bool ok = kind == "cuda"  ? parse_cuda(arch, caps)
                  : kind == "hip" ? parse_hip(arch, caps)
                                  : kind == "cpu" && parse_cpu(arch, caps);
  if (!ok || arch.size() >= sizeof caps.arch) return bad_spec(spec);
  std::memcpy(caps.arch, arch.data(), arch.size());
  std::strncpy(caps.name, "invented", sizeof caps.name - 1);
  return caps;
}

std::span<const std::string_view> known_devices() {
  static constexpr std::string_view kDevices[] = {"cpu:avx512", "cpu:neon",   "cuda:7.5",   "cuda:8.0",
                                                  "cuda:9.0",   "cuda:10.0",  "cuda:10.3",  "cuda:12.0",
                                                  "hip:gfx90a", "hip:gfx942", "hip:gfx1100"};
  return kDevices;
}

nibble_op find_op_id(std::string_view name) {
  const OpInfo* op = find_op(name);
  return op != nullptr ? op->id : 0;
}

std::string op_name(nibble_op id) {
  const OpInfo* op = find_op(id);
  return op != nullptr ? std::string(op->name) : fmt::format("op {}", id);
}

std::span<const std::string_view> op_names() {
  static constexpr std::string_view kNames[] = {
#define NIBBLE_OP_NAME(id, name) #name,
      NIBBLE_OPS(NIBBLE_OP_NAME)
#undef NIBBLE_OP_NAME
  };
  return kNames;
}

nibble_math find_math(std::string_view name) {
  const auto* found = std::find(std::begin(kMathNames) + 1, std::end(kMathNames), name);
  if (found == std::end(kMathNames)) return NIBBLE_MATH_DEFAULT;
  return static_cast<nibble_math>(found - kMathNames);
}

std::string math_name(nibble_math math) {
  return math < std::size(kMathNames) ? std::string(kMathNames[math]) : fmt::format("class {}", math);
}

std::string to_text(const Decision& d) {
  std::string out = fmt::format("{} on {}\n  {}\n", d.kernel.empty() ? "no kernel" : d.kernel, d.device, d.reason);
  std::size_t width = 0;
  for (const Candidate& c : d.candidates) width = std::max(width, c.kernel.size());
  for (const Candidate& c : d.candidates) {
    out += fmt::format("  {} {:<{}}  {}\n", c.accepted ? '+' : '-', c.kernel, width, c.reason);
  }
  return out;
}

}  // namespace nibble
