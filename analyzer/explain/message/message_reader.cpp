// SPDX-License-Identifier: Apache-2.0
#include "analyzer/explain/message/message_reader.hpp"

#include "analyzer/explain/message/forms/other_forms.hpp"
#include "analyzer/explain/message/forms/pytorch_forms.hpp"
#include "analyzer/explain/message/forms/reading.hpp"
#include "analyzer/explain/message/message_format.hpp"
#include "trace/ascii.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace fragscope::explain {
namespace {

// Words from the middle of messages, for a message whose first words a line end has broken.
constexpr std::array<std::string_view, 8> kMiddleWords = {"Tried to allocate ",
                                                          "Allocation was preemptively rejected",
                                                          "while trying to allocate ",
                                                          "while trying to map ",
                                                          "on startup is less than desired",
                                                          "INTERNAL ASSERT FAILED",
                                                          "CUDA error: o",
                                                          "cudaMalloc failed: o"};

// Blanks of other kinds, in what is copied from pages and terminals: a scanner compares bytes.
constexpr std::array<std::string_view, 3> kOtherBlanks = {"  ", "\t", "\xC2\xA0"};

constexpr std::string_view kNoBreakSpace = "\xC2\xA0";

std::string with_blanks(std::string_view words, std::string_view blank) {
  std::string other;
  for (const char c : words) {
    if (c == ' ') {
      other += blank;
    } else {
      other += c;
    }
  }
  return other;
}

void append_unspaced(std::string& unspaced, std::string_view text) {
  std::ranges::copy_if(text, std::back_inserter(unspaced), [](char c) { return !is_blank(c); });
}

/// All forms, by the first letter of their words.
class FormIndex {
 public:
  FormIndex() {
    for (const auto forms : {pytorch_forms(), other_forms()}) {
      for (const Form& form : forms)
        by_letter_[letter_of(form.words.front())].push_back(form);
    }
  }

  /// The message whose first words stand at window[at].
  [[nodiscard]] std::optional<Reading> read_at(std::string_view window, std::size_t at) const {
    for (const Form& form : by_letter_[letter_of(window[at])]) {
      JoinedCursor cursor(window, at);
      if (!cursor.pass(form.words)) continue;
      Reading reading(window, at);
      reading.cursor = cursor;
      return form.read(reading) ? std::optional(std::move(reading)) : std::nullopt;
    }
    return std::nullopt;
  }

 private:
  static std::size_t letter_of(char c) { return static_cast<unsigned char>(lower(c)); }

