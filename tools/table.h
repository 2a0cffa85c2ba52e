// Text tables for the terminal and for Markdown.
// Apart from common.h because not every subcommand prints one.
#ifndef NIBBLE_TOOLS_TABLE_H
#define NIBBLE_TOOLS_TABLE_H

#include <string>
#include <vector>

namespace nibble::cli {

/// Columns as wide as their widest cell. A heading that begins with '>' aligns its column to the right.
class Table {
 public:
  explicit Table(std::vector<std::string> headings);
  /// As many cells as there are headings.
  void add(std::vector<std::string> cells);
  [[nodiscard]] std::string text() const;
  [[nodiscard]] std::string markdown() const;

 private:
  std::vector<std::vector<std::string>> rows_;  ///< the headings first
  std::vector<bool> right_;
};

}  // namespace nibble::cli

#endif
