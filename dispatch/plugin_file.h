// What must hold of a plugin's file before dlopen may have it.
// Apart from the loader because it reads the file itself, by the ELF format.
#ifndef NIBBLE_DISPATCH_PLUGIN_FILE_H
#define NIBBLE_DISPATCH_PLUGIN_FILE_H

#include <string>

namespace nibble {

/// Why the file must not be handed to dlopen, which would wait for a pipe's other end and dies by a bus error where a
/// file was cut off. Empty for a whole file, and for all that dlopen itself refuses by name.
std::string plugin_file_fault(const std::string& path);

}  // namespace nibble

#endif
