// The list of all operations; everything that concerns each of them iterates this one.
// Apart from the operations' headers: a new operation is its header and one line here.
#ifndef NIBBLE_CORE_OPS_OPS_H
#define NIBBLE_CORE_OPS_OPS_H

#include "core/ops/dequantize.h"
#include "core/ops/linear.h"
#include "core/ops/out_prod.h"

#include <string_view>

// number in abi.h, namespace in nibble::ops with validate(), reference_workspace() and reference(), name
#define NIBBLE_OPS(X)                 \
  X(NIBBLE_OP_DEQUANTIZE, dequantize) \
  X(NIBBLE_OP_OUT_PROD, out_prod)     \
  X(NIBBLE_OP_LINEAR, linear)

namespace nibble {

struct OpInfo {
  nibble_op id;
  std::string_view name;
  bool multiplies;  ///< has a precision class
  Status (*validate)(const nibble_request&);
  std::uint64_t (*reference_workspace)(const nibble_request&);
  void (*reference)(const nibble_request&, void* workspace);
};

inline constexpr OpInfo kOps[] = {
#define NIBBLE_OP_ROW(id, name) \
  {id, #name, id != NIBBLE_OP_DEQUANTIZE, &ops::name::validate, &ops::name::reference_workspace, &ops::name::reference},
    NIBBLE_OPS(NIBBLE_OP_ROW)
#undef NIBBLE_OP_ROW
};

/// nullptr where the number or the name is unknown.
constexpr const OpInfo* find_op(nibble_op id) {
  for (const OpInfo& op : kOps) {
    if (op.id == id) return &op;
  }
  return nullptr;
}
constexpr const OpInfo* find_op(std::string_view name) {
  for (const OpInfo& op : kOps) {
    if (op.name == name) return &op;
  }
  return nullptr;
}

}  // namespace nibble

#endif
