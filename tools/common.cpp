// Exit statuses, flags, names, progress and interruption.
// Apart from common.h so that the subcommands compile without the system's headers.
#include "tools/common.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <limits>
#include <numeric>
#include <set>

namespace nibble::cli {
namespace {

volatile std::sig_atomic_t caught_signal = 0;

void remember_signal(int number) { caught_signal = number; }

/// Insertions, deletions and replacements from one name to the other, whatever the case.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (lower(a[i - 1]) == lower(b[j - 1]) ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

bool read_number(std::string_view text, std::int64_t& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc{} && end == text.data() + text.size();
}

std::vector<const FileTensor*> named_tensors(const WeightFile& file, std::span<const std::string> names) {
  std::vector<const FileTensor*> chosen;
  for (const std::string& name : names) {
    const FileTensor* tensor = require(file.find(name), kUsage);
    if (std::find(chosen.begin(), chosen.end(), tensor) != chosen.end()) {
      fail(kUsage, "tensor '{}' given twice: expected each once", name);
    }
    require(tensor->usable, kBadFile);
    chosen.push_back(tensor);
  }
  return chosen;
}

}  // namespace

Exit exit_of(nibble_status code) {
  switch (code) {
    case NIBBLE_INVALID_ARGUMENT:
    case NIBBLE_NOT_FOUND:
    case NIBBLE_BAD_SETTING:
      return kUsage;
    case NIBBLE_UNSUPPORTED:
    case NIBBLE_OUT_OF_MEMORY:
    case NIBBLE_DEVICE_ERROR:
      return kUnserved;
    case NIBBLE_BAD_FILE:
      return kBadFile;
    default:
      return kCheckFailed;
  }
}

Format parse_result_type(std::string_view flag, std::string_view text) {
  const FormatInfo* info = find_format(text);
  if (info != nullptr && info->kind == FormatInfo::Kind::element) return info->id;
  fail(kUsage, "{} {}: expected f32, f16 or bf16", flag, text);
}

Device parse_device(std::string_view text) {
  static constexpr struct {
    std::string_view name;
    nibble_device_type type;
  } kTypes[] = {{"cpu", NIBBLE_DEVICE_CPU}, {"cuda", NIBBLE_DEVICE_CUDA}, {"hip", NIBBLE_DEVICE_HIP}};
  const std::size_t colon = text.find(':');
  for (const auto& known : kTypes) {
    if (text.substr(0, colon) != known.name) continue;
    if (colon == std::string_view::npos) return {known.type, 0};
    std::int64_t index = -1;
    const bool numbered = known.type != NIBBLE_DEVICE_CPU && read_number(text.substr(colon + 1), index);
    if (numbered && index >= 0 && index <= std::numeric_limits<std::int32_t>::max()) {
      return {known.type, static_cast<std::int32_t>(index)};
    }
  }
  fail(kUsage, "--device {}: expected cpu, cuda, cuda:N, hip or hip:N", text);
}

std::int64_t parse_count(std::string_view flag, std::string_view text, std::int64_t least) {
  std::int64_t number = 0;
  if (read_number(text, number) && number >= least) return number;
  fail(kUsage, "{} {}: expected a whole number of at least {}", flag, text, least);
}

std::vector<std::int64_t> parse_counts(std::string_view flag, std::string_view text, std::size_t least_items,
                                       std::size_t most_items) {
  std::vector<std::int64_t> numbers;
  bool good = true;
  for (std::size_t begin = 0; good;) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    good = read_number(text.substr(begin, comma - begin), numbers.emplace_back()) && numbers.back() >= 1;
    if (comma == text.size()) break;
    begin = comma + 1;
  }
  if (good && numbers.size() >= least_items && numbers.size() <= most_items) return numbers;
  const std::string count =
      least_items == most_items ? fmt::format("{}", least_items) : fmt::format("{} to {}", least_items, most_items);
  fail(kUsage, "{} {}: expected {} whole numbers of at least 1, separated by commas", flag, text, count);
}

std::string did_you_mean(std::string_view name, std::span<const std::string> names) {
  const std::string* nearest = nullptr;
  std::size_t least = std::max<std::size_t>(2, name.size() / 3) + 1;
  for (const std::string& candidate : names) {
    const std::size_t distance = edit_distance(name, candidate);
    if (distance >= least) continue;
    least = distance;
    nearest = &candidate;
  }
  return nearest == nullptr ? std::string{} : fmt::format("; did you mean '{}'?", *nearest);
}

WeightFile open_file(const std::string& path) { return require(WeightFile::open(path), kBadFile); }

Chosen choose_tensors(const WeightFile& file, const std::string& path, std::span<const std::string> names) {
  if (!names.empty()) return {named_tensors(file, names)};
  Chosen chosen;
  for (const FileTensor& tensor : file.tensors()) {
    if (tensor.usable) {
      chosen.tensors.push_back(&tensor);
    } else {
      chosen.broken += tensor.usable.code() == NIBBLE_BAD_FILE ? 1 : 0;
      say("skipped: " + tensor.usable.message());
    }
  }
  if (chosen.tensors.empty()) {
    fail(kBadFile, "{}: {} tensors, none of which can be dequantized: expected at least one", path,
         file.tensors().size());
  }
  return chosen;
}

void refuse_broken(const Chosen& chosen, const std::string& path) {
  if (chosen.broken == 0) return;
  fail(kBadFile, "{}: {} tensors are broken and were skipped, {} were not: expected all whole", path, chosen.broken,
       chosen.tensors.size());
}

void say(std::string_view line) {
  const std::string text = fmt::format("nibble: {}\n", printable(line));
  std::fwrite(text.data(), 1, text.size(), stderr);
}

std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out;
}

std::string shape_text(std::span<const std::int64_t> shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

std::string size_text(std::uint64_t bytes) {
  static constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return fmt::format("{} bytes", bytes);
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

void print_json(const Json& document) {
  // A name in a file need not be UTF-8; JSON must be.
  fmt::print("{}\n", document.dump(2, ' ', false, Json::error_handler_t::replace));
}

bool interrupted() { return caught_signal != 0; }

void watch_for_interruption() {
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE}) {
    if (std::signal(number, remember_signal) == SIG_IGN) std::signal(number, SIG_IGN);
  }
  // A file size limit is then an error of write(), after which the unfinished file is removed.
  std::signal(SIGXFSZ, SIG_IGN);
}

void keep_standard_streams() {
  for (int descriptor = STDIN_FILENO; descriptor <= STDERR_FILENO; ++descriptor) {
    // open() gives the lowest number that is free, which is this one.
    if (fcntl(descriptor, F_GETFD) == -1 && open("/dev/null", O_RDWR) != descriptor) return;
  }
}

void finish_interruption() {
  if (caught_signal == 0) return;
  std::signal(caught_signal, SIG_DFL);
  std::raise(caught_signal);
}

Progress::Progress(bool quiet, std::uint64_t total_values)
    : shown_(!quiet && isatty(STDERR_FILENO) != 0), total_(total_values) {}

void Progress::advance(std::string_view what, std::uint64_t values) {
  done_ += values;
  const auto percent =
      static_cast<unsigned>(total_ == 0 ? 100 : 100.0 * static_cast<double>(done_) / static_cast<double>(total_));
  if (!shown_ || percent == percent_) return;
  percent_ = percent;
  const std::string text = fmt::format("\r\x1b[K{:3}% {}", percent, printable(what));
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

void Progress::clear() {
  if (shown_ && percent_ <= 100) std::fputs("\r\x1b[K", stderr);
  percent_ = 101;
}

}  // namespace nibble::cli
