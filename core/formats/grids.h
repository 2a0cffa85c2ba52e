// The grids of the IQ1, IQ2 and IQ3 formats as constants.
// Apart from the formats because two of them share one, and because an engine chooses where a grid lives (registers,
// shared memory); the entries are data in core/tables.
#ifndef NIBBLE_CORE_FORMATS_GRIDS_H
#define NIBBLE_CORE_FORMATS_GRIDS_H

#include <cstdint>

namespace nibble {

enum class Grid : std::uint8_t { iq1s, iq2xxs, iq2xs, iq2s, iq3xxs, iq3s };

inline constexpr std::uint64_t kGridIq1s[2048] = {
#include "core/tables/iq1s_grid.inc"
};
inline constexpr std::uint64_t kGridIq2xxs[256] = {
#include "core/tables/iq2xxs_grid.inc"
};
inline constexpr std::uint64_t kGridIq2xs[512] = {
#include "core/tables/iq2xs_grid.inc"
};
inline constexpr std::uint64_t kGridIq2s[1024] = {
#include "core/tables/iq2s_grid.inc"
};
inline constexpr std::uint32_t kGridIq3xxs[256] = {
#include "core/tables/iq3xxs_grid.inc"
};
inline constexpr std::uint32_t kGridIq3s[512] = {
#include "core/tables/iq3s_grid.inc"
};

/// Entries of a grid, on the host.
template <Grid grid>
constexpr const auto& grid_table() {
  if constexpr (grid == Grid::iq1s)
    return kGridIq1s;
  else if constexpr (grid == Grid::iq2xxs)
    return kGridIq2xxs;
  else if constexpr (grid == Grid::iq2xs)
    return kGridIq2xs;
  else if constexpr (grid == Grid::iq2s)
    return kGridIq2s;
  else if constexpr (grid == Grid::iq3xxs)
    return kGridIq3xxs;
  else
    return kGridIq3s;
}

}  // namespace nibble

#endif
