// The host side of the GPU back ends: rows into tiles, and which devices the compiled code runs on.
// Apart from the bodies' tests because none of it decodes anything.
#include <gtest/gtest.h>

#include "backends/gpu/images.h"
#include "backends/gpu/rows.h"

#include <string_view>
#include <utility>
#include <vector>

namespace nibble::gpu {
namespace {

/// Source position and destination of every value, in the order of the tiles.
std::vector<std::pair<std::int64_t, const std::uint8_t*>> places(const Rows& r, int tile_values) {
  std::vector<std::pair<std::int64_t, const std::uint8_t*>> out;
  in_pieces(r, tile_values, [&](const Tiles& tiles) {
    for (std::uint32_t i = 0; i < tiles.count; ++i) {
      const Tile t = tiles.tile(i, 2);
      for (int v = 0; v < t.values; ++v) out.emplace_back(t.src + t.begin + v, t.dst + 2 * v);
    }
    return nibble_status{NIBBLE_OK};
  });
  return out;
}

TEST(GpuRows, TilesCoverStridedRowsInOrder) {
  std::vector<std::uint8_t> memory(8192);
  const Rows r{.src = nullptr,
               .dst = memory.data(),
               .first = 5,
               .values = 100,
               .count = {3, 2, 4},
               .src_stride = {100, 300, 600},
               .dst_stride = {220, 660, 1400}};
  std::vector<std::pair<std::int64_t, const std::uint8_t*>> expected;
  for (int i3 = 0; i3 < 4; ++i3) {
    for (int i2 = 0; i2 < 2; ++i2) {
      for (int i1 = 0; i1 < 3; ++i1) {
        for (int v = 0; v < 100; ++v) {
          expected.emplace_back(5 + 100 * i1 + 300 * i2 + 600 * i3 + v,
                                memory.data() + 220 * i1 + 660 * i2 + 1400 * i3 + 2 * v);
        }
      }
    }
  }
  EXPECT_EQ(places(r, 32), expected);
  EXPECT_EQ(places(flattened(r, 1, 1, 2), 32), expected);  // nothing to join: the destination has padding
}

TEST(GpuRows, ContiguousDimensionsBecomeOneRow) {
  Rows r{.values = 64, .count = {3, 5, 7}, .src_stride = {36, 108, 540}, .dst_stride = {128, 384, 1920}};
  EXPECT_EQ(flattened(r, 32, 18, 2).values, 64 * 3 * 5 * 7);
  EXPECT_EQ(flattened(r, 32, 18, 2).rows(), 1);
  r.dst_stride[1] = 400;
  EXPECT_EQ(flattened(r, 32, 18, 2).values, 64 * 3);
  EXPECT_EQ(flattened(r, 32, 18, 2).rows(), 5 * 7);
}

TEST(GpuRows, MoreTilesThanAGridHasBlocksAreSplit) {
  const Rows r{
      .values = 1, .count = {70000, 70000, 3}, .src_stride = {1, 70000, 4900000000}, .dst_stride = {4, 280004, 0}};
  std::int64_t tiles = 0, pieces = 0, next_source = 0;
  in_pieces(r, 8192, [&](const Tiles& t) {
    EXPECT_LE(t.count, kMostTiles);
    EXPECT_EQ(t.count, t.rows.rows());
    EXPECT_EQ(t.rows.first, next_source);
    next_source += t.rows.rows();
    tiles += t.count;
    ++pieces;
    return nibble_status{NIBBLE_OK};
  });
  EXPECT_EQ(tiles, 70000LL * 70000 * 3);
  EXPECT_GT(pieces, 6);
}

TEST(GpuRows, AFailureEndsTheLaunches) {
  const Rows r{.values = 1, .count = {70000, 70000, 1}, .src_stride = {1, 70000, 0}, .dst_stride = {4, 280000, 0}};
  int calls = 0;
  EXPECT_EQ(in_pieces(r, 8192, [&](const Tiles&) { return ++calls, nibble_status{NIBBLE_DEVICE_ERROR}; }),
            NIBBLE_DEVICE_ERROR);
  EXPECT_EQ(calls, 1);
}

TEST(GpuImages, ArchitecturesAsTheBuildListsThem) {
  constexpr std::string_view kCi = "90-real,103-real";
  EXPECT_EQ(code_for(kCi, 9, 0), 90u);
  EXPECT_EQ(code_for(kCi, 10, 3), 103u);
  EXPECT_EQ(code_for(kCi, 10, 0), 0u);
  EXPECT_EQ(code_for(kCi, 12, 0), 0u);
  EXPECT_EQ(code_for(kCi, 8, 9), 0u);
  constexpr std::string_view kRelease = "75-real,80-real,86-real,89-real,90-real,100-real,103-real,120";
  EXPECT_EQ(code_for(kRelease, 8, 7), 86u);
  EXPECT_EQ(code_for(kRelease, 10, 1), 100u);
  EXPECT_EQ(code_for(kRelease, 12, 1), 120u);
  EXPECT_EQ(code_for(kRelease, 13, 0), 120u);  // through the intermediate form of the last
  EXPECT_EQ(code_for(kRelease, 7, 0), 0u);
  EXPECT_EQ(code_for(kRelease, 11, 0), 0u);
  EXPECT_EQ(code_for("90a-real", 9, 0), 90u);
  EXPECT_EQ(code_for("90a", 10, 0), 0u);
  EXPECT_EQ(code_for("100f", 10, 3), 100u);
  EXPECT_EQ(code_for("100f", 12, 0), 0u);
  EXPECT_EQ(code_for("75,90-real", 8, 6), 75u);  // by the intermediate form
  EXPECT_EQ(code_for("75,80-real,90-real", 8, 6), 80u);
  EXPECT_EQ(code_for("75,80-real,90-real", 12, 0), 75u);
  EXPECT_EQ(code_for("75-virtual,90-virtual", 12, 0), 90u);
  EXPECT_EQ(code_for("", 9, 0), 0u);
}

}  // namespace
}  // namespace nibble::gpu
