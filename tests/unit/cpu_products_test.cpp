// What conformance cannot see of the products: each inner loop alone against binary64, and that no way of cutting a
// product changes a bit.
// Apart from conformance, which sees whole kernels through one way of cutting at a time.
#include "backends/cpu/microkernel.h"
#include "backends/cpu/rows.h"
#include "core/decode.h"
#include "tests/support/random.h"
#include "tests/support/sanitized.h"
#include "tests/support/weights.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace nibble::cpu {
namespace {

using test::Random;
using Floats = std::vector<float>;

Floats random_floats(std::int64_t count, Random& r) {
  Floats values(static_cast<std::size_t>(count));
  for (float& v : values) v = r.normal();
  return values;
}

template <class F>
void for_each_target(F&& f) {
  for (const TargetInfo& t : kTargets) {
    if ((t.isa & ~detected_isa()) == 0) f(t);
  }
}

TEST(TileTest, TilesCoverTheRowsInOrderAndDifferByOneAtMost) {
  for (const std::int64_t most : {1, 6, 14}) {
    for (std::int64_t rows = 1; rows < 100; ++rows) {
      std::int64_t next = 0, shortest = most, longest = 0;
      for (std::int64_t i = 0; i < tile_count(rows, most); ++i) {
        const TileRows t = tile_at(rows, most, i);
        ASSERT_EQ(t.first, next) << rows << " rows, tile " << i;
        next += t.count;
        shortest = std::min(shortest, t.count);
        longest = std::max(longest, t.count);
      }
      ASSERT_EQ(next, rows);
      ASSERT_LE(longest, most);
      ASSERT_LE(longest - shortest, 1);
    }
  }
}

/// One problem of the inner loops: a[m][k], b[k][n] and what c[m][n] held before.
struct Sums {
  std::int64_t rows, columns, depth, ldc;
  Floats a, b, before;

  Sums(std::int64_t m, std::int64_t n, std::int64_t k, Random& r)
      : rows(m),
        columns(n),
        depth(k),
        ldc(n + 5),
        a(random_floats(m * k, r)),
        b(random_floats(k * n, r)),
        before(random_floats(m * (n + 5), r)) {}

