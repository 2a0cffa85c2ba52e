// Laying out rows of cells.
// Apart from table.h so that the layout is compiled once.
#include "tools/table.h"

#include "tools/common.h"

#include <algorithm>

namespace nibble::cli {
namespace {

/// Names from files may have a million characters.
constexpr std::size_t kWidest = 300;

/// Characters, where UTF-8 continuation bytes count for nothing.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

Table::Table(std::vector<std::string> headings) {
  for (std::string& heading : headings) {
    right_.push_back(heading.starts_with('>'));
    if (right_.back()) heading.erase(0, 1);
  }
  rows_.push_back(std::move(headings));
}

void Table::add(std::vector<std::string> cells) {
  for (std::string& cell : cells) cell = printable(cell.size() <= kWidest ? cell : cell.substr(0, kWidest) + "...");
  rows_.push_back(std::move(cells));
}

std::string Table::text() const {
  std::vector<std::size_t> widths(right_.size());
  for (const auto& row : rows_) {
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], width_of(row[c]));
  }
  std::string out;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::string gap(widths[c] - width_of(row[c]), ' ');
      line += (c == 0 ? "" : "  ") + (right_[c] ? gap + row[c] : row[c] + gap);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + '\n';
  }
  return out;
}

std::string Table::markdown() const {
  std::string out;
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    out += fmt::format("| {} |\n", fmt::join(rows_[r], " | "));
    if (r != 0) continue;
    for (const bool right : right_) out += right ? "| ---: " : "| --- ";
    out += "|\n";
  }
  return out;
}

}  // namespace nibble::cli
