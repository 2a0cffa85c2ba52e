// Calling a plugin's functions: its line of text, and its exceptions kept out.
// Apart from the callers because every call across the ABI needs both.
#ifndef NIBBLE_DISPATCH_PLUGIN_CALL_H
#define NIBBLE_DISPATCH_PLUGIN_CALL_H

#include <nibble/abi.h>

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
  [[nodiscard]] std::string_view view(std::string_view otherwise) const {
    const std::string_view text(data_, strnlen(data_, sizeof data_));
    const std::string_view line = text.substr(0, text.find_first_of("\r\n"));
    return line.empty() ? otherwise : line;
  }
  void set(std::string_view message) {
    const std::size_t length = message.size() < sizeof data_ ? message.size() : sizeof data_ - 1;
    std::memcpy(data_, message.data(), length);
    data_[length] = '\0';
  }

 private:
  char data_[512];
  nibble_text text_{};
};

/// The call's status; NIBBLE_INTERNAL with words in `text` where it threw, which the ABI forbids.
template <class F>
nibble_status guarded(TextBuffer& text, F&& call) {
  try {
    return call();
  } catch (const std::exception& e) {
    text.set(std::string("the plugin threw, which it must not: ") + e.what());
  } catch (...) {
    text.set("the plugin threw something that is not a std::exception, which it must not");
  }
  return NIBBLE_INTERNAL;
}

}  // namespace nibble

#endif
