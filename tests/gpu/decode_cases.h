// The decoders' values against the reference, by bits.
// Apart from the timings because a run may want one without the other.
#ifndef NIBBLE_TESTS_GPU_DECODE_CASES_H
#define NIBBLE_TESTS_GPU_DECODE_CASES_H

namespace nibble::decode_check {

/// Runs every case of every format and output type; prints each failure and a count. True where none failed.
/// `reduced` keeps the sizes small enough for a memory checker.
bool check_values(bool reduced);

/// Prints the tables of times.
void print_times();

}  // namespace nibble::decode_check

#endif
