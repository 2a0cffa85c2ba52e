// What the subcommands share: exit statuses, failures with one line, reading flags, choosing tensors.
// Apart from the subcommands so that all of them fail and name things alike.
#ifndef NIBBLE_TOOLS_COMMON_H
#define NIBBLE_TOOLS_COMMON_H

#include <nibble/io.hpp>
#include <nibble/nibble.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nibble::cli {

using Json = nlohmann::ordered_json;

enum Exit : int {
  kDone = 0,
  kCheckFailed = 1,  ///< also: the result could not be written
  kUsage = 2,
  kUnserved = 3,  ///< no kernel or device for it
  kBadFile = 4
};

/// Ends the command: main prints "nibble: " and the line. Thrown in the command alone; the library returns statuses.
struct Failure {
  Exit exit;
  std::string line;
};

template <class... Args>
[[noreturn]] void fail(Exit exit, fmt::format_string<Args...> text, Args&&... args) {
  throw Failure{exit, fmt::format(text, std::forward<Args>(args)...)};
}

/// The exit status that a library status stands for.
Exit exit_of(nibble_status code);

inline void require(const Status& status, Exit exit) {
  if (!status) throw Failure{exit, status.message()};
}
inline void require(const Status& status) { require(status, exit_of(status.code())); }
template <class T>
T require(Result<T> result, Exit exit) {
  require(result.status(), exit);
  return std::move(result).value();
}
template <class T>
T require(Result<T> result) {
  require(result.status());
  return std::move(result).value();
}

/// f32, f16 and bf16: what an operation can write.
inline constexpr Format kResultTypes[] = {NIBBLE_F32, NIBBLE_F16, NIBBLE_BF16};

/// Each of these ends the command with status 2 and the valid values where `text` is not one.
Format parse_result_type(std::string_view flag, std::string_view text);
Device parse_device(std::string_view text);
std::int64_t parse_count(std::string_view flag, std::string_view text, std::int64_t least);
std::vector<std::int64_t> parse_counts(std::string_view flag, std::string_view text, std::size_t least_items,
                                       std::size_t most_items);

/// "; did you mean 'q4_k'?", or nothing where no name is near.
std::string did_you_mean(std::string_view name, std::span<const std::string> names);

/// The file, or status 4.
WeightFile open_file(const std::string& path);
/// Tensors to work on, and how many were passed over because the file is wrong about them, not because they are no
/// weights.
struct Chosen {
  std::vector<const FileTensor*> tensors;
  std::size_t broken = 0;
};
/// The named tensors, each usable. Without names all that are usable, with a note on stderr for each other one; status
/// 4 where none is left.
Chosen choose_tensors(const WeightFile& file, const std::string& path, std::span<const std::string> names);
/// Once the work is done: status 4 where tensors were passed over as broken. What could be done has been.
void refuse_broken(const Chosen& chosen, const std::string& path);

/// "nibble: LINE" on stderr. A stderr that is closed or full changes nothing: the exit status still tells.
void say(std::string_view line);
/// Control characters as \xNN: names come from files that nobody vouches for, and errors are one line.
std::string printable(std::string_view text);
/// "[512, 5]"
std::string shape_text(std::span<const std::int64_t> shape);
/// "1.5 MiB"
std::string size_text(std::uint64_t bytes);

/// One document on stdout, and nothing else goes there.
void print_json(const Json& document);

/// Set once the user or the system asks the command to end; long work looks at it between pieces.
bool interrupted();
/// Makes the signals that ask a process to end set that mark, so that unfinished output is removed; those that the
/// parent had ignored (nohup, a shell's background jobs) stay ignored.
void watch_for_interruption();
/// Opens /dev/null in place of a standard stream that is closed, so that no file of ours becomes one.
void keep_standard_streams();
/// Ends the process by the signal that came, as a caller expects; returns where none came.
void finish_interruption();

/// One line on stderr that overwrites itself, on a terminal alone.
class Progress {
 public:
  Progress(bool quiet, std::uint64_t total_values);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() { clear(); }
  /// Counts `values` more as done; `what` is what they belong to.
  void advance(std::string_view what, std::uint64_t values);
  void clear();

 private:
  bool shown_;
  std::uint64_t total_, done_ = 0;
  unsigned percent_ = 101;
};

}  // namespace nibble::cli

#endif
