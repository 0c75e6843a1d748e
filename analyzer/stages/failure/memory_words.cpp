// SPDX-License-Identifier: Apache-2.0
#include "analyzer/stages/failure/memory_words.hpp"

#include "trace/ascii.hpp"

#include <algorithm>
#include <array>

namespace fragscope::stages {
namespace {

using enum Wording;

constexpr MemoryWords kMemoryWords[] = {
    {"out of memory", kWords},
    {"Out of memory", kWords},
    {"OutOfMemoryError", kException},
    {"would exceed allowed memory", kStatus},
    {"can NOT allocate memory block with size larger than", kStatus},
    {"Invalid buffer size: ", kFigure},
    {"NVML_SUCCESS == ", kAssertion},
    {"!handles_.at(i)", kAssertion},
    {"CUDA_ERROR_OUT_OF_MEMORY", kStatus},
    {"cudaErrorMemoryAllocation", kStatus},
    {"hipErrorOutOfMemory", kStatus},
    {"CUBLAS_STATUS_ALLOC_FAILED", kStatus},
    {"CUDNN_STATUS_ALLOC_FAILED", kStatus},
    {"OUT_OF_DEVICE_MEMORY", kStatus},
    {"ErrorOutOfDeviceMemory", kStatus},
    {"RESOURCE_EXHAUSTED", kExhausted},
    {"OOM when allocating tensor", kStatus},

    {"std::bad_alloc", kException, true},
    {"OUT_OF_HOST_MEMORY", kStatus, true},
    {"ErrorOutOfHostMemory", kStatus, true},
    {"DefaultCPUAllocator: ", kCpu, true},
    {"Cannot allocate memory", kPhrase, true},
};

constexpr std::size_t kNear = 120;  // how far around the words their sentence is looked at

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool ends_with_words(std::string_view text, std::string_view words) {
  return without_end(text, words).has_value();
}

/// Whether these words begin the text, whatever blanks stand in it.
bool begins_with_words(std::string_view text, std::string_view words) {
  std::size_t at = 0;
  for (const char c : words) {
    if (c == ' ') continue;
    while (at < text.size() && is_blank(text[at]))
      ++at;
    if (at >= text.size() || text[at] != c) return false;
    ++at;
  }
  return true;
}

std::string_view trimmed(std::string_view text, char blank = ' ') {
  while (text.ends_with(blank))
    text.remove_suffix(1);
  return text;
}

/// The words' surroundings.
struct Around {
  std::string_view front;
  std::string_view behind;
};

/// The figures of a message follow: whatever stands in front of it, this is one.
bool has_figures(std::string_view behind) {
  static constexpr std::array<std::string_view, 7> kFigures = {". Tried to allocate",
                                                               "! Tried to allocate",
                                                               " Tried to allocate",
                                                               ". Allocation was preemptively",
                                                               " while trying to allocate",
                                                               " trying to allocate",
                                                               " allocating "};
  return std::ranges::any_of(
      kFigures, [behind](std::string_view words) { return begins_with_words(behind, words); });
}

/// "this could lead to", "to avoid": a warning of what may come. "could not" is none.
bool only_warns(std::string_view front) {
  front = front.substr(front.rfind('\n') + 1);
  constexpr std::size_t kReach = 48;
  if (front.size() > kReach) front.remove_prefix(front.size() - kReach);
  static constexpr std::array<std::string_view, 9> kWarnings = {
      " may ", " might ", " could ", " can ", "avoid", "prevent", "risk of", "If you ", "if you "};
  return std::ranges::any_of(kWarnings, [front](std::string_view word) {
    const std::size_t at = front.find(word);
    return at != std::string_view::npos && !front.substr(at + word.size()).starts_with("not ");
  });
}

/// "RuntimeError: CUDA out of memory." is an error; "to avoid CUDA out of memory errors" is not.
bool is_named_error(const Around& around, std::string_view before_name) {
  if (has_figures(around.behind)) return true;
  if (ends_with_words(before_name, "Error: ") || ends_with_words(before_name, "Exception: ")) {
    return true;
  }
  const std::string_view front = trimmed(before_name);
  const std::size_t next = around.behind.find_first_not_of(' ');
  const bool goes_on = next != std::string_view::npos && is_letter(around.behind[next]);
  return !goes_on && (front.empty() || !is_letter(front.back())) && !only_warns(front);
}

/// An error of the driver or a library: what failed stands in front.
bool is_bare_error(const Around& around) {
  static constexpr std::array<std::string_view, 9> kFronts = {"rror: ",
                                                              "error (2) : ",
                                                              "failed: ",
                                                              "RESOURCE_EXHAUSTED: ",
                                                              "CUDA_ERROR_OUT_OF_MEMORY: ",
                                                              "cudaErrorMemoryAllocation: ",
                                                              "cudaErrorMemoryAllocation ",
                                                              "hipErrorOutOfMemory: ",
                                                              "allocate memory: "};
  const std::string_view front = around.front;
  if (ends_with_words(front, "ran "))
    return begins_with_words(around.behind, " trying to allocate");
  if (only_warns(front)) return false;
  if (std::ranges::any_of(kFronts,
                          [front](std::string_view end) { return ends_with_words(front, end); })) {
    return true;
  }
  const std::string_view close = trimmed(front);
  if (close.empty() || is_letter(close.back())) return false;
  // What failed, and where, comes in between.
  for (const std::string_view name : {"CUDA error", "CUDA runtime error", "Cuda failure "}) {
    if (has(front, name)) return true;
  }
  const bool is_bracketed = (close.ends_with('(') && around.behind.starts_with(')')) ||
                            (close.ends_with('\'') && around.behind.starts_with('\''));
  return is_bracketed && (has(front, "rror") || has(front, "ail") || has(front, "would exceed"));
}

bool is_words_error(const Around& around) {
  if (ends_with_words(around.front, "MPS backend ")) return true;
  for (const std::string_view name : {"CUDA ", "HIP ", "XPU ", "NPU "}) {
    const auto before_name = without_end(around.front, name);
    if (before_name) return is_named_error(around, *before_name);
  }
  return is_bare_error(around);
}

bool is_exception_error(const Around& around) {
  std::string_view front = around.front;
  constexpr std::string_view kQuoted = "instance of '";
  const auto is_part = [](char c) { return is_letter(c) || is_digit(c) || c == '_' || c == '.'; };
  while (!front.empty() && (is_part(front.back()) || front.ends_with("::")))
    front.remove_suffix(front.back() == ':' ? 2 : 1);
  if (front.ends_with(kQuoted)) return around.behind.starts_with('\'');
  const std::string_view close = trimmed(front);
  const std::string_view behind = around.behind;
  if (behind.starts_with(": out of resource")) return false;  // Triton's own limits
  const bool begins_line = close.empty() || close.ends_with('\n');
  if (behind.starts_with(':') && behind.substr(1, 1) != ":") {
    // Without a text behind it the error is told in the next line.
    const std::size_t text = behind.find_first_not_of(" \r\t", 1);
    const bool has_text = text != std::string_view::npos && behind[text] != '\n';
    return has_text && (begins_line || !is_letter(close.back()));
  }
  // Alone: nothing but what a logger puts there is in front of it.
  const std::size_t next = behind.find_first_not_of(" \r\t.");
  if (next != std::string_view::npos && behind[next] != '\n') return false;
  if (begins_line || close.ends_with(']') || close.ends_with('|')) return true;
  return close.ends_with("]:") || close.ends_with("):") || close.ends_with("rror:");
}

bool speaks_of_memory(std::string_view behind) {
  behind = behind.substr(0, behind.find('\n'));
  for (const std::string_view word : {"emory", "OOM", "alloc"}) {
    if (has(behind, word)) return true;
  }
  return false;
}

}  // namespace

std::span<const MemoryWords> memory_words() {
  return kMemoryWords;
}

std::optional<std::string_view> without_end(std::string_view text, std::string_view words) {
  std::size_t at = text.size();
  for (std::size_t i = words.size(); i-- > 0;) {
    if (words[i] == ' ') continue;
    while (at > 0 && is_blank(text[at - 1]))
      --at;
    if (at == 0 || text[at - 1] != words[i]) return std::nullopt;
    --at;
  }
  return text.substr(0, at);
}

bool tells_of_failure(const MemoryWords& words,
                      std::string_view text,
                      std::size_t at,
                      std::size_t end) {
  const std::size_t begin = at - std::min(at, kNear);
  const Around around{text.substr(begin, at - begin), text.substr(end, 2 * kNear)};
  switch (words.wording) {
    case kWords:
      return is_words_error(around);
    case kPhrase: {
      const std::string_view close = trimmed(around.front);
      return (close.empty() || !is_letter(close.back())) && !only_warns(around.front);
    }
    case kException:
      return is_exception_error(around);
    case kStatus:
      return !only_warns(around.front);
    case kAssertion:
      return has(around.behind.substr(0, around.behind.find('\n')), "INTERNAL ASSERT FAILED");
    case kExhausted:
      return speaks_of_memory(around.behind) && !only_warns(around.front);
    case kCpu:
      return begins_with_words(around.behind, "not enough memory") ||
             begins_with_words(around.behind, "can't allocate memory");
    case kFigure:
      return !around.behind.empty() && is_digit(around.behind.front());
  }
  return false;
}

bool tells_of_failure(std::string_view line) {
  for (const MemoryWords& words : kMemoryWords) {
    for (std::size_t at = line.find(words.text); at != std::string_view::npos;
         at = line.find(words.text, at + 1)) {
      if (tells_of_failure(words, line, at, at + words.text.size())) return true;
    }
  }
  return false;
}

}  // namespace fragscope::stages
