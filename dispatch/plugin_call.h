// Calling a plugin's functions: its line of text, and its exceptions kept out.
// Apart from the callers because every call across the ABI needs both.
#ifndef NIBBLE_DISPATCH_PLUGIN_CALL_H
#define NIBBLE_DISPATCH_PLUGIN_CALL_H

#include <nibble/abi.h>

#include "core/text.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>

namespace nibble {

/// Room for the one line that a plugin may write. On the stack: a call that succeeds allocates nothing.
class TextBuffer {
 public:
  TextBuffer() { data_[0] = '\0'; }
  nibble_text* get() {
    text_ = {.struct_size = sizeof text_, .reserved = 0, .capacity = sizeof data_, .data = data_};
    return &text_;
  }
  /// The first line of what was written, or `otherwise` where nothing was.
  [[nodiscard]] std::string line(std::string_view otherwise) const {
    const std::string_view text(data_, strnlen(data_, sizeof data_));
    const std::string_view first = text.substr(0, text.find_first_of("\r\n"));
    return printable(first.empty() ? otherwise : first, sizeof data_);
  }
  /// Allocates nothing: what is to be said may be that memory is short.
  void set(std::string_view message, std::string_view more = {}) {
    std::size_t length = 0;
    for (const std::string_view part : {message, more}) {
      const std::size_t fits = std::min(part.size(), sizeof data_ - 1 - length);
      std::copy_n(part.data(), fits, data_ + length);
      length += fits;
    }
    data_[length] = '\0';
  }

 private:
  char data_[512];
  nibble_text text_{};
};

/// The call's status; NIBBLE_INTERNAL with words in `text` where it threw, which the ABI forbids. What unwinds a thread
/// is no object: UndefinedBehaviorSanitizer takes the reference that catches it for one to nothing.
template <class F>
__attribute__((no_sanitize("null", "alignment"))) nibble_status guarded(TextBuffer& text, F&& call) {
  try {
    return call();
  } catch (abi::__forced_unwind&) {
    throw;  // the thread is cancelled or exits; to stop that on its way ends the process
  } catch (const std::exception& e) {
    text.set("the plugin threw, which it must not: ", e.what());
  } catch (...) {
    text.set("the plugin threw something that is not a std::exception, which it must not");
  }
  return NIBBLE_INTERNAL;
}

}  // namespace nibble

#endif
