// The flags of `nibble explain` as typed, and the request that they describe.
// Apart from the subcommand so that a fuzzer can type anything without running it.
#ifndef NIBBLE_TOOLS_REQUEST_FLAGS_H
#define NIBBLE_TOOLS_REQUEST_FLAGS_H

#include "tools/request.h"

#include <CLI/CLI.hpp>

#include <optional>
#include <string>

namespace nibble::cli {

/// As typed; empty: not given.
struct RequestFlags {
  std::string op, format, block_size, nested_block_size, to, shape, tokens, src1, repeat, math, caps, device;
  bool nested = false, transposed = false;
};

void add_request_flags(CLI::App& sub, RequestFlags& flags);

struct ParsedRequest {
  RequestSpec spec;
  std::optional<nibble_caps> caps;  ///< of an invented device, where one was asked for
};

/// Ends the command with status 2 and the valid values where a flag has another.
ParsedRequest parse_request(const RequestFlags& flags);

}  // namespace nibble::cli

#endif
