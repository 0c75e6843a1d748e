// SPDX-License-Identifier: Apache-2.0
// `fragscope replay`: the recorded requests, run again through the allocator's rules.
#include "analyzer/cli/commands/commands.hpp"
#include "analyzer/cli/output.hpp"
#include "analyzer/cli/program_file.hpp"
#include "analyzer/cli/progress.hpp"
#include "analyzer/whatif/verify.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>

namespace fragscope::cli {
namespace {

struct ReplayArguments {
  std::string file;
  std::optional<std::int32_t> device;
  bool verify = false;
};

int run_replay(const ReplayArguments& arguments) {
  const Result<ProgramFile> file = read_program(arguments.file, arguments.device);
  if (!file) {
    Error error = file.error();
    error.source = arguments.file;
    return complain(error);
  }
  const auto v = whatif::verify(file->program);
  fmt::print("{} {} ops, {} agreed, {} requests {} refusals\n",
             arguments.file,
             file->program.ops.size(),
             v.agreed,
             v.requests,
             v.refusals);
  for (auto& d : file->program.doubts)
    fmt::print("doubt: {}\n", d);
  if (v.first)
    fmt::print(
        "event {}: {}\n", file->program.event_of(file->program.ops[v.first->op]), v.first->what);
  return kDone;
}

}  // namespace

void add_replay_command(CLI::App& app, std::function<int()>& run) {
  auto arguments = std::make_shared<ReplayArguments>();
  CLI::App* command = app.add_subcommand("replay", "x");
  command->add_option("FILE", arguments->file, "A trace, a ring, or a snapshot with history")
      ->required();
  command->add_option(
      "--device", arguments->device, "Ordinal of the device; needed where several are");
  command->callback([arguments, &run] { run = [arguments] { return run_replay(*arguments); }; });
}

}  // namespace fragscope::cli
