// Whether this build is watched by AddressSanitizer or ThreadSanitizer, which make it ten to fifty times as slow.
// Apart from the tests because those that are long ask before they repeat themselves.
#ifndef NIBBLE_TESTS_SUPPORT_SANITIZED_H
#define NIBBLE_TESTS_SUPPORT_SANITIZED_H

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define NIBBLE_TEST_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define NIBBLE_TEST_SANITIZED 1
#endif

namespace nibble::test {

#ifdef NIBBLE_TEST_SANITIZED
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace nibble::test

#endif
