// SPDX-License-Identifier: Apache-2.0
#include "tests/fidelity/isolation.hpp"

#include "trace/check.hpp"

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>

#include <sys/mman.h>
#include <sys/wait.h>

namespace fragscope::fidelity {
namespace {

constexpr std::size_t kTextBytes = 1 << 18;
/// A program takes a fraction of a second; one that hangs ends by a signal, and is a difference.
constexpr unsigned kMostSeconds = 120;

/// What the child tells, in memory that both see.
struct Report {
  std::uint64_t operations = 0;
  std::array<std::uint64_t, policy::kRuleCount> rule_counts{};
  bool differs = false;
  std::size_t index = 0;
  char text[kTextBytes] = {};  ///< Cut where it does not fit.
};

void run_child(const Program& program, MakeNativeAllocator make_allocator, Report& report) {
  alarm(kMostSeconds);
  NativeAllocator* allocator = make_allocator();
  if (allocator == nullptr) _exit(2);
  allocator->start_events();
  const Comparison result = compare(program, *allocator);
  report.operations = result.operations;
  report.rule_counts = policy::rule_counts;
  if (result.difference) {
    report.differs = true;
    report.index = result.difference->index;
    const std::size_t size = std::min(result.difference->text.size(), kTextBytes - 1);
    std::memcpy(report.text, result.difference->text.data(), size);
  }
  _exit(0);
}

}  // namespace

std::optional<Difference> Isolation::compare(const Program& program) {
  void* memory =
      mmap(nullptr, sizeof(Report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  FRAGSCOPE_CHECK(memory != MAP_FAILED);
  auto* report = new (memory) Report;
  const pid_t child = fork();
  FRAGSCOPE_CHECK(child >= 0);
  if (child == 0) run_child(program, make_allocator_, *report);
  int status = 0;
  FRAGSCOPE_CHECK(waitpid(child, &status, 0) == child);

  ++programs_;
  operations_ += report->operations;
  for (std::size_t i = 0; i < rule_counts_.size(); ++i)
    rule_counts_[i] += report->rule_counts[i];
  std::optional<Difference> difference;
  if (WIFSIGNALED(status)) {
    difference = {program.size(),
                  fmt::format("  PyTorch or the policy died of signal {}:\n", WTERMSIG(status))};
  } else if (WEXITSTATUS(status) != 0) {
    difference = {program.size(),
                  fmt::format("  the run ended with exit code {}:\n", WEXITSTATUS(status))};
  } else if (report->differs) {
    difference = {report->index, report->text};
  }
  munmap(memory, sizeof(Report));
  return difference;
}

}  // namespace fragscope::fidelity
