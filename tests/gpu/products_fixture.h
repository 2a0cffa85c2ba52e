// Operands for the product checks: random weights in any format, activations in any layout, and the right answers.
// Apart from the checks so that host arithmetic and device calls are not mixed.
#ifndef NIBBLE_TESTS_GPU_PRODUCTS_FIXTURE_H
#define NIBBLE_TESTS_GPU_PRODUCTS_FIXTURE_H

#include <nibble/tensor.hpp>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace nibble::gpu_test {

/// One call, in words that a failure can print.
struct Case {
  nibble_op op = NIBBLE_OP_OUT_PROD;
  nibble_format format = NIBBLE_Q4_K;
  bool nested = false;
  std::int64_t columns = 256, rows = 16, tokens = 16;     ///< weight [columns, rows]
  std::int64_t weights[2] = {1, 1}, repeats[2] = {1, 1};  ///< batch of the weight, and what divides it in src1
  enum class Layout : std::uint8_t { along_outer, along_k, strided, repeated } layout = Layout::along_outer;
  nibble_format src1 = NIBBLE_F32, dst = NIBBLE_F32;
  bool accumulate = false, bias = false;
  std::int64_t pad = 0;  ///< elements after each row of src1 and dst; bytes after each of the weight's
  double src1_scale = 1;
  std::uint64_t limit = 0;       ///< workspace_limit_bytes
  bool least_workspace = false;  ///< run in minimum_bytes
  [[nodiscard]] std::string text() const;
};

/// Values that a row of this format has in the checks: whole blocks, and no multiple of 8 where the format allows.
std::int64_t columns_for(nibble_format format);

struct Expected {
  double value = 0, magnitude = 0;  ///< a sum, and the sum of the magnitudes of its terms
};

/// Host memory with the operands of a case.
class Fixture {
 public:
  Fixture(const Case& c, std::uint64_t seed);
  Fixture(const Fixture&) = delete;
  Fixture& operator=(const Fixture&) = delete;

  /// The request with pointers into host memory.
  [[nodiscard]] const nibble_request& request() const { return request_; }
  std::vector<std::uint8_t> packed, absmax, nested_absmax, nested_code, code, src1, bias, dst;

  /// For dst's elements, [i0, i1, i2, i3] with i0 innermost.
  [[nodiscard]] std::vector<Expected> expected() const;
  [[nodiscard]] bool is_padding(std::size_t byte) const { return padding_[byte]; }

 private:
  void make_weight(const Case& c);
  void make_src1(const Case& c);
  void make_dst(const Case& c);

  std::mt19937_64 random_;
  nibble_request request_{};
  std::vector<bool> padding_;
};

/// Random blocks of a format whose values are finite and neither huge nor tiny: [blocks * block_bytes].
std::vector<std::uint8_t> random_blocks(nibble_format format, std::int64_t blocks, std::mt19937_64& random);
/// n values, about normal with deviation `scale`, rounded to type.
std::vector<std::uint8_t> random_elements(nibble_format type, std::int64_t n, double scale, std::mt19937_64& random);

/// out_prod's sums of matrix (i2, i3) in binary64, [i, token] with i innermost, for i from `first` and tokens from
/// `token` on; by all processors where k is large.
std::vector<Expected> out_prod_sums(const nibble_request& host, std::int64_t first, std::int64_t count,
                                    std::int64_t token, std::int64_t tokens, std::int64_t i2, std::int64_t i3);

}  // namespace nibble::gpu_test

#endif
