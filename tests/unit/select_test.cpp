// Selection with invented kernels and devices: needs, overrides, rules, tiers, and the words of each refusal.
// Apart from the conformance tests because nothing is run here.
#include "dispatch/select.h"

#include "tests/unit/fake.h"

#include <gtest/gtest.h>

namespace nibble {
namespace {

using fake::dequantize;

/// Two CPU back ends and the SM103 pair, each on the device that a test names.
class SelectTest : public testing::Test {
 protected:
  Selection choose(const nibble_request& r, std::string_view forced = {}, std::span<const Rule> table = rules()) {
    trace_.clear();
    return select(rows_, table, r, forced, &trace_);
  }
  void add(const nibble_kernel& k, const nibble_caps& caps, std::uint32_t order = 0, std::string_view unavailable = {},
           bool disabled = false) {
    rows_.push_back({&k, "backend", order, &caps, unavailable, disabled});
  }
  std::string reason(std::string_view name) const {
    for (const Candidate& c : trace_) {
      if (c.kernel == name) return c.reason;
    }
    return "not in the trace";
  }

  nibble_caps avx2_ = fake::caps("cpu:avx2"), sm103_ = fake::caps("cuda:10.3");
  nibble_kernel reference_ =
      fake::kernel(NIBBLE_OP_DEQUANTIZE, "reference.dequantize.scalar", NIBBLE_TIER_REFERENCE, NIBBLE_DEVICE_CPU);
  nibble_kernel generic_ =
      fake::kernel(NIBBLE_OP_DEQUANTIZE, "a.dequantize.generic", NIBBLE_TIER_GENERIC, NIBBLE_DEVICE_CPU);
  nibble_kernel tuned_ = fake::kernel(NIBBLE_OP_DEQUANTIZE, "z.dequantize.tuned", NIBBLE_TIER_TUNED, NIBBLE_DEVICE_CPU);
  nibble_kernel codebook_ =
      fake::kernel(NIBBLE_OP_DEQUANTIZE, "cuda.dequantize.codebook", NIBBLE_TIER_GENERIC, NIBBLE_DEVICE_CUDA);
  nibble_kernel fused_ =
      fake::kernel(NIBBLE_OP_DEQUANTIZE, "cuda_sm103.dequantize.nested", NIBBLE_TIER_BY_RULE, NIBBLE_DEVICE_CUDA);
  std::vector<Row> rows_;
  std::vector<Candidate> trace_;
};

TEST_F(SelectTest, TierDecidesWhereNoRuleHolds) {
  add(reference_, avx2_);
  add(generic_, avx2_);
  add(tuned_, avx2_, 9);
  EXPECT_STREQ(choose(dequantize(NIBBLE_Q4_K, NIBBLE_F32)).row->kernel->name, "z.dequantize.tuned");
  EXPECT_EQ(reason("z.dequantize.tuned"), "chosen: tier tuned, rank 0: first of 3 that fit");
}

TEST_F(SelectTest, BackEndOrderThenRankThenNameDecideWithinATier) {
  nibble_kernel other = generic_, ranked = generic_, named = generic_;
  other.name = "b.dequantize.generic";
  ranked.name = "c.dequantize.generic";
  named.name = "A.dequantize.generic";
  ranked.rank = 2;
  add(other, avx2_, 1);
  add(generic_, avx2_, 1);
  EXPECT_STREQ(choose(dequantize(NIBBLE_Q4_K, NIBBLE_F32)).row->kernel->name, "a.dequantize.generic");
  add(ranked, avx2_, 1);
  EXPECT_STREQ(choose(dequantize(NIBBLE_Q4_K, NIBBLE_F32)).row->kernel->name, "c.dequantize.generic");
  add(named, avx2_, 0);
  EXPECT_STREQ(choose(dequantize(NIBBLE_Q4_K, NIBBLE_F32)).row->kernel->name, "A.dequantize.generic");
}

TEST_F(SelectTest, EachUnmetNeedDropsTheRowWithItsReason) {
  const struct {
    const char* name;
    void (*narrow)(nibble_kernel&);
    const char* reason;
  } cases[] = {
      {"isa", [](nibble_kernel& k) { k.isa = NIBBLE_ISA_AVX512; },
       "needs avx512, which this processor or its operating system does not offer"},
      {"one of two", [](nibble_kernel& k) { k.isa = NIBBLE_ISA_AVX2 | NIBBLE_ISA_AVX512; },
       "needs avx512, which this processor or its operating system does not offer"},
      {"format", [](nibble_kernel& k) { k.format_count = 1; }, "does not decode q4_k"},
      {"type",
       [](nibble_kernel& k) {
         k.types = fake::kTypes + 1;
         k.type_count = 2;
       },
       "does not write f32"},
      {"supports",
       [](nibble_kernel& k) {
         k.supports = [](const nibble_kernel*, const nibble_caps*, const nibble_request*,
                         nibble_text* why) -> nibble_status {
           std::snprintf(why->data, why->capacity, "rows are too long");
           return NIBBLE_UNSUPPORTED;
         };
       },
       "rows are too long"},
      {"throws",
       [](nibble_kernel& k) {
         k.supports = [](const nibble_kernel*, const nibble_caps*, const nibble_request*,
                         nibble_text*) -> nibble_status { throw std::runtime_error("oops"); };
       },
       "the plugin threw, which it must not: oops"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    nibble_kernel narrowed = tuned_;
    c.narrow(narrowed);
    rows_.clear();
    add(narrowed, avx2_);
    add(reference_, avx2_);
    EXPECT_STREQ(choose(dequantize(NIBBLE_Q4_K, NIBBLE_F32)).row->kernel->name, "reference.dequantize.scalar");
    EXPECT_EQ(reason(narrowed.name), c.reason);
  }
}

TEST_F(SelectTest, DisabledAndUnavailableRowsKeepTheirReasons) {
  add(tuned_, avx2_, 0, {}, true);
  add(generic_, avx2_, 0, "the driver is too old");
  const Selection none = choose(dequantize(NIBBLE_Q4_K, NIBBLE_F32));
  EXPECT_EQ(none.row, nullptr);
  EXPECT_EQ(none.reason, "no kernel for dequantize of q4_k to f32 on cpu: every kernel was refused");
  EXPECT_EQ(reason("z.dequantize.tuned"), "disabled by NIBBLE_DISABLE or the registry's settings");
  EXPECT_EQ(reason("a.dequantize.generic"), "the driver is too old");
}

TEST_F(SelectTest, ForcedKernelBeatsTiersButNotNeeds) {
  add(reference_, avx2_);
  add(tuned_, avx2_);
  EXPECT_STREQ(choose(dequantize(NIBBLE_Q4_K, NIBBLE_F32), "reference.dequantize.scalar").row->kernel->name,
               "reference.dequantize.scalar");
  tuned_.format_count = 1;
  const Selection refused = choose(dequantize(NIBBLE_Q4_K, NIBBLE_F32), "z.dequantize.tuned");
  EXPECT_EQ(refused.row, nullptr);
  EXPECT_EQ(refused.reason,
            "no kernel for dequantize of q4_k to f32 on cpu: z.dequantize.tuned is forced, but does not decode q4_k");
}

TEST_F(SelectTest, PrecisionClassServesItselfAndLooser) {
  nibble_kernel tf32 = fake::kernel(NIBBLE_OP_OUT_PROD, "a.out_prod.x", NIBBLE_TIER_TUNED, NIBBLE_DEVICE_CPU);
  tf32.math = NIBBLE_MATH_TF32;
  add(tf32, avx2_);
  nibble_request r = dequantize(NIBBLE_Q4_K, NIBBLE_F32);
  r.op = NIBBLE_OP_OUT_PROD;
  const std::pair<nibble_math, bool> served[] = {
      {NIBBLE_MATH_F32, false}, {NIBBLE_MATH_TF32, true}, {NIBBLE_MATH_BF16, true}};
  for (const auto& [math, expected] : served) {
    r.math = math;
    EXPECT_EQ(choose(r).row != nullptr, expected) << math_name(math);
  }
  r.math = NIBBLE_MATH_F32;
  static_cast<void>(choose(r));
  EXPECT_EQ(reason("a.out_prod.x"), "achieves class tf32 where f32 is asked");
}

TEST_F(SelectTest, Sm103RuleHoldsOnExactlyItsPredicate) {
  const char* kDefault = "cuda.dequantize.codebook";
  const char* kFused = "cuda_sm103.dequantize.nested";
  const struct {
    const char* caps;
    Format format;
    std::int64_t nested;
    const char* expected;
  } cases[] = {
      {"cuda:10.3", NIBBLE_NF4, 256, kFused},   {"cuda:10.3", NIBBLE_FP4, 256, kFused},
      {"cuda:10.3", NIBBLE_NF4, 0, kDefault},   {"cuda:10.3", NIBBLE_NF4, 128, kDefault},
      {"cuda:10.3", NIBBLE_Q4_K, 0, kDefault},  {"cuda:10.3", NIBBLE_BLOCKWISE8, 256, kDefault},
      {"cuda:10.0", NIBBLE_NF4, 256, kDefault}, {"cuda:10.1", NIBBLE_NF4, 256, kDefault},
      {"cuda:12.0", NIBBLE_NF4, 256, kDefault}, {"cuda:12.1", NIBBLE_NF4, 256, kDefault},
      {"cuda:9.0", NIBBLE_NF4, 256, kDefault},  {"cuda:8.6", NIBBLE_NF4, 256, kDefault},
      {"cuda:11.0", NIBBLE_FP4, 256, kDefault}, {"hip:gfx942", NIBBLE_NF4, 256, kDefault},
  };
  for (const auto& c : cases) {
    for (const Format to : fake::kTypes) {
      SCOPED_TRACE(std::string(c.caps) + " " + format_name(c.format) + " to " + format_name(to));
      const nibble_caps caps = fake::caps(c.caps);
      rows_.clear();
      add(codebook_, caps);
      add(fused_, caps);
      EXPECT_STREQ(choose(dequantize(c.format, to, c.nested)).row->kernel->name, c.expected);
    }
  }
}

TEST_F(SelectTest, ByRuleKernelIsNeverChosenByTierAndAbsentOnesAreSkipped) {
  add(fused_, sm103_);
  EXPECT_EQ(choose(dequantize(NIBBLE_NF4, NIBBLE_F16)).row, nullptr);
  EXPECT_EQ(reason(fused_.name), "fits, but comes in only by a rule or an override");
  EXPECT_STREQ(choose(dequantize(NIBBLE_NF4, NIBBLE_F16), fused_.name).row->kernel->name, fused_.name);
  rows_.clear();
  add(codebook_, sm103_);
  EXPECT_STREQ(choose(dequantize(NIBBLE_NF4, NIBBLE_F16, 256)).row->kernel->name, "cuda.dequantize.codebook");
}

TEST_F(SelectTest, FirstRuleThatHoldsWins) {
  add(generic_, avx2_);
  add(reference_, avx2_);
  const Rule table[] = {
      {NIBBLE_OP_DEQUANTIZE, {.min_tokens = 9}, "reference.dequantize.scalar", "never here: 8 rows"},
      {NIBBLE_OP_OUT_PROD, {}, "reference.dequantize.scalar", "never here: another op"},
      {NIBBLE_OP_DEQUANTIZE, {.max_tokens = 8}, "reference.dequantize.scalar", "few rows"},
      {NIBBLE_OP_DEQUANTIZE, {}, "a.dequantize.generic", "never reached"},
  };
  const Selection s = choose(dequantize(NIBBLE_Q4_K, NIBBLE_F32), {}, table);
  EXPECT_STREQ(s.row->kernel->name, "reference.dequantize.scalar");
  EXPECT_EQ(s.reason, "rule [8 tokens or fewer]: few rows");
}

TEST_F(SelectTest, EveryRuleOfTheTableIsReachable) {
  // Each rule is given a request made from its own condition; it must win there, so no earlier one hides it.
  for (const Rule& rule : rules()) {
    SCOPED_TRACE(rule.when.text());
    nibble_caps caps = sm103_;
    caps.device_type = rule.when.device;
    caps.arch_major = rule.when.arch_major;
    caps.arch_minor = rule.when.arch_minor;
    const Format format = rule.when.formats.empty() ? Format{NIBBLE_Q4_K} : rule.when.formats.front();
    nibble_request r =
        dequantize(format, NIBBLE_F16,
                   rule.when.nested == When::Nested::yes ? std::max<std::int64_t>(rule.when.nested_block_size, 1) : 0);
    r.op = rule.op;
    r.dst.shape[1] = std::max<std::int64_t>(rule.when.min_tokens, 1);
    Tensor& w = r.weight.packed;
    if (rule.when.min_values > element_count(w)) w.shape[1] = rule.when.min_values / w.shape[0];
    const std::string name(rule.prefer);
    nibble_kernel k = fake::kernel(rule.op, name.c_str(), NIBBLE_TIER_BY_RULE, rule.when.device);
    rows_.clear();
    add(k, caps);
    const Selection s = choose(r);
    ASSERT_NE(s.row, nullptr);
    EXPECT_NE(s.reason.find(rule.because), std::string::npos) << s.reason;
  }
}

TEST(WhenTest, TextNamesEveryCondition) {
  static constexpr nibble_format kTwo[] = {NIBBLE_NF4, NIBBLE_FP4};
  EXPECT_EQ(When{}.text(), "always");
  const When w{.device = NIBBLE_DEVICE_CUDA,
               .arch = When::Arch::exactly,
               .arch_major = 10,
               .arch_minor = 3,
               .formats = kTwo,
               .nested = When::Nested::yes,
               .nested_block_size = 256,
               .min_tokens = 2,
               .max_tokens = 64,
               .min_values = 1000};
  EXPECT_EQ(w.text(),
            "cuda, 10.3 exactly, nf4 or fp4, nested by 256, 2 tokens or more, 64 tokens or fewer, "
            "a weight of 1000 values or more");
}

TEST(WhenTest, CountsTheWeightsValues) {
  const auto r = dequantize(NIBBLE_Q4_K, NIBBLE_F32);
  const std::int64_t values = element_count(r.weight.packed);
  ASSERT_GT(values, 0);
  const nibble_caps caps = fake::caps("cuda:9.0");
  EXPECT_TRUE(When{.min_values = values}.holds(caps, r));
  EXPECT_FALSE(When{.min_values = values + 1}.holds(caps, r));
}

TEST(WhenTest, AtLeastComparesMajorThenMinor) {
  const When w{.arch = When::Arch::at_least, .arch_major = 9, .arch_minor = 0};
  const auto r = dequantize(NIBBLE_Q4_K, NIBBLE_F32);
  const std::pair<const char*, bool> cases[] = {
      {"cuda:8.9", false}, {"cuda:9.0", true}, {"cuda:10.3", true}, {"cuda:7.5", false}};
  for (const auto& [spec, expected] : cases) EXPECT_EQ(w.holds(fake::caps(spec), r), expected) << spec;
}

}  // namespace
}  // namespace nibble
