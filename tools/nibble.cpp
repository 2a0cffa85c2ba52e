// The command `nibble`: its subcommands, one line for each kind of error, and the exit status.
// Apart from the subcommands so that none of them prints an error or picks a status of its own.
#include "tools/commands.h"
#include "tools/common.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>

namespace nibble::cli {
namespace {

constexpr const char* kFooter =
    "Exit status: 0 done; 1 a check failed, or the result could not be written; 2 wrong usage;\n"
    "3 no kernel or device for it; 4 a bad or missing input file.\n\n"
    "Examples:\n"
    "  nibble inspect model.gguf\n"
    "  nibble dequantize model.gguf -t output.weight --to f16 -o head.safetensors\n"
    "  nibble verify model.gguf\n"
    "  nibble explain dequantize --format nf4 --nested --to f16 --caps cuda:10.3";

struct Subcommand {
  Action (*add)(CLI::App&);
  Action run;
};

int report(Exit exit, std::string_view line) {
  say(line);
  return exit;
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

std::vector<std::string> subcommand_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(sub->get_name());
  return names;
}

/// An empty value is most often a variable that a script did not set: it must not pass for "not given".
void refuse_empty_values(CLI::App& app) {
  const CLI::Validator not_empty(
      [](std::string& text) { return text.empty() ? std::string("an empty value") : std::string(); }, "");
  for (CLI::App* sub : app.get_subcommands([](CLI::App*) { return true; })) {
    for (CLI::Option* option : sub->get_options()) {
      if (option->get_expected_max() > 0) option->check(not_empty);
    }
  }
}

/// What the user typed that fits nowhere.
std::string unexpected_line(const CLI::App& app, const CLI::App* sub, const std::string& argument) {
  if (argument.starts_with('-') && argument.size() > 1) {
    const std::vector<std::string> names = option_names(sub != nullptr ? *sub : app);
    const std::string flag = argument.substr(0, argument.find('='));
    const std::string near = did_you_mean(flag, names);
    return fmt::format("flag {}: expected one of {}{}", flag, fmt::join(names, ", "), near);
  }
  if (sub != nullptr) return fmt::format("argument '{}': expected no more arguments for {}", argument, sub->get_name());
  const std::vector<std::string> names = subcommand_names(app);
  return fmt::format("command '{}': expected one of {}{}", argument, fmt::join(names, ", "),
                     did_you_mean(argument, names));
}

/// One line for whatever the parser did not like; its own texts may have several.
std::string usage_line(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<CLI::App*> parsed = app.get_subcommands();
  const CLI::App* sub = parsed.empty() ? nullptr : parsed.front();
  std::vector<std::string> left = app.remaining(true);
  std::erase(left, "--");
  if (!left.empty()) return unexpected_line(app, sub, left.front());
  if (sub == nullptr)
    return fmt::format("command is missing: expected one of {}", fmt::join(subcommand_names(app), ", "));
  const std::string text = error.what();
  return fmt::format("{}: {}: expected what 'nibble {} --help' shows", sub->get_name(), text.substr(0, text.find('\n')),
                     sub->get_name());
}

int run_chosen(const CLI::App& app, std::span<const Subcommand> subcommands) {
  const std::vector<CLI::App*> parsed = app.get_subcommands();
  const std::vector<std::string> names = subcommand_names(app);
  for (std::size_t i = 0; i < subcommands.size(); ++i) {
    if (parsed.front()->get_name() == names[i]) return subcommands[i].run();
  }
  return kUsage;
}

int run(int argc, char** argv) {
  CLI::App app{"Decodes quantized weights (GGUF, bitsandbytes) exactly, and shows which kernel does it and why.",
               "nibble"};
  app.set_version_flag("--version", fmt::format("nibble {}", version()));
  app.footer(kFooter);
  app.require_subcommand(1);
  Subcommand subcommands[] = {{add_info, {}},   {add_inspect, {}}, {add_dequantize, {}},
                              {add_verify, {}}, {add_explain, {}}, {add_ops, {}}};
  for (Subcommand& s : subcommands) s.run = s.add(app);
  refuse_empty_values(app);
  try {
    app.parse(argc, argv);
    return run_chosen(app, subcommands);
  } catch (const CLI::Success& help_or_version) {
    return app.exit(help_or_version);
  } catch (const CLI::ParseError& error) {
    return report(kUsage, usage_line(app, error));
  }
}

/// The status, unless what was printed could not be written.
int with_stdout_flushed(int status) {
  errno = 0;
  const bool failed = std::fflush(stdout) != 0 || std::ferror(stdout) != 0;
  if (!failed || status != kDone) return status;
  return report(kCheckFailed, fmt::format("standard output: {}: expected a place that can be written",
                                          errno != 0 ? std::strerror(errno) : "a write failed"));
}

int run_and_report(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const Failure& failure) {
    return report(failure.exit, failure.line);
  } catch (const std::bad_alloc&) {
    return report(kUnserved, "memory: none left: expected more to be free");
  } catch (const std::exception& error) {
    // fmt and the standard streams throw where stdout or stderr refuse.
    return report(kCheckFailed, error.what());
  }
}

}  // namespace
}  // namespace nibble::cli

int main(int argc, char** argv) {
  nibble::cli::keep_standard_streams();
  nibble::cli::watch_for_interruption();
  const int status = nibble::cli::run_and_report(argc, argv);
  nibble::cli::finish_interruption();
  return nibble::cli::with_stdout_flushed(status);
}
