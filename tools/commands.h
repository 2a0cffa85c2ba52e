// The list of subcommands.
// Apart from common.h so that a subcommand's file does not see its siblings.
#ifndef NIBBLE_TOOLS_COMMANDS_H
#define NIBBLE_TOOLS_COMMANDS_H

#include <CLI/CLI.hpp>

#include <functional>

namespace nibble::cli {

/// Runs a parsed subcommand and gives the exit status; a failure with a line of its own is a thrown Failure.
using Action = std::function<int()>;

/// Each adds its subcommand with flags, help and examples to `app`.
Action add_info(CLI::App& app);
Action add_inspect(CLI::App& app);
Action add_dequantize(CLI::App& app);
Action add_verify(CLI::App& app);
Action add_explain(CLI::App& app);
Action add_ops(CLI::App& app);

}  // namespace nibble::cli

#endif