  std::array<std::vector<Form>, 256> by_letter_;
};

const FormIndex& forms() {
  static const FormIndex index;
  return index;
}

/// Where the line that `at` stands in ends.
std::size_t line_end(std::string_view window, std::size_t at) {
  return std::min(window.find('\n', at), window.size());
}

bool has_device_figures(const Message& message) {
  const Figures& f = message.figures;
  return f.total || f.free || f.allocated;
}

/// Whether words without figures leave it to others: those of the same error, further on in the
/// line, say more. A line that ends with the name of an exception goes on in the next one.
bool leaves_it(const Reading& reading) {
  constexpr std::size_t kFarthest = 250;
  constexpr std::size_t kBelow = 18;  // "  what():  CUDA " stands in front
  constexpr std::size_t kFirstWords = 16;
  const std::string_view window = reading.window;
  const std::size_t end = line_end(window, reading.cursor.at());
  const bool goes_on = reading.is_exception && end - reading.cursor.at() <= kFirstWords;
  const std::size_t last =
      std::min({window.size(), end + (goes_on ? kBelow : 0), reading.cursor.at() + kFarthest});
  for (std::size_t at = reading.cursor.at(); at < last; ++at) {
    const auto other = forms().read_at(window, at);
    if (other && !other->yields) return true;
  }
  return false;
}

/// An error often comes with its name or status behind it: "(cudaErrorMemoryAllocation)".
void pass_repeated_words(Reading& reading) {
  if (has_device_figures(reading.message)) return;
  constexpr std::size_t kFarthest = 250;
  const std::size_t start = reading.cursor.at();
  const std::size_t last = std::min(line_end(reading.window, start), start + kFarthest);
  for (std::size_t at = start; at < last; ++at) {
    const auto other = forms().read_at(reading.window, at);
    if (!other) continue;
    if (!other->yields) return;
    reading.cursor = other->cursor;
    at = reading.cursor.at();
  }
}

/// The phrase stands in the middle of a message: its first words are broken in two.
std::optional<Reading> read_from_its_start(std::string_view window, std::size_t middle) {
  const auto is_middle = [&](std::string_view words) {
    return JoinedCursor(window, middle).pass(words);
  };
  JoinedCursor bare(window, middle);
  if (bare.pass("CUDA error: o") || bare.pass("cudaMalloc failed: o")) {
    return forms().read_at(window, bare.at() - 1);
  }
  if (!std::ranges::any_of(kMiddleWords, is_middle)) return std::nullopt;
  constexpr std::size_t kFarthest = 200;
  const std::size_t first = middle - std::min(middle, kFarthest);
  for (std::size_t at = middle; at-- > first;) {
    auto reading = forms().read_at(window, at);
    if (reading && reading->cursor.at() > middle) return reading;
  }
  return std::nullopt;
}

/// "torch.OutOfMemoryError" and the like, where it stands directly in front of the message.
std::string exception_in_front(const Reading& reading) {
  constexpr std::string_view kName = "OutOfMemoryError";
  constexpr std::string_view kModules = "torch.cuda.";
  constexpr std::string_view kFarthest = ":AllocationonDevice127";
  std::string front;
  append_unspaced(front, reading.before(100));
  const auto name = front.rfind(kName);
  if (name == std::string::npos) return {};
  const std::string_view between = std::string_view(front).substr(name + kName.size());
  // Another error's line may stand in front of this one.
  if (between.size() > kFarthest.size() || between.find("Error:") != std::string_view::npos)
    return {};
  const std::size_t start = name - std::min(name, kModules.size());
  return front.substr(start, name + kName.size() - start);
}

/// What tells the version: the exception's name, the message, and the advice behind it. Without
/// blanks, since a line end may stand anywhere.
std::string unspaced_text(const Reading& reading) {
  constexpr std::size_t kAdvice = 400;
  std::string text = exception_in_front(reading);
  if (reading.message.shape == Shape::kBare) append_unspaced(text, reading.before(60));
  append_unspaced(text, reading.window.substr(reading.at, reading.cursor.at() - reading.at));
  JoinedCursor advice = reading.cursor;
  while (advice.pass(".") || advice.pass(")") || advice.pass(" ")) {
  }
  if (!advice.pass("If reserved ")) return text;
  JoinedCursor link = advice;
  if (!reading.pass_through(link, "/docs/stable/", kAdvice)) {
    static_cast<void>(reading.pass_through(link, "max_split_size_mb", kAdvice));
  }
  append_unspaced(text, reading.window.substr(advice.at(), link.at() - advice.at()));
  return text;
}

/// What follows from the printed figures.
void derive_sums(Reading& reading) {
  Figures& figures = reading.message.figures;
  if (reading.message.shape == Shape::kNew && figures.allocated && figures.gap) {
    figures.reserved = *figures.allocated + *figures.gap;
    if (figures.private_pools) {
      // The printed "allocated" includes the idle bytes of private pools.
      figures.gap = *figures.gap + *figures.private_pools;
      figures.allocated = *figures.allocated - *figures.private_pools;
    }
  } else if (figures.allocated && figures.gap) {
    figures.reserved = *figures.allocated + *figures.gap;
  } else if (figures.allocated && figures.reserved &&
             figures.reserved->high >= figures.allocated->low) {  // else they contradict
    figures.gap = *figures.reserved - *figures.allocated;
  }
  if (!figures.request) return;
  figures.tensor = reading.is_driver_request ? tensor_behind(*figures.request) : *figures.request;
}

/// Index behind what closes the last sentence that was understood.
std::size_t behind_close(const Reading& reading) {
  constexpr std::string_view kClosing = ".)";
  std::size_t end = reading.cursor.at();
  while (end < reading.window.size() &&
         kClosing.find(reading.window[end]) != std::string_view::npos)
    ++end;
  return end;
}

std::optional<ReadMessage> read(std::string_view window, std::size_t at) {
  auto reading = forms().read_at(window, at);
  if (reading && reading->yields && leaves_it(*reading)) return std::nullopt;
  if (!reading) reading = read_from_its_start(window, at);
  if (!reading) return std::nullopt;
  pass_repeated_words(*reading);
  derive_sums(*reading);
  reading->message.format = format_of(reading->message, unspaced_text(*reading));
  return ReadMessage{std::move(reading->message), behind_close(*reading)};
}

}  // namespace

std::string_view to_string(Backend backend) {
  static constexpr std::array<std::string_view, 7> kNames = {
      "cuda", "hip", "xpu", "mps", "npu", "async", "none"};
  return kNames[static_cast<std::size_t>(backend)];
}

std::span<const std::string_view> message_phrases() {
  static const std::vector<std::string> other_blanks = [] {
    std::vector<std::string> all;
    for (const auto family : {pytorch_forms(), other_forms()}) {
      for (const Form& form : family) {
        if (form.words.find(' ') == std::string_view::npos) continue;
        for (const std::string_view blank : kOtherBlanks)
          all.push_back(with_blanks(form.words, blank));
      }
    }
    return all;
  }();
  static const std::vector<std::string_view> phrases = [] {
    std::vector<std::string_view> all(kMiddleWords.begin(), kMiddleWords.end());
    all.insert(all.end(), other_blanks.begin(), other_blanks.end());
    for (const auto family : {pytorch_forms(), other_forms()}) {
      for (const Form& form : family)
        all.push_back(form.words);
    }
    return all;
  }();
  return phrases;
}

std::optional<ReadMessage> read_message(std::string_view window, std::size_t at) {
  if (window.find(kNoBreakSpace) == std::string_view::npos) return read(window, at);
  // Two blanks are as good as one, and every place stays where it is.
  std::string blanked(window);
  for (std::size_t i = blanked.find(kNoBreakSpace); i != std::string::npos;
       i = blanked.find(kNoBreakSpace, i)) {
    blanked.replace(i, kNoBreakSpace.size(), kNoBreakSpace.size(), ' ');
  }
  return read(blanked, at);
}

}  // namespace fragscope::explain
