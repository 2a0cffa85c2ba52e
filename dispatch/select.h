// Choosing a kernel: a pure function of rows, rules, device capabilities, request and overrides.
// Apart from the registry so that SM103, gfx942 or an AVX2-only machine are tested anywhere, with invented ones.
#ifndef NIBBLE_DISPATCH_SELECT_H
#define NIBBLE_DISPATCH_SELECT_H

#include <nibble/nibble.hpp>

#include "dispatch/rules.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nibble {

/// A kernel as a candidate on one device.
struct Row {
  const nibble_kernel* kernel = nullptr;
  std::string_view backend;
  std::uint32_t backend_order = 0;    ///< lower is preferred within a tier
  const nibble_caps* caps = nullptr;  ///< of the device as this back end sees it
  std::string_view unavailable;       ///< why this back end cannot use the device; empty: it can
  bool disabled = false;
  const nibble_memory* memory = nullptr;  ///< for its workspace; nullptr: the host's own
};

struct Selection {
  const Row* row = nullptr;  ///< nullptr: none
  std::string reason;        ///< why this one, or why none; empty unless a trace was asked for or nothing was chosen
};

/// The choice among `rows` (of the request's op and device type). `forced` names a kernel that must be taken; empty:
/// none. With `trace`, every row's fate is written there, in order; without, nothing is formatted on the way.
Selection select(std::span<const Row> rows, std::span<const Rule> rules, const nibble_request& request,
                 std::string_view forced, std::vector<Candidate>* trace);

/// Whether `row` can serve `request` at all: needs, not policy. With `why`, the reason where it cannot.
bool needs_met(const Row& row, const nibble_request& request, std::string* why);

}  // namespace nibble

#endif
