// Finding and loading plugins: the search path, dlopen, the handshake.
// Apart from the registry because it is the one place where foreign code enters the process.
#ifndef NIBBLE_DISPATCH_LOADER_H
#define NIBBLE_DISPATCH_LOADER_H

#include <nibble/nibble.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace nibble {

/// A back end that may be used, or the record of why not (plugin is nullptr then).
struct LoadedPlugin {
  PluginRecord record;
  const nibble_plugin* plugin = nullptr;
  std::vector<const nibble_kernel*> kernels;  ///< those of its rows that are sound
};

/// Finds nibble_<back end>.so in the settings' folders, then beside libnibble, and loads what the settings allow. The
/// linked-in reference comes last. A setting that names a back end that was not found is NIBBLE_BAD_SETTING.
/// What is loaded stays loaded: a plugin's code may be in use for as long as the process lives.
Result<std::vector<LoadedPlugin>> load_plugins(const Settings& settings);

/// True where `pattern` (a glob) names the back end as a whole: "cuda", "cuda.*".
bool disables_backend(std::string_view pattern, std::string_view backend);

}  // namespace nibble

#endif
