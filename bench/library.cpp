// dlopen and getenv, for rivals.
// Apart from the header so that both stay in one file.
#include "bench/library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>

namespace nibble::bench {

Result<void*> open_rival(const char* variable, const char* file) {
  const char* folder = std::getenv(variable);
  if (folder == nullptr) return static_cast<void*>(nullptr);
  void* library = dlopen(fmt::format("{}/{}", folder, file).c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) return Status(NIBBLE_NOT_FOUND, fmt::format("{}: {}", variable, dlerror()));
  return library;
}

void* find_function(void* library, const std::string& name) { return dlsym(library, name.c_str()); }

}  // namespace nibble::bench
