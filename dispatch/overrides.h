// What settings must keep to, however they came about.
// Apart from nibble.hpp because only the registry asks.
#ifndef NIBBLE_DISPATCH_OVERRIDES_H
#define NIBBLE_DISPATCH_OVERRIDES_H

#include <nibble/nibble.hpp>

namespace nibble {

/// Numbers in their ranges, no name twice, nothing both asked for and disabled: what can be said before any plugin is
/// looked for. NIBBLE_BAD_SETTING in the words that the variable would get.
Status check_settings(const Settings& settings);

}  // namespace nibble

#endif
