// The reference back end: each operation's reference(), behind the same row type as every other kernel.
// Apart from the plugins because it is linked into libnibble and needs no loading.
#ifndef NIBBLE_BACKENDS_REFERENCE_PLUGIN_H
#define NIBBLE_BACKENDS_REFERENCE_PLUGIN_H

#include <nibble/abi.h>

namespace nibble {

/// Static data, as nibble_plugin_query of a plugin gives it.
const nibble_plugin& reference_plugin();

}  // namespace nibble

#endif
