// A request described by flags, without any data: what explain and ops ask the registry about.
// Apart from common.h because the other subcommands have real weights to ask about.
#ifndef NIBBLE_TOOLS_REQUEST_H
#define NIBBLE_TOOLS_REQUEST_H

#include <nibble/nibble.hpp>

#include <cstdint>
#include <string_view>
#include <vector>

namespace nibble::cli {

/// The defaults are those of `nibble explain`.
struct RequestSpec {
  nibble_op op = NIBBLE_OP_DEQUANTIZE;
  Format format = NIBBLE_Q4_K;
  bool nested = false;
  std::int64_t block_size = 64;          ///< bitsandbytes formats alone
  std::int64_t nested_block_size = 256;  ///< where nested
  Format to = NIBBLE_F32;
  std::vector<std::int64_t> shape = {4096, 4096};  ///< of the weight, innermost first: in, out, batches
  std::int64_t tokens = 16;
  Format src1 = NIBBLE_F32;
  bool transposed = false;
  std::vector<std::int64_t> repeat = {1, 1};
  nibble_math math = NIBBLE_MATH_DEFAULT;
  Device device{};
};

/// Statistics with one block size: codes over the whole tensor.
bool has_statistics(Format format);

/// The request with null pointers. Ends the command with status 2 where the shape is no tensor's.
nibble_request build_request(const RequestSpec& spec);

}  // namespace nibble::cli

#endif
