// SPDX-License-Identifier: Apache-2.0
// `fragscope replay`: the recorded requests, run again through the allocator's rules, as they were
// and under other settings.
#include "analyzer/cli/commands/commands.hpp"
#include "analyzer/cli/input/request_options.hpp"
#include "analyzer/cli/output.hpp"
#include "analyzer/cli/program_file.hpp"
#include "analyzer/cli/progress.hpp"
#include "analyzer/recording/byte_size.hpp"
#include "analyzer/report/whatif/replay_report.hpp"
#include "analyzer/whatif/recorded/verify.hpp"
#include "analyzer/whatif/variant.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace fragscope::cli {
namespace {

constexpr int kDiffers = 10;
constexpr int kFails = 11;

struct ReplayArguments {
  std::string file;
  std::optional<std::int32_t> device;
  bool verify = false;
  std::vector<std::string> conf;
  std::optional<std::string> memory;
  std::optional<std::string> limit;
  std::vector<std::string> outside;
  std::vector<std::string> policies;
  bool json = false;
  bool redact = false;
  bool exit_code = false;
  std::string color = "auto";
};

Error usage(std::string message) {
  Error error;
  error.code = ErrorCode::kUsage;
  error.message = std::move(message);
  return error;
}

/// A size option; none where it was not given.
Result<std::optional<std::uint64_t>> size_of(std::string_view option,
                                             const std::optional<std::string>& text) {
  if (!text) return std::optional<std::uint64_t>{};
  const Result<std::uint64_t> size = model::parse_bytes(*text);
  if (size) return std::optional(*size);
  return tl::unexpected<Error>(usage(fmt::format("{}: {}", option, size.error().message)));
}

/// "2GiB" or "2GiB@EVENT", of an event that there is.
Result<whatif::OutsideChange> outside_of(const std::string& text, const whatif::Program& program) {
  whatif::OutsideChange change{model::kBeforeFirst, 0};
  const auto at = text.find('@');
  const Result<std::uint64_t> size = model::parse_bytes(std::string_view(text).substr(0, at));
  bool is_good = size.has_value();
  if (is_good) change.bytes = *size;
  if (at != std::string::npos) {
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data() + at + 1, end, change.event);
    is_good = is_good && error == std::errc{} && stop == end && change.event >= 0;
  }
  const model::EventIndex last =
      program.ops.empty() ? model::kBeforeFirst : program.event_of(program.ops.back());
  if (is_good && change.event > last) {
    return tl::unexpected<Error>(usage(fmt::format(
        "--outside {}: expected an event up to {}, the last one that matters", text, last)));
  }
  if (is_good) return change;
  return tl::unexpected<Error>(
      usage(fmt::format("--outside {}: expected SIZE or SIZE@EVENT, as 2GiB@1000", text)));
}

/// The recorded settings with what the options change of device, limit and version.
Result<whatif::Variant> base_of(const whatif::Program& program, const ReplayArguments& arguments) {
  const auto memory = size_of("--memory", arguments.memory);
  if (!memory) return tl::unexpected<Error>(memory.error());
  MemoryLimit limit;
  if (arguments.limit) {
    const Result<MemoryLimit> asked = parse_limit(*arguments.limit);
    if (!asked) return tl::unexpected<Error>(asked.error());
    limit = *asked;
  }
  std::optional<whatif::Variant> base = whatif::recorded_variant(program);
  if (!base && !*memory) {
    return failure(ErrorCode::kUsage,
                   "the recording does not show how much memory the device has: --memory SIZE "
                   "says it");
  }
  if (!base) base = whatif::recorded_variant_on(program, **memory);
  if (limit.fraction && !*memory && program.device_bytes == 0) {
    return failure(ErrorCode::kUsage,
                   "--limit: the recording does not show how large the device is, of which this "
                   "is a fraction: --memory SIZE says it");
  }
  const bool is_changed = *memory || arguments.limit || !arguments.outside.empty();
  if (is_changed && program.has_decisions) base->name = "recorded settings";
  if (*memory) {
    base->device_bytes = **memory;
    base->outside_bytes = 0;
  }
  if (limit.bytes) base->limit_bytes = limit.bytes;
  if (limit.fraction) {
    base->limit_bytes =
        static_cast<std::uint64_t>(*limit.fraction * static_cast<double>(base->device_bytes));
  }
  for (const std::string& text : arguments.outside) {
    const Result<whatif::OutsideChange> change = outside_of(text, program);
    if (!change) return tl::unexpected<Error>(change.error());
    base->outside_changes.push_back(*change);
  }
  return *base;
}

/// `base` under each of PyTorch's rules that are asked for, or as it is.
std::vector<whatif::Variant> under_rules(const whatif::Variant& base,
                                         const std::vector<std::string>& policies) {
  std::vector<whatif::Variant> bases;
  for (const std::string& name : policies) {
    const auto version = policy::torch_version(name);
    if (!version) continue;
    whatif::Variant& variant = bases.emplace_back(base);
    variant.name = "rules of PyTorch " + name;
    variant.options.version = *version;
  }
  if (bases.empty()) bases.push_back(base);
  return bases;
}

