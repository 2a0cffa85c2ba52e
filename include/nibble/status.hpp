// Status and Result: how every call says that it worked, or why it did not.
// Apart from the other headers because both core and io return them and neither may know the registry.
#ifndef NIBBLE_STATUS_HPP
#define NIBBLE_STATUS_HPP

#include <nibble/abi.h>

#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace nibble {

/// A status code with one line that names the thing, its value and what was expected. An ok status owns no memory.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(nibble_status code, std::string message) : code_(code), message_(std::move(message)) {}

  [[nodiscard]] bool ok() const { return code_ == NIBBLE_OK; }
  explicit operator bool() const { return ok(); }
  [[nodiscard]] nibble_status code() const { return code_; }
  [[nodiscard]] const std::string& message() const { return message_; }

 private:
  nibble_status code_ = NIBBLE_OK;
  std::string message_;
};

/// A value, or the status that says why there is none. `value()` may be called only after `ok()` answered true.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}         // NOLINT(google-explicit-constructor)
  Result(Status status) : state_(std::move(status)) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool ok() const { return std::holds_alternative<T>(state_); }
  explicit operator bool() const { return ok(); }
  [[nodiscard]] T& value() & { return std::get<T>(state_); }
  [[nodiscard]] const T& value() const& { return std::get<T>(state_); }
  [[nodiscard]] T&& value() && { return std::get<T>(std::move(state_)); }
  T* operator->() { return &std::get<T>(state_); }
  const T* operator->() const { return &std::get<T>(state_); }
  T& operator*() { return std::get<T>(state_); }
  const T& operator*() const { return std::get<T>(state_); }
  /// The failure; an ok status where there is a value.
  [[nodiscard]] Status status() const { return ok() ? Status{} : std::get<Status>(state_); }

 private:
  std::variant<Status, T> state_;
};

/// "invalid argument", "bad file", ...
NIBBLE_EXPORT std::string_view status_name(nibble_status code);

}  // namespace nibble

#endif
