// nibble explain: which kernel serves a request, on this machine or on invented capabilities, and why.
// Apart from the other subcommands: one file each.
#include "tools/commands.h"
#include "tools/common.h"
#include "tools/request_flags.h"

#include <memory>

namespace nibble::cli {
namespace {

struct Flags {
  RequestFlags request;
  bool json = false;
};

Json decision_json(const Decision& d, const RequestSpec& s) {
  Json candidates = Json::array();
  for (const Candidate& c : d.candidates) {
    candidates.push_back({{"name", c.kernel}, {"accepted", c.accepted}, {"reason", c.reason}});
  }
  return {{"op", op_name(s.op)},
          {"format", format_name(s.format)},
          {"nested", s.nested},
          {"to", format_name(s.to)},
          {"shape", s.shape},
          {"device", d.device},
          {"kernel", d.kernel.empty() ? Json(nullptr) : Json(d.kernel)},
          {"reason", d.reason},
          {"candidates", candidates}};
}

int run(const Flags& flags) {
  const auto [spec, caps] = parse_request(flags.request);
  const Registry registry = require(Registry::create());
  const Decision decision = require(registry.explain(build_request(spec), caps ? &*caps : nullptr));
  if (flags.json) {
    print_json(decision_json(decision, spec));
  } else {
    fmt::print("{}", to_text(decision));
  }
  return kDone;
}

}  // namespace

Action add_explain(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  CLI::App* sub = app.add_subcommand("explain", "The kernel for a request and the whole trace of the choice");
  add_request_flags(*sub, flags->request);
  sub->add_flag("--json", flags->json, "Print JSON alone");
  sub->footer(
      "Needs no device, and \"no kernel\" is an answer with status 0.\n\nExamples:\n"
      "  nibble explain dequantize --format nf4 --nested --to f16 --caps cuda:10.3\n"
      "  nibble explain out_prod --format q4_k --shape 5120,152064 --tokens 4 --transposed");
  return [flags] { return run(*flags); };
}

}  // namespace nibble::cli
