// The same in C++20.
// Apart from layouts.c because a file is of one language.
#include "layouts.c"
