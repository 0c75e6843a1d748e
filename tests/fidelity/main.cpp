// SPDX-License-Identifier: Apache-2.0
// fidelity --native LIBRARY: programs from seeds on PyTorch's allocator and on our policy, compared
// after every operation. Runs under virtual_cuda/run; run_fidelity.py sets everything up.
#include "allocator/policy/inspect/rules.hpp"
#include "tests/fidelity/isolation.hpp"
#include "tests/fidelity/program/generator.hpp"
#include "tests/fidelity/program/shrink.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

namespace fragscope::fidelity {
namespace {

struct Arguments {
  std::string native;
  std::uint64_t first_seed = 1;
  std::uint64_t seeds = 10;
  std::size_t operations = 2000;
  std::vector<std::string> programs;
  std::uint64_t at_least = 0;
  bool keep_whole = false;
  bool print = false;
  bool is_old = false;
};

/// Compares one program; prints where the sides part, and a smaller program that shows it.
bool agree(Isolation& isolation, const Program& program, const std::string& name, bool keep_whole) {
  const auto difference = isolation.compare(program);
  if (!difference) return true;
  fmt::print("{}: differs after operation {}\n{}", name, difference->index, difference->text);
  if (keep_whole) return false;
  // The same kind of difference, or another one might take its place.
  const auto kind = [](const Difference& found) {
    const std::string& text = found.text;
    const auto second_line = text.find('\n') + 1;
    return text.substr(second_line, text.find(':', second_line) - second_line);
  };
  const auto fails = [&](const Program& part) {
    const auto found = isolation.compare(part);
    return found && kind(*found) == kind(*difference);
  };
  const auto end = std::min(program.size(), difference->index + 1);
  const Program small =
      shrink(Program(program.begin(), program.begin() + static_cast<std::ptrdiff_t>(end)), fails);
  fmt::print("shrunk to {} operations:\n", small.size());
  for (const Operation& operation : small)
    fmt::print("{}\n", to_string(operation));
  const auto again = isolation.compare(small);
  if (again) fmt::print("{}", again->text);
  return false;
}

bool run_seeds(Isolation& isolation, const Arguments& arguments) {
  std::uint64_t failed = 0;
  for (std::uint64_t i = 0; i < arguments.seeds; ++i) {
    GeneratorOptions options;
    options.operations = arguments.operations;
    options.is_old = arguments.is_old;
    const std::uint64_t seed = arguments.first_seed + i;
    if (arguments.print) {
      for (const Operation& operation : generate(seed, options))
        fmt::print("{}\n", to_string(operation));
      continue;
    }
    if (!agree(isolation,
               generate(seed, options),
               fmt::format("seed {}", seed),
               arguments.keep_whole)) {
      if (++failed >= 3) break;
    }
  }
  return failed == 0;
}

bool run_file(Isolation& isolation, const std::string& path, bool keep_whole) {
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto program = read_program(text);
  if (!program) {
    fmt::print(stderr, "fidelity: {}: {}\n", path, program.error().describe());
    return false;
  }
  return agree(isolation, *program, path, keep_whole);
}

/// How often each rule was used; false if one was used less than `at_least` times.
bool print_coverage(const Isolation& isolation, std::uint64_t at_least) {
  using policy::kRuleTexts;
  bool is_enough = true;
  fmt::print("{:>12}  rule\n", "uses");
  for (std::size_t i = 0; i < kRuleTexts.size(); ++i) {
    const std::uint64_t count = isolation.rule_counts()[i];
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
  const auto make_allocator = load_native_allocator(arguments.native.c_str());
  if (make_allocator == nullptr) return 2;
  Isolation isolation(make_allocator);
  bool is_equal = true;
  for (const std::string& path : arguments.programs)
    is_equal = run_file(isolation, path, arguments.keep_whole) && is_equal;
  if (arguments.programs.empty()) is_equal = run_seeds(isolation, arguments);
  fmt::print("{} operations in {} programs compared, {}\n",
             isolation.operations(),
             isolation.programs(),
             is_equal ? "no difference" : "THEY DIFFER");
  const bool is_covered = print_coverage(isolation, arguments.at_least);
  return is_equal && is_covered ? 0 : 1;
}

/// The exit code.
int read_and_run(int argc, char** argv) {
  Arguments arguments;
  CLI::App app{"Compares the policy with PyTorch's allocator, operation by operation."};
  app.add_option("--native", arguments.native, "library made by build_native.py")->required();
  app.add_flag("--old", arguments.is_old, "the library's PyTorch is 2.6");
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

}  // namespace
}  // namespace fragscope::fidelity

int main(int argc, char** argv) {
  try {
    return fragscope::fidelity::read_and_run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fidelity: %s\n", error.what());
    return 2;
  }
}
