// The rules themselves.
// Apart from rules.h so that a change of policy is a change of this table and nothing else.
#include "dispatch/rules.h"

#include <nibble/tensor.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <vector>

namespace nibble {
namespace {

constexpr nibble_format kFourBit[] = {NIBBLE_NF4, NIBBLE_FP4};

constexpr When kNestedOnSm103{.device = NIBBLE_DEVICE_CUDA,
                              .arch = When::Arch::exactly,
                              .arch_major = 10,
                              .arch_minor = 3,
                              .formats = kFourBit,
                              .nested = When::Nested::yes,
                              .nested_block_size = 256};

// Products on CUDA devices by tokens and by values of the weight, as measured on one: bench/results. By rank all would
// go through blocks of rows.
constexpr std::int64_t kLargeWeight = std::int64_t{56} << 20, kMiddlingWeight = std::int64_t{16} << 20;
constexpr std::int64_t kLargestWeight = std::int64_t{1} << 28;
constexpr nibble_format kQ4K[] = {NIBBLE_Q4_K};
/// All but those whose grids and scales take longest to read: IQ1_M, IQ2_XS and IQ2_S.
constexpr nibble_format kQuick[] = {NIBBLE_Q1_0,    NIBBLE_Q2_0,    NIBBLE_Q4_0,  NIBBLE_Q4_1,   NIBBLE_Q5_0,
                                    NIBBLE_Q5_1,    NIBBLE_Q8_0,    NIBBLE_Q2_K,  NIBBLE_Q3_K,   NIBBLE_Q4_K,
                                    NIBBLE_Q5_K,    NIBBLE_Q6_K,    NIBBLE_TQ1_0, NIBBLE_TQ2_0,  NIBBLE_IQ1_S,
                                    NIBBLE_IQ2_XXS, NIBBLE_IQ3_XXS, NIBBLE_IQ3_S, NIBBLE_IQ4_NL, NIBBLE_IQ4_XS,
                                    NIBBLE_MXFP4,   NIBBLE_NVFP4,   NIBBLE_NF4,   NIBBLE_FP4,    NIBBLE_BLOCKWISE8};
constexpr When kSome{.device = NIBBLE_DEVICE_CUDA, .max_tokens = 64, .min_values = kLargeWeight};
constexpr When kFewOfLess{
    .device = NIBBLE_DEVICE_CUDA, .formats = kQuick, .max_tokens = 32, .min_values = kMiddlingWeight};
constexpr When kSomeOfLess{
    .device = NIBBLE_DEVICE_CUDA, .formats = kQ4K, .max_tokens = 64, .min_values = kMiddlingWeight};
constexpr When kTwoLaunches{
    .device = NIBBLE_DEVICE_CUDA, .formats = kQ4K, .min_tokens = 65, .max_tokens = 128, .min_values = kLargestWeight};
constexpr When kMany{.device = NIBBLE_DEVICE_CUDA, .min_tokens = 65, .min_values = kLargeWeight};

// On 9.0 alone, by warpgroups.
constexpr When on_hopper(std::int64_t min_tokens, std::int64_t max_tokens, std::int64_t min_values,
                         std::span<const nibble_format> formats = {}) {
  return {.device = NIBBLE_DEVICE_CUDA,
          .arch = When::Arch::exactly,
          .arch_major = 9,
          .arch_minor = 0,
          .formats = formats,
          .min_tokens = min_tokens,
          .max_tokens = max_tokens,
          .min_values = min_values};
}
/// Whose values are made so quickly that 256 tokens pay.
constexpr nibble_format kQuickest[] = {NIBBLE_Q1_0,  NIBBLE_Q2_0,   NIBBLE_Q4_0, NIBBLE_Q4_1, NIBBLE_Q2_K,
                                       NIBBLE_Q3_K,  NIBBLE_Q4_K,   NIBBLE_Q5_0, NIBBLE_Q5_K, NIBBLE_Q8_0,
                                       NIBBLE_TQ2_0, NIBBLE_IQ4_NL, NIBBLE_MXFP4};
/// What 9 to 32 tokens multiply faster so: of middling weights and large ones, and of middling ones alone, since the
/// rule of large ones (kSome) stands before theirs.
constexpr nibble_format kFewByGroups[] = {NIBBLE_NF4,   NIBBLE_FP4,   NIBBLE_Q1_0, NIBBLE_Q2_K,
                                          NIBBLE_TQ1_0, NIBBLE_IQ1_S, NIBBLE_IQ3_S};
constexpr nibble_format kFewOfLessByGroups[] = {NIBBLE_Q2_0, NIBBLE_Q4_K, NIBBLE_Q5_K, NIBBLE_BLOCKWISE8};
constexpr When kNarrowGroups = on_hopper(9, 32, kMiddlingWeight, kFewByGroups);
constexpr When kNarrowGroupsOfLess = on_hopper(9, 32, kMiddlingWeight, kFewOfLessByGroups);
constexpr When kGroupsOfFourBit = on_hopper(33, 128, kMiddlingWeight, kFourBit);
constexpr When kWideGroupsOfFourBit = on_hopper(129, 256, kLargeWeight, kFourBit);
constexpr When kGroups = on_hopper(33, 128, kLargeWeight);
constexpr When kGroupsOfLess = on_hopper(33, 64, kMiddlingWeight);
constexpr When kWideGroups = on_hopper(193, 256, kLargeWeight, kQuickest);
constexpr When kWideGroupsOfMore = on_hopper(129, 256, kLargestWeight, kQ4K);
/// Where bf16 is allowed cuBLAS by bf16 was as fast with 512 tokens of a weight of 224 Mi.
constexpr When kTwoWideGroups = on_hopper(257, 512, kLargestWeight, kQ4K);

constexpr const char* kOnce = "it reads the weight once and expands nothing";
constexpr const char* kTogether = "it reads the weight once, and warpgroups multiply while others make values";
constexpr const char* kTwice = "reading this weight twice costs less than expanding it";
constexpr const char* kHasRange = "bf16 is allowed, and has the range that halves lack";
constexpr const char* kScalesInThePass =
    "it rebuilds nested scales inside the value pass and is tuned for this chip alone";

// The first whose row fits is taken: for products, the one of the class that is asked and of dst's shape.
constexpr Rule kRules[] = {
    // op | when | prefer | because
    {NIBBLE_OP_DEQUANTIZE, kNestedOnSm103, "cuda_sm103.dequantize.nested", kScalesInThePass},
    {NIBBLE_OP_OUT_PROD, kNestedOnSm103, "cuda_sm103.out_prod.row_blocks.bf16", kScalesInThePass},
    {NIBBLE_OP_OUT_PROD, kNestedOnSm103, "cuda_sm103.out_prod.row_blocks", kScalesInThePass},
    {NIBBLE_OP_OUT_PROD, kNestedOnSm103, "cuda_sm103.out_prod.row_blocks.f32", kScalesInThePass},
    {NIBBLE_OP_OUT_PROD, kNestedOnSm103, "cuda_sm103.out_prod.whole.bf16", kScalesInThePass},
    {NIBBLE_OP_OUT_PROD, kNestedOnSm103, "cuda_sm103.out_prod.whole", kScalesInThePass},
    {NIBBLE_OP_OUT_PROD, kNestedOnSm103, "cuda_sm103.out_prod.whole.f32", kScalesInThePass},
    {NIBBLE_OP_LINEAR, kNestedOnSm103, "cuda_sm103.linear.row_blocks.bf16", kScalesInThePass},
    {NIBBLE_OP_LINEAR, kNestedOnSm103, "cuda_sm103.linear.row_blocks", kScalesInThePass},
    {NIBBLE_OP_LINEAR, kNestedOnSm103, "cuda_sm103.linear.row_blocks.f32", kScalesInThePass},
    {NIBBLE_OP_OUT_PROD, kNarrowGroups, "cuda.out_prod.fused.warpgroups", kTogether},
    {NIBBLE_OP_OUT_PROD, kGroupsOfFourBit, "cuda.out_prod.fused.warpgroups", kTogether},
    {NIBBLE_OP_OUT_PROD, kWideGroupsOfFourBit, "cuda.out_prod.fused.warpgroups", kTogether},
    {NIBBLE_OP_OUT_PROD, kGroups, "cuda.out_prod.fused.warpgroups", kTogether},
    {NIBBLE_OP_OUT_PROD, kGroupsOfLess, "cuda.out_prod.fused.warpgroups", kTogether},
    {NIBBLE_OP_OUT_PROD, kWideGroups, "cuda.out_prod.fused.warpgroups", kTogether},
    {NIBBLE_OP_OUT_PROD, kWideGroupsOfMore, "cuda.out_prod.fused.warpgroups", kTogether},
    {NIBBLE_OP_OUT_PROD, kTwoWideGroups, "cuda.out_prod.row_blocks.bf16", kHasRange},
    {NIBBLE_OP_OUT_PROD, kTwoWideGroups, "cuda.out_prod.fused.warpgroups", kTwice},
    {NIBBLE_OP_OUT_PROD, kSome, "cuda.out_prod.fused", kOnce},
    {NIBBLE_OP_OUT_PROD, kNarrowGroupsOfLess, "cuda.out_prod.fused.warpgroups", kTogether},
    {NIBBLE_OP_OUT_PROD, kFewOfLess, "cuda.out_prod.fused", kOnce},
    {NIBBLE_OP_OUT_PROD, kSomeOfLess, "cuda.out_prod.fused", kOnce},
    {NIBBLE_OP_OUT_PROD, kTwoLaunches, "cuda.out_prod.fused", kTwice},
    {NIBBLE_OP_OUT_PROD, kMany, "cuda.out_prod.row_blocks.bf16", kHasRange},
    {NIBBLE_OP_OUT_PROD, kMany, "cuda.out_prod.scaled_half", "halves are half the bytes, and multiply twice as fast"},
};

}  // namespace

std::span<const Rule> rules() { return kRules; }

bool When::holds(const nibble_caps& caps, const nibble_request& request) const {
  if (device != 0 && caps.device_type != device) return false;
  if (arch == Arch::exactly && (caps.arch_major != arch_major || caps.arch_minor != arch_minor)) return false;
  if (arch == Arch::at_least &&
      (caps.arch_major < arch_major || (caps.arch_major == arch_major && caps.arch_minor < arch_minor))) {
    return false;
  }
  const Weight& w = request.weight;
  if (!formats.empty() && std::find(formats.begin(), formats.end(), w.packed.format) == formats.end()) return false;
  const bool is_nested = nibble::nested(w);
  if (nested != Nested::any && is_nested != (nested == Nested::yes)) return false;
  if (nested_block_size != 0 && (!is_nested || w.nested_block_size != nested_block_size)) return false;
  if (element_count(w.packed) < min_values) return false;
  return request.dst.shape[1] >= min_tokens && request.dst.shape[1] <= max_tokens;
}

std::string When::text() const {
  std::vector<std::string> parts;
  if (device != 0) {
    const std::string name = device_name({device, 0});
    parts.push_back(name.substr(0, name.find(':')));
  }
  if (arch != Arch::any) {
    parts.push_back(fmt::format("{}.{} {}", arch_major, arch_minor, arch == Arch::exactly ? "exactly" : "or later"));
  }
  if (!formats.empty()) {
    std::vector<std::string> names;
    for (const nibble_format f : formats) names.push_back(format_name(f));
    parts.push_back(fmt::format("{}", fmt::join(names, " or ")));
  }
  if (nested == Nested::yes) {
    parts.push_back(nested_block_size != 0 ? fmt::format("nested by {}", nested_block_size) : "nested");
  }
  if (nested == Nested::no) parts.emplace_back("not nested");
  if (min_tokens > 0) parts.push_back(fmt::format("{} tokens or more", min_tokens));
  if (max_tokens != INT64_MAX) parts.push_back(fmt::format("{} tokens or fewer", max_tokens));
  if (min_values > 0) parts.push_back(fmt::format("a weight of {} values or more", min_values));
  return parts.empty() ? "always" : fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace nibble
