// A table of 256 floats in registers, where AVX-512 has byte permutations.
// Apart from the engine because it is the one place that needs more than its target promises.
#if defined(NIBBLE_BACKENDS_CPU_TABLE256_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef NIBBLE_BACKENDS_CPU_TABLE256_INL_H
#undef NIBBLE_BACKENDS_CPU_TABLE256_INL_H
#else
#define NIBBLE_BACKENDS_CPU_TABLE256_INL_H
#endif

#include <hwy/highway.h>

#include <array>
#include <cstdint>

#include "backends/cpu/halves-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nibble::cpu::HWY_NAMESPACE {
#if HWY_TARGET == HWY_AVX3

// Highway's next target has byte permutations of two registers, and needs more than this one does: so it is asked for
// at run time, and these functions alone are compiled with it.
#define NIBBLE_CPU_VBMI __attribute__((target(HWY_TARGET_STR ",avx512vbmi")))

/// The same byte of 32 floats that lie in two registers, twice.
constexpr std::array<std::uint8_t, 64> every_fourth() {
  std::array<std::uint8_t, 64> at{};
  for (std::size_t i = 0; i < 64; ++i) at[i] = static_cast<std::uint8_t>(4 * i % 128);
  return at;
}

/// 256 floats in sixteen registers, as four planes of bytes. A code's lowest seven bits pick from two registers at
/// once.
class Table256 {
 public:
  NIBBLE_CPU_VBMI explicit HWY_INLINE Table256(const float* HWY_RESTRICT code) {
    alignas(64) static constexpr auto kEveryFourth = every_fourth();
    for (int plane = 0; plane < 4; ++plane) {
      const __m512i pick =
          _mm512_add_epi8(_mm512_load_si512(kEveryFourth.data()), _mm512_set1_epi8(static_cast<char>(plane)));
      for (int part = 0; part < 4; ++part) {
        const float* from = code + 64 * part;
        const __m512i low = _mm512_permutex2var_epi8(_mm512_loadu_si512(from), pick, _mm512_loadu_si512(from + 16));
        const __m512i high =
            _mm512_permutex2var_epi8(_mm512_loadu_si512(from + 32), pick, _mm512_loadu_si512(from + 48));
        bytes_[plane][part] = _mm512_inserti64x4(low, _mm512_castsi512_si256(high), 1);
      }
    }
  }
  /// 64 values at a time; answers how many that were.
  template <class Put>
  NIBBLE_CPU_VBMI HWY_INLINE std::int64_t decode(const std::uint8_t* HWY_RESTRICT packed, std::int64_t count,
                                                 float scale, typename Put::Element* HWY_RESTRICT out,
                                                 const Put& put) const {
    const __m512 scales = _mm512_set1_ps(scale);
    // Interleaving works within 128 bits, so four codes that belong together go to each of the four parts.
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    std::int64_t i = 0;
    for (; i + 64 <= count; i += 64) {
      const __m512i codes = _mm512_permutexvar_epi32(order, _mm512_loadu_si512(packed + i));
      const __m512i b0 = plane(0, codes), b1 = plane(1, codes), b2 = plane(2, codes), b3 = plane(3, codes);
      const __m512i low01 = _mm512_unpacklo_epi8(b0, b1), high01 = _mm512_unpackhi_epi8(b0, b1);
      const __m512i low23 = _mm512_unpacklo_epi8(b2, b3), high23 = _mm512_unpackhi_epi8(b2, b3);
      const __m512i values[4] = {_mm512_unpacklo_epi16(low01, low23), _mm512_unpackhi_epi16(low01, low23),
                                 _mm512_unpacklo_epi16(high01, high23), _mm512_unpackhi_epi16(high01, high23)};
      for (int v = 0; v < 4; ++v)
        put(hn::Vec<Df>{_mm512_mul_ps(_mm512_castsi512_ps(values[v]), scales)}, out + i + 16 * v);
    }
    return i;
  }

 private:
  NIBBLE_CPU_VBMI HWY_INLINE __m512i plane(int p, __m512i codes) const {
    const __m512i low = _mm512_permutex2var_epi8(bytes_[p][0], codes, bytes_[p][1]);
    const __m512i high = _mm512_permutex2var_epi8(bytes_[p][2], codes, bytes_[p][3]);
    return _mm512_mask_blend_epi8(_mm512_movepi8_mask(codes), low, high);
  }

  __m512i bytes_[4][4];
};

#endif
}  // namespace nibble::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
