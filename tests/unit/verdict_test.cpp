// The verdict's gates on made-up cells, just over and just under each limit.
// Apart from the measuring, which needs a GPU.
#include "bench/compare/verdict.h"

#include <gtest/gtest.h>

namespace nibble::bench {
namespace {

/// A cell whose candidate takes 100 us and whose baseline `ratio` times that, samples `spread` apart.
Measured cell(Kind kind, double ratio, double spread = 0.001) {
  const auto around = [&](double median) {
    return Summary{median, median * (1 - spread / 2), median * (1 + spread / 2)};
  };
  return {"cell", kind, kind == Kind::standalone, false, around(100 * ratio), around(100)};
}

std::vector<Measured> all_good() {
  return {cell(Kind::standalone, 1.101), cell(Kind::standalone, 1.101), cell(Kind::backward, 1.031),
          cell(Kind::forward, 1.031), cell(Kind::public_path, 0.971)};
}

TEST(Statistics, AreThoseOfTheSamples) {
  const std::vector<double> samples = {5, 1, 4, 2, 3, 6, 7, 8, 9, 10, 11};
  const Summary s = summarize(samples);
  EXPECT_DOUBLE_EQ(s.median, 6);
  EXPECT_DOUBLE_EQ(s.p10, 2);
  EXPECT_DOUBLE_EQ(s.p90, 10);
  EXPECT_DOUBLE_EQ(s.spread(), 8.0 / 6);
  EXPECT_DOUBLE_EQ(summarize(std::vector<double>{3, 4}).median, 3.5);
  EXPECT_DOUBLE_EQ(summarize({}).median, 0);
  EXPECT_DOUBLE_EQ(geometric_mean(std::vector<double>{2, 8}), 4);
}

TEST(Verdict, IsGoJustOverEveryGate) {
  const Verdict v = judge(all_good());
  EXPECT_TRUE(v.go) << (v.failings.empty() ? "" : v.failings.front());
  EXPECT_NEAR(v.gain, 1.101, 1e-9);
}

TEST(Verdict, NeedsTheGeometricMeanOfTheLargeCells) {
  auto cells = all_good();
  cells[0] = cell(Kind::standalone, 1.09);
  EXPECT_FALSE(judge(cells).go);
  cells[1] = cell(Kind::standalone, 1.12);
  EXPECT_TRUE(judge(cells).go) << "1.09 and 1.12 have a mean of 1.105";
  cells[1].large = false;
  EXPECT_FALSE(judge(cells).go) << "a small cell does not lift the mean";
  cells[1] = cell(Kind::standalone, 1.12);
  cells[1].control = true;
  EXPECT_FALSE(judge(cells).go) << "nor does a control";
}

TEST(Verdict, LetsNoStandaloneOrPublicCellRegress) {
  for (const Kind kind : {Kind::standalone, Kind::public_path}) {
    auto cells = all_good();
    cells.push_back(cell(kind, 0.971));
    cells.back().large = false;
    EXPECT_TRUE(judge(cells).go);
    cells.back() = cell(kind, 0.969);
    cells.back().large = false;
    const Verdict v = judge(cells);
    ASSERT_EQ(v.failings.size(), 1u);
    EXPECT_EQ(v.failings[0], "cell is 0.969 of the baseline's speed: expected at least 0.97");
    cells.back().control = true;
    EXPECT_FALSE(judge(cells).go) << "a control may not regress either";
  }
}

TEST(Verdict, NeedsALayerOfEachDirectionToGainMoreThanItsSpread) {
  for (const std::size_t layer : {2, 3}) {
    auto cells = all_good();
    const Kind kind = cells[layer].kind;
    cells[layer] = cell(kind, 1.029);
    EXPECT_FALSE(judge(cells).go);
    cells[layer] = cell(kind, 1.04, 0.041);
    EXPECT_FALSE(judge(cells).go) << "the samples lie further apart than the gain";
    cells[layer] = cell(kind, 1.04, 0.039);
    EXPECT_TRUE(judge(cells).go);
    cells.push_back(cell(kind, 0.9));
    EXPECT_TRUE(judge(cells).go) << "one gaining cell is enough, and layer cells are not held against loss";
    cells.erase(cells.begin() + static_cast<std::ptrdiff_t>(layer));
    EXPECT_FALSE(judge(cells).go);
  }
}

TEST(Verdict, OfNothingIsNoGo) {
  EXPECT_FALSE(judge({}).go);
  auto cells = all_good();
  cells.pop_back();
  EXPECT_FALSE(judge(cells).go) << "without a public-path cell nothing is known of it";
}

}  // namespace
}  // namespace nibble::bench
