// Any lines as the arguments of `nibble explain`: they are refused, or the request they describe gets an answer.
// Apart from the command's own tests, which type what a person would.
#include "tools/common.h"
#include "tools/request_flags.h"

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace nibble::fuzz {
namespace {

/// One argument a line, last first: the order in which the parser takes them.
std::vector<std::string> arguments_of(std::string_view text) {
  std::vector<std::string> arguments;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    arguments.insert(arguments.begin(), std::string(text.substr(at, end - at)));
    at = end + 1;
  }
  return arguments;
}

const Registry& registry() {
  static const Registry only_reference = [] {
    Settings settings;
    settings.backends = {"reference"};
    return Registry::create(settings).value();
  }();
  return only_reference;
}

void explain(std::string_view text) {
  CLI::App app;
  cli::RequestFlags flags;
  cli::add_request_flags(app, flags);
  try {
    app.parse(arguments_of(text));
    const auto [spec, caps] = cli::parse_request(flags);
    const auto decision = registry().explain(cli::build_request(spec), caps ? &*caps : nullptr);
    // Whatever was typed, there is a choice, or one line with a reason.
    const std::string words = decision ? decision->reason : decision.status().message();
    if (words.empty() || words.find('\n') != std::string::npos) std::abort();
  } catch (const CLI::ParseError&) {
  } catch (const cli::Failure& failure) {
    if (failure.line.empty()) std::abort();
  }
}

}  // namespace
}  // namespace nibble::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  nibble::fuzz::explain({reinterpret_cast<const char*>(data), size});
  return 0;
}
