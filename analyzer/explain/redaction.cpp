// SPDX-License-Identifier: Apache-2.0
#include "analyzer/explain/redaction.hpp"

#include "analyzer/explain/judge.hpp"
#include "trace/ascii.hpp"

#include <absl/container/flat_hash_set.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace fragscope::explain {
namespace {

// Every word of the messages that are read (docs/oom_messages.md). What stands in a message and is
// none of these, no number and no name of a driver's or library's own may be anything: a line of
// another program that fell in between, a path, a name.
constexpr std::string_view kWords =
    "a according active allocate allocated allocating allocation allocations allowed already an "
    "and "
    "any are at attempt available avoid backend be because beyond block blocks buffer but by cache "
    "cached called calling can "
    "capacity capacty capture card copy could cuda current currently decrease denied desired "
    "device "
    "device(s) devices documentation due during e.g env environment error error(s) exceed exceeds "
    "except "
    "execution expandable failed failure for fraction fragmentation free from gpu graph graphs has "
    "have high hip if in including increase insufficient internal is it kernel large larger less "
    "limit management map mapping max maximum may memory memory_fraction message model more most "
    "mps "
    "multiple no non-pytorch not npu number of on only oom or other out peak permanently pool "
    "pools preemptively private process processes pytorch r ran ratio reached reduce rejected "
    "request "
    "requested requesting reserved resources result runtime see segment set setting shared size "
    "small space startup startup. success system tensor tensors than that the there this to total "
    "tried try trying unallocated unified unspecified upper usage use used user-supplied using "
    "utilization value was watermark weight when where which while with without workspace would "
    "xpu "
    "you your bytes byte b kb mb gb kib mib gib tib eb 1eb assert internal invalid line "
    "resource_exhausted defaultcpuallocator per_process_memory_fraction expandable_segments "
    "max_split_size_mb pytorch_cuda_alloc_conf pytorch_alloc_conf pytorch_hip_alloc_conf "
    "pytorch_npu_alloc_conf pytorch_mps_high_watermark_ratio true";

// Beginnings of names that belong to drivers, libraries and Python's exceptions.
constexpr std::array<std::string_view, 16> kOwnNames = {"cuda",
                                                        "cublas",
                                                        "cudnn",
                                                        "cusolver",
                                                        "cusparse",
                                                        "nccl",
                                                        "nvml",
                                                        "hip",
                                                        "rocm",
                                                        "ggml",
                                                        "cu_",
                                                        "acl",
                                                        "ur_result",
                                                        "ze_result",
                                                        "torch.outofmemoryerror",
                                                        "torch.cuda.outofmemoryerror"};

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

std::string lower_case(std::string_view text) {
  std::string low(text);
  std::ranges::transform(low, low.begin(), lower);
  return low;
}

bool is_known_word(const std::string& word) {
  static const auto known = [] {
    absl::flat_hash_set<std::string> words;
    for (std::string_view rest = kWords; !rest.empty();) {
      const std::size_t end = std::min(rest.find(' '), rest.size());
      words.emplace(rest.substr(0, end));
      rest.remove_prefix(std::min(rest.size(), end + 1));
    }
    return words;
  }();
  return known.contains(word);
}

/// A word without the punctuation around it.
std::string_view bare(std::string_view word) {
  constexpr std::string_view kMarks = ".,;:!?()[]{}<>'\"`=";
  while (!word.empty() && kMarks.find(word.front()) != std::string_view::npos)
    word.remove_prefix(1);
  while (!word.empty() && kMarks.find(word.back()) != std::string_view::npos)
    word.remove_suffix(1);
  return word;
}

bool is_own_name(const std::string& word) {
  const bool is_name = std::ranges::all_of(word, [](char c) {
    return is_letter(c) || is_digit(c) || c == '_' || c == '.' || c == ':' || c == '(' || c == ')';
  });
  return is_name && std::ranges::any_of(kOwnNames, [&word](std::string_view start) {
           return word.starts_with(start);
         });
}

/// "79.25", "1.50GiB", "0x7f00", "100%", "(23.1/79.3".
bool is_figure(const std::string& word) {
  return std::ranges::all_of(word,
                             [](char c) {
                               return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') ||
                                      c == '.' || c == ',' || c == '/' || c == '%' || c == 'x' ||
                                      c == '-' || c == '+' || c == 'g' || c == 'i' || c == 'm' ||
                                      c == 'k';
                             }) &&
         (word.front() >= '0' && word.front() <= '9');
}

/// Three dots between digits are an address, however much it looks like a figure.
bool is_address(std::string_view word) {
  return std::ranges::count(word, '.') >= 3 || std::ranges::count(word, ':') >= 2;
}

bool is_harmless(std::string_view word) {
  const std::string plain = lower_case(bare(word));
  if (plain.empty()) return true;
  if (is_address(word)) return false;
  return is_known_word(plain) || is_own_name(plain) || is_figure(plain);
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
    // Exceptions of the program's own could have any name.
    if (!is_backend && !is_own_name(lower_case(bare(word))) && word != "RuntimeError:") break;
    start = word_start;
  }
  return lead.substr(start);
}

class Redactor {
 public:
  Explanation run(Explanation explanation) {
    for (Report& report : explanation.reports) {
      redact(report.message);
      if (report.before) redact(*report.before);
      report.finding = judge_message(report.message);
    }
    for (stages::Timeline& timeline : explanation.timelines)
      redact(timeline);
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

  void redact(DeviceBefore& before) {
    for (ProcessBefore& process : before.processes) {
      process.pid = 0;
      if (!process.name.empty()) process.name = words_.mask("masked", process.name);
    }
  }

  std::string redacted_text(std::string_view text) {
    std::string kept;
    std::string previous;
    while (!text.empty()) {
      const std::size_t end = std::min(text.find(' '), text.size());
      const std::string_view word = text.substr(0, end);
      if (!kept.empty()) kept += ' ';
      // "Process 1234 has ... in use"
      const bool is_pid = previous == "process" && !is_known_word(lower_case(bare(word)));
      kept += is_pid              ? pids_.mask("pid", word)
              : is_harmless(word) ? std::string(word)
                                  : words_.mask("masked", word);
      previous = lower_case(bare(word));
      text.remove_prefix(std::min(text.size(), end + 1));
    }
    return kept;
  }

  void redact(stages::Timeline& timeline) {
    timeline.process = processes_.mask("process", timeline.process);
    // What stands behind a plus is the builder's own.
    timeline.version = timeline.version.substr(0, timeline.version.find('+'));
    for (stages::StageRecord& stage : timeline.stages) {
      for (stages::StageFact& fact : stage.facts) {
        fact.process = processes_.mask("process", fact.process);
        fact.label = redacted_label(fact.label);
      }
    }
  }

  /// "CUDA0 weights": the device's name is the log's, and that of a remote one has its host.
  std::string redacted_label(const std::string& label) {
    static constexpr std::array<std::string_view, 8> kBackends = {
        "CUDA", "ROCm", "HIP", "Vulkan", "SYCL", "Metal", "CPU", "MTL"};
    const std::size_t blank = label.find(' ');
    const std::string_view first = std::string_view(label).substr(0, blank);
    const bool is_name = first.find_first_of("0123456789_[") != std::string_view::npos;
    const bool is_backend = std::ranges::any_of(
        kBackends, [first](std::string_view name) { return first.starts_with(name); });
    if (blank == std::string::npos || !is_name || (is_backend && first.size() <= 12)) return label;
    return words_.mask("masked", first) + label.substr(blank);
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
