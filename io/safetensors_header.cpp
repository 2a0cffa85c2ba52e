// The JSON header of safetensors, read as a stream of events.
// Apart from its header because only this file needs the JSON library's event interface.
#include "io/safetensors_header.h"

#include "io/sizes.h"
#include "io/text.h"

#include <nlohmann/json.hpp>

#include <array>
#include <optional>
#include <unordered_set>
#include <utility>

namespace nibble::io {
namespace {

using nlohmann::json;

enum Field : std::size_t { kDtype, kShape, kOffsets, kFieldCount };
constexpr std::array<std::string_view, kFieldCount> kFieldNames = {"dtype", "shape", "data_offsets"};
constexpr std::array<std::string_view, kFieldCount> kFieldKinds = {"a string", "an array of whole numbers",
                                                                   "an array of whole numbers"};
// No framework makes tensors of more dimensions; the bound keeps a hostile header from growing in memory.
constexpr std::size_t kMostDimensions = 64;

/// Receives the JSON library's events. A handler that returns false ends the parse; `error` then says why.
class HeaderHandler : public nlohmann::json_sax<json> {
 public:
  std::vector<HeaderEntry> entries;
  Status error;

  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("a boolean"); }
  bool number_float(double, const std::string& text) override { return unexpected(fmt::format("the number {}", text)); }
  bool binary(json::binary_t&) override { return unexpected("binary data"); }
  bool number_integer(std::int64_t value) override {
    if (value < 0) return unexpected(fmt::format("the negative number {}", value));
    return number_unsigned(static_cast<std::uint64_t>(value));
  }
  bool number_unsigned(std::uint64_t value) override;
  bool string(std::string& value) override;
  bool start_array(std::size_t) override;
  bool end_array() override;
  bool start_object(std::size_t) override;
  bool end_object() override;
  bool key(std::string& name) override;
  bool parse_error(std::size_t position, const std::string& token, const json::exception&) override {
    return fail(bad_file("the header is not JSON: error at byte {} of it, near {}", position, quote(token)));
  }

 private:
  enum class Place { outside, root, metadata, entry, array, done };

  bool fail(Status status) {
    error = std::move(status);
    return false;
  }
  bool unexpected(std::string_view what);
  bool root_key(std::string& name);
  bool entry_key(const std::string& name);

  Place place_ = Place::outside;
  Field field_ = kFieldCount;  // of the entry, kFieldCount before its first
  std::array<bool, kFieldCount> seen_{};
  std::unordered_set<std::string> names_;
  std::unordered_set<std::string> metadata_names_;
  bool metadata_next_ = false;
};

bool HeaderHandler::unexpected(std::string_view what) {
  switch (place_) {
    case Place::outside:
    case Place::done:
      return fail(bad_file("the header is {}; expected a JSON object", what));
    case Place::metadata:
      return fail(bad_file("{} holds {}; expected strings only", kMetadataKey, what));
    case Place::root:
      return metadata_next_ ? fail(bad_file("{} is {}; expected an object of strings", kMetadataKey, what))
                            : fail(bad_file("tensor {} is {}; expected an object", quote(entries.back().name), what));
    case Place::entry:
      return fail(bad_file("tensor {}: {} is {}; expected {}", quote(entries.back().name), kFieldNames[field_], what,
                           kFieldKinds[field_]));
    case Place::array:
      break;
  }
  return fail(bad_file("tensor {}: {} holds {}; expected whole numbers from 0", quote(entries.back().name),
                       kFieldNames[field_], what));
}

bool HeaderHandler::number_unsigned(std::uint64_t value) {
  if (place_ != Place::array) return unexpected(fmt::format("the number {}", value));
  HeaderEntry& entry = entries.back();
  if (field_ == kOffsets) {
    if (entry.offsets.size() == 2) return unexpected("more than 2 numbers");
    entry.offsets.push_back(value);
    return true;
  }
  if (value > kMostBytes) return unexpected(fmt::format("the dimension {}, which does not fit 63 bits", value));
  if (entry.shape.size() == kMostDimensions) return unexpected(fmt::format("more than {} dimensions", kMostDimensions));
  entry.shape.push_back(static_cast<std::int64_t>(value));
  return true;
}

bool HeaderHandler::string(std::string& value) {
  if (place_ == Place::metadata) return true;
  if (place_ != Place::entry || field_ != kDtype) return unexpected("a string");
  entries.back().dtype = std::move(value);
  return true;
}

bool HeaderHandler::start_array(std::size_t) {
  if (place_ != Place::entry || field_ == kDtype) return unexpected("an array");
  place_ = Place::array;
  return true;
}

bool HeaderHandler::end_array() {
  place_ = Place::entry;
  return true;
}

bool HeaderHandler::start_object(std::size_t) {
  if (place_ == Place::outside) {
    place_ = Place::root;
    return true;
  }
  if (place_ != Place::root) return unexpected("an object");
  place_ = metadata_next_ ? Place::metadata : Place::entry;
  field_ = kFieldCount;
  seen_ = {};
  return true;
}

bool HeaderHandler::end_object() {
  if (place_ == Place::root) {
    place_ = Place::done;
    return true;
  }
  if (place_ == Place::entry) {
    for (std::size_t field = 0; field < kFieldCount; ++field) {
      if (!seen_[field]) return fail(bad_file("tensor {} lacks {}", quote(entries.back().name), kFieldNames[field]));
    }
    if (entries.back().offsets.size() != 2) {
      return fail(bad_file("tensor {}: data_offsets holds {} numbers; expected 2", quote(entries.back().name),
                           entries.back().offsets.size()));
    }
  }
  place_ = Place::root;
  return true;
}

bool HeaderHandler::key(std::string& name) {
  if (place_ == Place::root) return root_key(name);
  if (place_ == Place::entry) return entry_key(name);
  if (!metadata_names_.insert(name).second) {
    return fail(bad_file("{} has the key {} twice", kMetadataKey, quote(name)));
  }
  return true;
}

bool HeaderHandler::root_key(std::string& name) {
  if (!names_.insert(name).second) return fail(bad_file("two tensors are named {}", quote(name)));
  metadata_next_ = name == kMetadataKey;
  if (!metadata_next_) entries.push_back({std::move(name), {}, {}, {}});
  return true;
}

bool HeaderHandler::entry_key(const std::string& name) {
  for (std::size_t field = 0; field < kFieldCount; ++field) {
    if (kFieldNames[field] != name) continue;
    if (seen_[field]) return fail(bad_file("tensor {} has {} twice", quote(entries.back().name), name));
    seen_[field] = true;
    field_ = static_cast<Field>(field);
    return true;
  }
  return fail(bad_file("tensor {} has the key {}; expected {}", quote(entries.back().name), quote(name),
                       fmt::join(kFieldNames, ", ")));
}

}  // namespace

Result<std::vector<HeaderEntry>> parse_safetensors_header(std::string_view text) {
  HeaderHandler handler;
  if (!json::sax_parse(text.begin(), text.end(), &handler)) {
    return handler.error.ok() ? bad_file("the header is not JSON") : std::move(handler.error);
  }
  return std::move(handler.entries);
}

}  // namespace nibble::io
