// The list of all formats; everything that concerns each of them iterates this one.
// Apart from the formats' headers: a new format is its header and one line here.
#ifndef NIBBLE_CORE_FORMATS_FORMATS_H
#define NIBBLE_CORE_FORMATS_FORMATS_H

#include "core/formats/bf16.h"
#include "core/formats/blockwise8.h"
#include "core/formats/f16.h"
#include "core/formats/f32.h"
#include "core/formats/fp4.h"
#include "core/formats/iq1_m.h"
#include "core/formats/iq1_s.h"
#include "core/formats/iq2_s.h"
#include "core/formats/iq2_xs.h"
#include "core/formats/iq2_xxs.h"
#include "core/formats/iq3_s.h"
#include "core/formats/iq3_xxs.h"
#include "core/formats/iq4_nl.h"
#include "core/formats/iq4_xs.h"
#include "core/formats/mxfp4.h"
#include "core/formats/nf4.h"
#include "core/formats/nvfp4.h"
#include "core/formats/q1_0.h"
#include "core/formats/q2_0.h"
#include "core/formats/q2_k.h"
#include "core/formats/q3_k.h"
#include "core/formats/q4_0.h"
#include "core/formats/q4_1.h"
#include "core/formats/q4_k.h"
#include "core/formats/q5_0.h"
#include "core/formats/q5_1.h"
#include "core/formats/q5_k.h"
#include "core/formats/q6_k.h"
#include "core/formats/q8_0.h"
#include "core/formats/tq1_0.h"
#include "core/formats/tq2_0.h"

// One line a format, in the order in which tables list them.
#define NIBBLE_FORMATS(X) \
  X(F32)                  \
  X(F16)                  \
  X(BF16)                 \
  X(Q1_0)                 \
  X(Q2_0)                 \
  X(Q4_0)                 \
  X(Q4_1)                 \
  X(Q5_0)                 \
  X(Q5_1)                 \
  X(Q8_0)                 \
  X(Q2_K)                 \
  X(Q3_K)                 \
  X(Q4_K)                 \
  X(Q5_K)                 \
  X(Q6_K)                 \
  X(TQ1_0)                \
  X(TQ2_0)                \
  X(IQ1_S)                \
  X(IQ1_M)                \
  X(IQ2_XXS)              \
  X(IQ2_XS)               \
  X(IQ2_S)                \
  X(IQ3_XXS)              \
  X(IQ3_S)                \
  X(IQ4_NL)               \
  X(IQ4_XS)               \
  X(MXFP4)                \
  X(NVFP4)                \
  X(NF4)                  \
  X(FP4)                  \
  X(BLOCKWISE8)

namespace nibble {

/// Calls f with a value of the format's type, whose constants describe it. False where the number is unknown.
template <class F>
constexpr bool visit_format(nibble_format id, F&& f) {
  switch (id) {
#define NIBBLE_VISIT(name) \
  case format::name::kId:  \
    f(format::name{});     \
    return true;
    NIBBLE_FORMATS(NIBBLE_VISIT)
#undef NIBBLE_VISIT
    default:
      return false;
  }
}

/// Calls f for each format in the list's order.
template <class F>
constexpr void for_each_format(F&& f) {
#define NIBBLE_EACH(name) f(format::name{});
  NIBBLE_FORMATS(NIBBLE_EACH)
#undef NIBBLE_EACH
}

}  // namespace nibble

#endif