  /// |error| <= (depth + 2) * 2^-24 * sum |a||b|: each of a sum's roundings loses half a unit of a partial sum.
  void expect_close(const Floats& c, bool first, const std::string& what) const {
    for (std::int64_t m = 0; m < rows; ++m) {
      for (std::int64_t n = 0; n < ldc; ++n) {
        const auto at = static_cast<std::size_t>(m * ldc + n);
        if (n >= columns) {
          ASSERT_EQ(c[at], before[at]) << what << ": written beyond column " << columns;
          continue;
        }
        double sum = first ? 0.0 : before[at], magnitude = std::abs(sum);
        for (std::int64_t k = 0; k < depth; ++k) {
          const double product = static_cast<double>(a[static_cast<std::size_t>(m * depth + k)]) *
                                 b[static_cast<std::size_t>(k * columns + n)];
          sum += product;
          magnitude += std::abs(product);
        }
        ASSERT_NEAR(c[at], sum, static_cast<double>(depth + 2) * 0x1p-24 * magnitude)
            << what << " row " << m << " column " << n;
      }
    }
  }
};

TEST(MicrokernelTest, MultiplyIsTheSumForEveryNumberOfRows) {
  for_each_target([](const TargetInfo& target) {
    const Microkernel& kernel = microkernel(target.target);
    Random r(target.name);
    for (std::int64_t rows = 1; rows <= 2 * kernel.tile_rows + 1; ++rows) {
      for (const std::int64_t columns : {kColumnStep, 5 * kColumnStep}) {
        for (const std::int64_t depth : {1, 8, 67}) {
          const Sums s(rows, columns, depth, r);
          Floats packed(s.a.size());
          for (std::int64_t i = 0; i < tile_count(rows, kernel.tile_rows); ++i) {
            const TileRows t = tile_at(rows, kernel.tile_rows, i);
            for (std::int64_t m = 0; m < t.count; ++m) {
              for (std::int64_t k = 0; k < depth; ++k) {
                packed[static_cast<std::size_t>(t.first * depth + k * t.count + m)] =
                    s.a[static_cast<std::size_t>((t.first + m) * depth + k)];
              }
            }
          }
          for (const bool first : {true, false}) {
            Floats c = s.before;
            kernel.multiply(packed.data(), rows, s.b.data(), columns, depth, columns, c.data(), s.ldc, first);
            s.expect_close(c, first, fmt::format("{} {}x{}x{}", target.name, rows, columns, depth));
          }
        }
      }
    }
  });
}

TEST(MicrokernelTest, DotsAreTheSumForEveryNumberOfRowsAndColumns) {
  for_each_target([](const TargetInfo& target) {
    Random r(target.name);
    for (std::int64_t rows = 1; rows <= 9; ++rows) {
      for (const std::int64_t columns : {1, 7, 16}) {
        for (const std::int64_t depth : {1, 16, 67}) {
          const Sums s(rows, columns, depth, r);
          Floats weights(s.b.size());
          for (std::int64_t n = 0; n < columns; ++n) {
            for (std::int64_t k = 0; k < depth; ++k)
              weights[static_cast<std::size_t>(n * depth + k)] = s.b[static_cast<std::size_t>(k * columns + n)];
          }
          for (const bool first : {true, false}) {
            Floats c = s.before;
            microkernel(target.target)
                .dots(s.a.data(), rows, weights.data(), depth, depth, columns, c.data(), s.ldc, first);
            s.expect_close(c, first, fmt::format("{} dots {}x{}x{}", target.name, rows, columns, depth));
          }
        }
      }
    }
  });
}

TEST(MicrokernelTest, TransposeMovesEveryElement) {
  for_each_target([](const TargetInfo& target) {
    constexpr std::int64_t kLd = 80;
    for (const std::int64_t rows : {1, 4, 15, 16, 33}) {
      for (const std::int64_t columns : {1, 4, 63}) {
        Floats from(static_cast<std::size_t>(kLd * kLd)), to(from.size(), -1.0f);
        for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<float>(i);
        microkernel(target.target).transpose(from.data(), rows, columns, kLd, to.data(), kLd);
        for (std::int64_t i = 0; i < rows; ++i) {
          for (std::int64_t j = 0; j < columns; ++j) {
            ASSERT_EQ(to[static_cast<std::size_t>(j * kLd + i)], from[static_cast<std::size_t>(i * kLd + j)])
                << target.name << " " << rows << "x" << columns;
          }
        }
      }
    }
  });
}

/// A request of a row with its memory.
class Call {
 public:
  Call(const nibble_kernel& k, Format format, std::int64_t in, std::int64_t out, std::int64_t tokens) : kernel_(k) {
    Random r(fmt::format("{} {} {} {}", k.name, in, out, tokens));
    weight_ = test::make_host_weight({format, false}, {.shape = {in, out, 1, 1}}, test::Contents::moderate, r);
    const bool linear = k.op == NIBBLE_OP_LINEAR;
    src1_ = random_floats((linear ? in : out) * tokens, r);
    dst_.resize(static_cast<std::size_t>((linear ? out : in) * tokens));
    request_.struct_size = sizeof request_;
    request_.op = k.op;
    request_.math = NIBBLE_MATH_F32;
    request_.weight = weight_.weight;
    request_.src1 = linear ? make_tensor(src1_.data(), NIBBLE_F32, {in, tokens})
                           : make_tensor(src1_.data(), NIBBLE_F32, {tokens, out});
    request_.dst = make_tensor(dst_.data(), NIBBLE_F32, {linear ? out : in, tokens});
  }

  [[nodiscard]] nibble_workspace_need need(std::uint32_t threads) {
    request_.threads = threads;
    nibble_workspace_need need{};
    need.struct_size = sizeof need;
    EXPECT_EQ(kernel_.query(&kernel_, nullptr, &request_, &need, nullptr), NIBBLE_OK);
    return need;
  }

  /// dst's bits, with a workspace of just so many bytes.
  [[nodiscard]] Floats run(std::uint32_t threads, std::uint64_t bytes) {
    request_.threads = threads;
    dst_.assign(dst_.size(), std::numeric_limits<float>::quiet_NaN());
    std::vector<std::uint8_t> memory(bytes + 64, 0xff);  // NaN to floats: what is read before it is written shows
    void* at = memory.data();
    std::size_t space = memory.size();
    std::align(64, bytes, at, space);
    EXPECT_EQ(kernel_.execute(&kernel_, nullptr, &request_, at, bytes, nullptr, nullptr), NIBBLE_OK);
    return dst_;
  }

  [[nodiscard]] const nibble_weight& weight() const { return request_.weight; }
  [[nodiscard]] const Floats& src1() const { return src1_; }

