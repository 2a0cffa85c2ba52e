// The operating system's words.
// Apart from its header because none of it is a template.
#include "io/text.h"

#include <system_error>

namespace nibble::io {

std::string os_words(int error) { return std::generic_category().message(error); }

}  // namespace nibble::io