Result<std::vector<whatif::Variant>> variants_of(const whatif::Program& program,
                                                 const ReplayArguments& arguments) {
  const Result<whatif::Variant> base = base_of(program, arguments);
  if (!base) return tl::unexpected<Error>(base.error());
  const std::vector<std::string> policies = each_once(arguments.policies);
  const std::vector<whatif::Variant> bases = under_rules(*base, policies);
  std::vector<whatif::Variant> variants;
  for (const whatif::Variant& rules : bases) {
    variants.push_back(rules);
    for (const std::string& conf : each_once(arguments.conf)) {
      Result<whatif::Variant> variant = whatif::with_options(rules, conf);
      if (!variant) return tl::unexpected<Error>(variant.error());
      if (bases.size() > 1) variant->name += ", " + rules.name;
      variants.push_back(std::move(*variant));
    }
  }
  for (const std::string& name : policies) {
    if (const auto kind = whatif::arena_kind(name)) {
      variants.push_back(whatif::with_arena(*base, *kind));
    }
  }
  return variants;
}

bool asks_for_more(const ReplayArguments& arguments) {
  return !arguments.conf.empty() || arguments.memory || arguments.limit ||
         !arguments.outside.empty() || !arguments.policies.empty();
}

Result<int> replay_file(const ReplayArguments& arguments) {
  const Result<ProgramFile> file = read_program(arguments.file, arguments.device);
  if (!file) return tl::unexpected<Error>(file.error());
  if (arguments.verify && !file->program.has_decisions) {
    return tl::unexpected<Error>(
        usage("--verify: a log of requests does not hold what the allocator decided"));
  }
  report::ReplayReport report{file->recording, file->program, file->device, {}, {}, {}};
  const bool tries = !arguments.verify || asks_for_more(arguments);
  Result<std::vector<whatif::Variant>> variants;
  if (tries) variants = variants_of(file->program, arguments);
  if (!variants && asks_for_more(arguments)) return tl::unexpected<Error>(variants.error());
  if (!variants) report.no_trial_reason = variants.error().message;

  {
    Progress bar("replaying");
    const auto tick = [&bar](std::uint64_t done, std::uint64_t total) { bar.show(done, total); };
    if (file->program.has_decisions) report.verification = whatif::verify(file->program, tick);
    if (tries && variants) {
      report.trials = whatif::try_all(file->program, std::move(*variants), tick);
    }
  }
  const std::string path = arguments.redact ? "(masked)" : arguments.file;
  if (arguments.json) {
    fmt::print("{}\n", report::replay_json(report, {path, FRAGSCOPE_VERSION}));
  } else {
    const report::Paint paint(wants_colour(arguments.color));
    fmt::print("{}", report::replay_text(report, path, paint));
  }
  if (!arguments.exit_code) return kDone;
  if (report.verification && report.verification->first) return kDiffers;
  const bool fails = !report.trials.empty() && report.trials.front().outcome.first_failure;
  return fails ? kFails : kDone;
}

}  // namespace

void add_replay_command(CLI::App& app, std::function<int()>& run) {
  auto arguments = std::make_shared<ReplayArguments>();
  CLI::App* command = app.add_subcommand(
      "replay",
      "Run recorded requests again through the allocator's rules: as they were, to prove the "
      "recording, and under other settings");
  command
      ->add_option("FILE",
                   arguments->file,
                   "A trace, a ring or a snapshot with history, or the log of requests that RMM or "
                   "STAlloc writes; - is standard input")
      ->required();
  command->add_flag("--verify", arguments->verify, "Only compare with what was recorded");
  command
      ->add_option("--conf",
                   arguments->conf,
                   "Try this option string in place of the recorded one, as "
                   "expandable_segments:True; may be given several times")
      ->allow_extra_args(false);
  command->add_option("--memory", arguments->memory, "SIZE of the device's memory");
  command->add_option(
      "--limit",
      arguments->limit,
      "What this process may hold: a SIZE, or a fraction of the device such as 0.5");
  command
      ->add_option("--outside",
                   arguments->outside,
                   "SIZE that others hold, or SIZE@EVENT: from that event on; may be given "
                   "several times")
      ->allow_extra_args(false);
  std::vector<std::string> policies = {"2.6", "2.15"};
  for (const whatif::ArenaKind kind : whatif::all_arena_kinds())
    policies.emplace_back(whatif::to_string(kind));
  command
      ->add_option("--policy",
                   arguments->policies,
                   "Whose rules: of PyTorch 2.6 or 2.15; or, beside them, those of a plain "
                   "allocator: best-fit, tlsf, buddy, never-reuse; may be given several times")
      ->allow_extra_args(false)
      ->check(CLI::IsMember(policies));
  command->add_option(
      "--device", arguments->device, "Ordinal of the device; needed where several are");
  command->add_flag("--json", arguments->json, "One JSON object");
  command->add_flag("--redact", arguments->redact, "Mask the file's name");
  command->add_option("--color", arguments->color, "auto, always or never")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  command->add_flag("--exit-code",
                    arguments->exit_code,
                    "Exit by the result: 10 decided otherwise than recorded, 11 no variant fits");
  command->callback([arguments, &run] {
    run = [arguments] { return finish(replay_file(*arguments), arguments->file); };
  });
}

}  // namespace fragscope::cli