 private:
  const nibble_kernel& kernel_;
  test::HostWeight weight_;
  Floats src1_, dst_;
  nibble_request request_{};
};

bool same_bits(const Floats& a, const Floats& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// Every number of threads and every workspace from the least on gives the bits of one thread with all that it asks
/// for.
void expect_one_result(const nibble_kernel& k, std::int64_t in, std::int64_t out, std::int64_t tokens) {
  Call call(k, NIBBLE_Q4_0, in, out, tokens);
  const Floats expected = call.run(1, call.need(1).bytes);
  for (const float x : expected) ASSERT_TRUE(std::isfinite(x)) << k.name;
  for (const std::uint32_t threads : {1u, 2u, 3u, 7u}) {
    const nibble_workspace_need need = call.need(threads);
    ASSERT_LE(need.minimum_bytes, need.bytes);
    for (std::uint64_t bytes = need.minimum_bytes; bytes < need.bytes;
         bytes += std::max<std::uint64_t>(4096, bytes / 3)) {
      ASSERT_TRUE(same_bits(call.run(threads, bytes), expected))
          << k.name << " " << in << "x" << out << " tokens " << tokens << " threads " << threads << " bytes " << bytes;
    }
    ASSERT_TRUE(same_bits(call.run(threads, need.bytes), expected)) << k.name << " threads " << threads;
  }
}

TEST(ProductTest, NoCutChangesABit) {
  for_each_target([](const TargetInfo& target) {
    const auto index = static_cast<std::size_t>(target.target);
    for (const std::int64_t tokens : {9, 1, 2, 8, 70}) {
      if (test::kSanitized && tokens != 9) continue;
      // Wide and shallow, then narrow and deep: there k is cut into slices.
      for (const auto& [in, out] : {std::pair<std::int64_t, std::int64_t>{1184, 300}, {96, 9000}}) {
        expect_one_result(out_prod_rows()[index], in, out, tokens);
        expect_one_result(linear_rows()[index], out / 32 * 32, in, tokens);
      }
    }
  });
}

TEST(ProductTest, VeryManyTokensThroughDeeperPanels) {
  constexpr std::int64_t kIn = 64, kOut = 800, kTokens = 1100;
  const TargetInfo* best =
      std::ranges::find_if(kTargets, [](const TargetInfo& t) { return (t.isa & ~detected_isa()) == 0; });
  const nibble_kernel& k = out_prod_rows()[static_cast<std::size_t>(best->target)];
  expect_one_result(k, kIn, kOut, kTokens);
  Call call(k, NIBBLE_Q4_0, kIn, kOut, kTokens);
  const Floats got = call.run(2, call.need(2).bytes);
  Floats row(kIn);
  std::vector<double> sums(got.size()), magnitudes(got.size());
  for (std::int64_t o = 0; o < kOut; ++o) {
    nibble::decode_row(call.weight(), o, 0, 0, 0, kIn, row.data());
    for (std::int64_t t = 0; t < kTokens; ++t) {
      for (std::int64_t i = 0; i < kIn; ++i) {
        const double product = static_cast<double>(row[static_cast<std::size_t>(i)]) *
                               call.src1()[static_cast<std::size_t>(o * kTokens + t)];
        sums[static_cast<std::size_t>(t * kIn + i)] += product;
        magnitudes[static_cast<std::size_t>(t * kIn + i)] += std::abs(product);
      }
    }
  }
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], sums[i], (kOut + 2) * 0x1p-24 * magnitudes[i]) << i;
}

/// A batch of nothing is a right request: its plan is made before anyone sees that there is nothing to do.
TEST(ProductTest, NoMatricesAtAllAreAskedFor) {
  for (const nibble_kernel& k : out_prod_rows()) {
    nibble_request r{};
    r.struct_size = sizeof r;
    r.op = NIBBLE_OP_OUT_PROD;
    r.weight = make_weight(make_tensor(nullptr, NIBBLE_Q4_K, {256, 8, 0, 1}));
    r.src1 = make_tensor(nullptr, NIBBLE_F32, {2, 8, 0, 1});
    r.dst = make_tensor(nullptr, NIBBLE_F32, {256, 2, 0, 1});
    nibble_workspace_need need{};
    need.struct_size = sizeof need;
    EXPECT_EQ(k.query(&k, nullptr, &r, &need, nullptr), NIBBLE_OK) << k.name;
  }
}

/// What a caller of one layer after another pays: the output head of a large model with a few tokens.
TEST(ProductTest, AnOutputHeadNeedsLittleMemory) {
  for (const nibble_kernel& k : out_prod_rows()) {
    nibble_request r{};
    r.struct_size = sizeof r;
    r.op = NIBBLE_OP_OUT_PROD;
    r.weight = make_weight(make_tensor(nullptr, NIBBLE_Q4_K, {5120, 152064}));
    r.src1 = make_tensor(nullptr, NIBBLE_F32, {4, 152064});
    r.dst = make_tensor(nullptr, NIBBLE_F32, {5120, 4});
    r.threads = 2;
    nibble_workspace_need need{};
    need.struct_size = sizeof need;
    ASSERT_EQ(k.query(&k, nullptr, &r, &need, nullptr), NIBBLE_OK);
    EXPECT_LT(need.bytes, std::uint64_t{64} << 20) << k.name;
    r.workspace_limit_bytes = need.minimum_bytes + (need.bytes - need.minimum_bytes) / 2;
    ASSERT_EQ(k.query(&k, nullptr, &r, &need, nullptr), NIBBLE_OK);
    EXPECT_LE(need.bytes, r.workspace_limit_bytes) << k.name;
  }
}

}  // namespace
}  // namespace nibble::cpu
