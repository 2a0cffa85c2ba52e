// From a row to the operation that it is of.
// Apart from the header so that the plugins' lists see neither operation.
#include "backends/gpu/product_rows.h"

#include "backends/gpu/linear.h"
#include "backends/gpu/out_prod.h"
#include "backends/gpu/text.h"

namespace nibble::gpu {
namespace {

const Product& product_of(const nibble_kernel* k) { return *static_cast<const Product*>(k->self); }

}  // namespace

nibble_status product_supports(const nibble_kernel* k, const nibble_caps* caps, const nibble_request* r,
                               nibble_text* why) {
  if (const nibble_status s = device_has_code(k, caps, r, why); s != NIBBLE_OK) return s;
  const Product& product = product_of(k);
  if (product.nested_alone && !nested(r->weight))
    return fail(why, NIBBLE_UNSUPPORTED, "the weight's statistics are plain: expected nested");
  const bool batch = r->dst.shape[2] != 1 || r->dst.shape[3] != 1;
  if (product.shape == Product::Shape::matrix && batch) {
    return fail(why, NIBBLE_UNSUPPORTED, "dst has a batch of {} x {}: expected one matrix", r->dst.shape[2],
                r->dst.shape[3]);
  }
  if (product.shape == Product::Shape::batch && !batch)
    return fail(why, NIBBLE_UNSUPPORTED, "dst is one matrix: expected a batch");
  return NIBBLE_OK;
}

nibble_status query_product(const nibble_kernel* k, const nibble_caps*, const nibble_request* r,
                            nibble_workspace_need* need, nibble_text*) {
  const ProductTools& tools = product_of(k).tools;
  return k->op == NIBBLE_OP_LINEAR ? query_linear(tools, *r, need) : query_out_prod(tools, *r, need);
}

nibble_status execute_product(const nibble_kernel* k, const nibble_caps*, const nibble_request* r, void* workspace,
                              std::uint64_t workspace_bytes, void* stream, nibble_text* why) {
  const DeviceGuard device(r->weight.packed.device_index, why);
  if (device.status() != NIBBLE_OK) return device.status();
  const ProductTools& tools = product_of(k).tools;
  return k->op == NIBBLE_OP_LINEAR ? run_linear(tools, *r, workspace, workspace_bytes, stream, why)
                                   : run_out_prod(tools, *r, workspace, workspace_bytes, stream, why);
}

}  // namespace nibble::gpu
