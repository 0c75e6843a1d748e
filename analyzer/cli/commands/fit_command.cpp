// SPDX-License-Identifier: Apache-2.0
// `fragscope fit`: the smallest device on which the recorded requests fit, and the settings that
// need least.
#include "analyzer/cli/commands/commands.hpp"
#include "analyzer/cli/output.hpp"
#include "analyzer/cli/program_file.hpp"
#include "analyzer/cli/progress.hpp"
#include "analyzer/report/whatif/fit_report.hpp"
#include "analyzer/whatif/fit.hpp"
#include "analyzer/whatif/recorded/verify.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace fragscope::cli {
namespace {

struct FitArguments {
  std::string file;
  std::optional<std::int32_t> device;
  std::vector<std::string> conf;
  bool json = false;
  bool redact = false;
  std::string color = "auto";
};

Result<std::vector<whatif::Variant>> variants_of(const whatif::Program& program,
                                                 const FitArguments& arguments) {
  whatif::Variant base = whatif::recorded_variant_on(program, 0);
  base.outside_bytes = program.outside_bytes.value_or(0);
  std::vector<whatif::Variant> variants{base};
  std::vector<std::string> confs = whatif::settings_worth_trying();
  confs.insert(confs.end(), arguments.conf.begin(), arguments.conf.end());
  for (const std::string& conf : each_once(confs)) {
    Result<whatif::Variant> variant = whatif::with_options(base, conf);
    if (!variant) return tl::unexpected<Error>(variant.error());
    variants.push_back(std::move(*variant));
  }
  return variants;
}

bool asks_for_memory(const whatif::Program& program) {
  return std::ranges::any_of(
      program.ops, [](const whatif::Op& op) { return op.kind == whatif::OpKind::kAllocate; });
}

Result<int> fit_file(const FitArguments& arguments) {
  const Result<ProgramFile> file = read_program(arguments.file, arguments.device);
  if (!file) return tl::unexpected<Error>(file.error());
  if (!asks_for_memory(file->program)) {
    return failure(ErrorCode::kContradictory, "expected a request of memory, found none");
  }
  const auto variants = variants_of(file->program, arguments);
  if (!variants) return tl::unexpected<Error>(variants.error());
  report::FitReport report{file->recording, file->program, file->device, {}, {}, {}};
  if (file->program.has_decisions) report.verification = whatif::verify(file->program);
  {
    Progress bar("trying settings");
    report.fits = whatif::find_fits(
        file->program, *variants, [&bar](std::uint64_t done, std::uint64_t total) {
          bar.show(done, total);
        });
  }
  for (const whatif::Variant& variant : *variants) {
    const bool fits = std::ranges::any_of(
        report.fits, [&](const whatif::Fit& fit) { return fit.variant.name == variant.name; });
    if (!fits) report.misfits.push_back(variant.name);
  }
  const std::string path = arguments.redact ? "(masked)" : arguments.file;
  if (arguments.json) {
    fmt::print("{}\n", report::fit_json(report, {path, FRAGSCOPE_VERSION}));
  } else {
    const report::Paint paint(wants_colour(arguments.color));
    fmt::print("{}", report::fit_text(report, path, paint));
  }
  return kDone;
}

}  // namespace

void add_fit_command(CLI::App& app, std::function<int()>& run) {
  auto arguments = std::make_shared<FitArguments>();
  CLI::App* command = app.add_subcommand(
      "fit",
      "The smallest device on which recorded requests fit, and the settings that need least, by "
      "replay");
  command
      ->add_option("FILE",
                   arguments->file,
                   "A trace, a ring or a snapshot with history, or the log of requests that RMM or "
                   "STAlloc writes; - is standard input")
      ->required();
  command->add_option("--conf", arguments->conf, "Try this option string, too")
      ->allow_extra_args(false);
  command->add_option(
      "--device", arguments->device, "Ordinal of the device; needed where several are");
  command->add_flag("--json", arguments->json, "One JSON object");
  command->add_flag("--redact", arguments->redact, "Mask the file's name");
  command->add_option("--color", arguments->color, "auto, always or never")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  command->callback([arguments, &run] {
    run = [arguments] { return finish(fit_file(*arguments), arguments->file); };
  });
}

}  // namespace fragscope::cli
