// What every operation checks of its tensors: shapes, strides, types, one device, pointers.
// Apart from the operations because they ask the same questions, and a kernel may then assume the answers.
#ifndef NIBBLE_CORE_OPS_VALIDATE_H
#define NIBBLE_CORE_OPS_VALIDATE_H

#include <nibble/status.hpp>
#include <nibble/tensor.hpp>

#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace nibble {

/// A tensor with the name that messages call it by.
struct Named {
  std::string_view name;
  const Tensor* tensor;
};

/// Rank 1 to 4, a known format, dimensions >= 0, rows of whole blocks, bytes and strides within 63 bits, strides >= 0.
Status check_shape(Named t);
/// A tensor that the operation or the format does not read must not be given: it would be ignored in silence.
Status check_absent(Named t, std::string_view why);
/// A weight in a known format: whole blocks a row, statistics of the right format and count,
/// side by side, where the format has them and none where it has not.
Status check_weight(const Weight& w);
/// f32, f16 or bf16 with neighbours in dimension 0 and no two elements in one place.
Status check_output(Named t);
/// f32, f16 or bf16 with strides that are multiples of the element's size.
Status check_activation(Named t);
/// Dimensions equal to `expected`, innermost first; `meaning` says where they come from.
Status check_dimensions(Named t, const std::int64_t (&expected)[4], std::string_view meaning);
/// Of the operations that know none.
Status check_no_flags(std::string_view op, std::uint32_t flags);
/// All present tensors on the device of the first.
Status check_one_device(std::initializer_list<Named> tensors);
/// Data is there and aligned to its element where the tensor has any elements. Depends on addresses, so it is asked
/// at each call, where all else may be remembered for a shape.
Status check_data(std::initializer_list<Named> tensors);

}  // namespace nibble

#endif
