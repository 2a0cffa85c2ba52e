// A rival's shared library, found through an environment variable.
// Apart from the rivals because opening one is the same for all.
#ifndef NIBBLE_BENCH_LIBRARY_H
#define NIBBLE_BENCH_LIBRARY_H

#include <nibble/nibble.hpp>

#include <string>

namespace nibble::bench {

/// `file` in the folder that `variable` names. Null where it is not set, an error where the library does not load.
Result<void*> open_rival(const char* variable, const char* file);

/// Null where the library has no such function.
void* find_function(void* library, const std::string& name);

template <typename Function>
Function* look_up(void* library, const std::string& name) {
  return reinterpret_cast<Function*>(find_function(library, name));
}

}  // namespace nibble::bench

#endif
