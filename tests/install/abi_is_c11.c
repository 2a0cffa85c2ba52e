/* The C header in C11 alone: it must compile, and a struct must be what C++ sees.
 * Apart from main.cpp because that is C++. */
#include <nibble/abi.h>

size_t request_size_in_c(void);
size_t request_size_in_c(void) { return sizeof(nibble_request); }
