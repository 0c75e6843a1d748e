// SPDX-License-Identifier: Apache-2.0
#include "analyzer/explain/redaction.hpp"

#include "analyzer/explain/judge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace fragscope::explain {
namespace {

/// A number for each different text.
class Masks {
 public:
  std::string mask(std::string_view kind, std::string_view text) {
    if (text.empty()) return {};
    const auto [place, added] = numbers_.try_emplace(std::string(text), numbers_.size() + 1);
    return fmt::format("{}-{}", kind, place->second);
  }

 private:
  std::map<std::string, std::size_t, std::less<>> numbers_;
};

/// Three dots between digits, as in 10.0.0.1.
bool has_address(std::string_view word) {
  std::size_t dots = 0;
  std::size_t digits = 0;
  for (const char c : word) {
    if (c >= '0' && c <= '9') {
      ++digits;
      continue;
    }
    if (c != '.' || digits == 0) dots = 0;
    if (c == '.' && digits > 0) ++dots;
    digits = 0;
    if (dots == 3) return true;
  }
  return false;
}

/// Paths, links, names of models and mail addresses; "GiB/s" is harmless, but not worth a rule.
bool is_private(std::string_view word) {
  return word.find_first_of("/\\@") != std::string_view::npos || has_address(word);
}

/// The end of `lead` that belongs to the message: "torch.OutOfMemoryError: CUDA ".
std::string_view kept_lead(std::string_view lead) {
  static constexpr std::array<std::string_view, 6> kBackends = {
      "CUDA", "HIP", "XPU", "NPU", "MPS", "backend"};
  std::size_t start = lead.size();
  while (start > 0) {
    std::string_view front = lead.substr(0, start);
    while (front.ends_with(' '))
      front.remove_suffix(1);
    const std::size_t blank = front.rfind(' ');
    const std::size_t word_start = blank == std::string_view::npos ? 0 : blank + 1;
    const std::string_view word = front.substr(word_start);
    const bool is_backend = std::ranges::find(kBackends, word) != kBackends.end();
    if (!is_backend && (!word.ends_with("Error:") || is_private(word))) break;
    start = word_start;
  }
  return lead.substr(start);
}

class Redactor {
 public:
  Explanation run(Explanation explanation) {
    for (Report& report : explanation.reports) {
      redact(report.message);
      report.finding = judge_message(report.message);
    }
    for (stages::Timeline& timeline : explanation.timelines) {
      timeline.process = processes_.mask("process", timeline.process);
      for (stages::StageRecord& stage : timeline.stages) {
        for (stages::StageFact& fact : stage.facts)
          fact.process = processes_.mask("process", fact.process);
      }
    }
    return explanation;
  }

 private:
  void redact(Message& message) {
    message.process = processes_.mask("process", message.process);
    for (ProcessUse& use : message.figures.processes)
      use.pid = pids_.mask("pid", use.pid);
    const std::string_view text = message.text;
    const std::string_view lead = kept_lead(text.substr(0, message.lead));
    std::string kept = std::string(lead) + redacted_text(text.substr(message.lead));
    message.lead = lead.size();
    message.text = std::move(kept);
  }

  std::string redacted_text(std::string_view text) {
    std::string kept;
    std::string_view previous;
    while (!text.empty()) {
      const std::size_t end = std::min(text.find(' '), text.size());
      const std::string_view word = text.substr(0, end);
      if (!kept.empty()) kept += ' ';
      // "Process 1234 has ... in use"
      const bool is_pid = (previous == "Process" || previous == "process") && word != "has";
      kept += is_pid             ? pids_.mask("pid", word)
              : is_private(word) ? words_.mask("masked", word)
                                 : std::string(word);
      previous = word;
      text.remove_prefix(std::min(text.size(), end + 1));
    }
    return kept;
  }

  Masks processes_;
  Masks pids_;
  Masks words_;
};

}  // namespace

Explanation redacted(Explanation explanation) {
  return Redactor().run(std::move(explanation));
}

}  // namespace fragscope::explain
