// SPDX-License-Identifier: Apache-2.0
// fidelity --native LIBRARY: programs from seeds on PyTorch's allocator and on our policy, compared
// after every operation. Runs under virtual_cuda/run; run_fidelity.py sets everything up.
#include "allocator/policy/inspect/rules.hpp"
#include "tests/fidelity/comparison.hpp"
#include "tests/fidelity/program/generator.hpp"
#include "tests/fidelity/program/shrink.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace fragscope::fidelity;

struct Arguments {
  std::string native;
  std::uint64_t first_seed = 1;
  std::uint64_t seeds = 10;
  std::size_t operations = 2000;
  std::vector<std::string> programs;
  std::uint64_t at_least = 0;
  bool keep_whole = false;
  bool print = false;
};

DeviceFacts facts_of(NativeAllocator& allocator) {
  constexpr unsigned kStreams = 5;
  DeviceFacts facts;
  facts.total_bytes = allocator.device_total();
  facts.context_bytes = facts.total_bytes - allocator.device_free_bytes();
  for (unsigned stream = 0; stream < kStreams; ++stream)
    facts.streams.push_back(allocator.stream_handle(stream));
  if (std::string_view(allocator.version()).starts_with("2.6")) {
    facts.version = fragscope::policy::TorchVersion::kTorch26;
  }
  return facts;
}

/// Compares one program; prints where the sides part, and a smaller program that shows it.
bool agree(Comparer& comparer, const Program& program, const std::string& name, bool keep_whole) {
  const auto difference = comparer.run(program);
  if (!difference) return true;
  fmt::print("{}: differs after operation {}\n{}", name, difference->index, difference->text);
  if (keep_whole) return false;
  // The same kind of difference, or another one might take its place.
  const auto kind = [](const Difference& found) {
    return found.text.substr(0, found.text.find(':'));
  };
  const auto fails = [&](const Program& part) {
    const auto found = comparer.run(part);
    return found && kind(*found) == kind(*difference);
  };
  const auto end = std::min(program.size(), difference->index + 1);
  const Program small =
      shrink(Program(program.begin(), program.begin() + static_cast<std::ptrdiff_t>(end)), fails);
  fmt::print("shrunk to {} operations:\n", small.size());
  // Then PyTorch could not be emptied, and nothing can be compared any more.
  if (small.empty()) std::exit(1);
  for (const Operation& operation : small)
    fmt::print("{}\n", to_string(operation));
  const auto again = comparer.run(small);
  if (again) fmt::print("{}", again->text);
  return false;
}

bool run_seeds(Comparer& comparer, const Arguments& arguments) {
  const bool is_old = comparer.facts().version == fragscope::policy::TorchVersion::kTorch26;
  std::uint64_t failed = 0;
  for (std::uint64_t i = 0; i < arguments.seeds; ++i) {
    GeneratorOptions options;
    options.operations = arguments.operations;
    options.device_bytes = comparer.facts().total_bytes;
    options.is_old = is_old;
    // A limit stays for good, so the first quarter of the seeds runs without one.
    options.with_fraction = i * 4 >= arguments.seeds;
    const std::uint64_t seed = arguments.first_seed + i;
    if (arguments.print) {
      for (const Operation& operation : generate(seed, options))
        fmt::print("{}\n", to_string(operation));
      continue;
    }
    if (!agree(comparer,
               generate(seed, options),
               fmt::format("seed {}", seed),
               arguments.keep_whole)) {
      if (++failed >= 3) break;
    }
  }
  return failed == 0;
}

bool run_file(Comparer& comparer, const std::string& path, bool keep_whole) {
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto program = read_program(text);
  if (!program) {
    fmt::print(stderr, "fidelity: {}: {}\n", path, program.error().describe());
    return false;
  }
  return agree(comparer, *program, path, keep_whole);
}

/// How often each rule was used; false if one was used less than `at_least` times.
bool print_coverage(std::uint64_t at_least) {
  using fragscope::policy::kRuleTexts;
  bool is_enough = true;
  fmt::print("{:>12}  rule\n", "uses");
  for (std::size_t i = 0; i < kRuleTexts.size(); ++i) {
    const std::uint64_t count = fragscope::policy::rule_counts[i];
    const bool is_little = count < at_least;
    is_enough = is_enough && !is_little;
    fmt::print("{:>12}  {:<5} {}{}\n",
               count,
               kRuleTexts[i].number,
               kRuleTexts[i].text,
               is_little ? "  TOO FEW" : "");
  }
  return is_enough;
}

int run(const Arguments& arguments) {
  NativeAllocator* allocator = load_native_allocator(arguments.native.c_str());
  if (allocator == nullptr) return 2;
  allocator->start_events();
  Comparer comparer(*allocator, facts_of(*allocator));
  bool is_equal = true;
  for (const std::string& path : arguments.programs)
    is_equal = run_file(comparer, path, arguments.keep_whole) && is_equal;
  if (arguments.programs.empty()) is_equal = run_seeds(comparer, arguments);
  fmt::print("PyTorch {}: {} operations in {} programs compared, {}\n",
             allocator->version(),
             comparer.operations(),
             comparer.programs(),
             is_equal ? "no difference" : "THEY DIFFER");
  const bool is_covered = print_coverage(arguments.at_least);
  return is_equal && is_covered ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app{"Compares the policy with PyTorch's allocator, operation by operation."};
  app.add_option("--native", arguments.native, "library made by build_native.py")->required();
  app.add_option("--first-seed", arguments.first_seed);
  app.add_option("--seeds", arguments.seeds);
  app.add_option("--operations", arguments.operations, "of each program");
  app.add_option("--each-rule", arguments.at_least, "how often each rule must have been used");
  app.add_flag("--no-shrink", arguments.keep_whole, "prints no smaller program");
  app.add_flag("--print", arguments.print, "prints the programs of the seeds, runs nothing");
  app.add_option("programs", arguments.programs, "files with programs, in place of seeds");
  CLI11_PARSE(app, argc, argv);
  return run(arguments);
}
