// The element types of safetensors.
// Apart from the parser because bitsandbytes states name element types as well.
#ifndef NIBBLE_IO_DTYPE_H
#define NIBBLE_IO_DTYPE_H

#include <nibble/tensor.hpp>

#include <cstdint>
#include <optional>
#include <string_view>

namespace nibble::io {

struct Dtype {
  std::string_view name;         ///< as the header writes it: "BF16"
  std::uint32_t bits;            ///< of an element
  std::optional<Format> weight;  ///< the format, where the elements are weights as they stand
};

inline constexpr Dtype kDtypes[] = {{"F32", 32, NIBBLE_F32},
                                    {"F16", 16, NIBBLE_F16},
                                    {"BF16", 16, NIBBLE_BF16},
                                    {"U8", 8, {}},
                                    {"I8", 8, {}},
                                    {"BOOL", 8, {}},
                                    {"U16", 16, {}},
                                    {"I16", 16, {}},
                                    {"U32", 32, {}},
                                    {"I32", 32, {}},
                                    {"U64", 64, {}},
                                    {"I64", 64, {}},
                                    {"F64", 64, {}},
                                    {"C64", 64, {}},
                                    {"F8_E4M3", 8, {}},
                                    {"F8_E5M2", 8, {}},
                                    {"F8_E8M0", 8, {}},
                                    {"F8_E4M3FNUZ", 8, {}},
                                    {"F8_E5M2FNUZ", 8, {}},
                                    {"F6_E2M3", 6, {}},
                                    {"F6_E3M2", 6, {}},
                                    {"F4", 4, {}}};

/// nullptr where there is none of that name.
constexpr const Dtype* find_dtype(std::string_view name) {
  for (const Dtype& dtype : kDtypes) {
    if (dtype.name == name) return &dtype;
  }
  return nullptr;
}

}  // namespace nibble::io

#endif
