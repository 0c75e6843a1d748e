// SPDX-License-Identifier: Apache-2.0
#include "analyzer/explain/message_collector.hpp"

#include "analyzer/explain/message_reader.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace fragscope::explain {
namespace {

// A message is at most some two thousand bytes and, broken at 80 columns, some thirty lines long.
constexpr std::size_t kWindowBytes = 6000;
constexpr std::size_t kWindowLines = 40;
constexpr std::size_t kKeptText = 1500;
constexpr std::size_t kMaxMessages = 2000;

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
}

/// The first place at or behind `from` where a message phrase begins; npos if there is none.
std::size_t next_phrase(std::string_view text, std::size_t from) {
  const auto phrases = message_phrases();
  for (std::size_t at = from; at < text.size(); ++at) {
    for (const std::string_view phrase : phrases) {
      if (lower(text[at]) != lower(phrase.front()) || text.size() - at < phrase.size()) continue;
      if (std::ranges::equal(text.substr(at, phrase.size()), phrase, {}, lower, lower)) return at;
    }
  }
  return std::string_view::npos;
}

std::string single_spaced(std::string_view text) {
  std::string joined;
  for (const char c : text) {
    const bool blank = c == ' ' || c == '\n' || c == '\r' || c == '\t';
    if (blank && (joined.empty() || joined.back() == ' ')) continue;
    joined += blank ? ' ' : c;
  }
  while (!joined.empty() && joined.back() == ' ')
    joined.pop_back();
  return joined;
}

std::string figure_key(const std::optional<Bounds>& bounds) {
  return bounds ? fmt::format("{}-{};", bounds->low, bounds->high) : std::string("-;");
}

/// What makes two messages the same one: form, device and every figure; without figures the text.
std::string key_of(const Message& message) {
  const Figures& f = message.figures;
  std::string key = fmt::format("{} {} {} ",
                                static_cast<int>(message.backend),
                                static_cast<int>(message.shape),
                                message.device.value_or(-1));
  for (const auto& bounds : {f.request, f.total, f.free, f.allocated, f.reserved, f.limit, f.gap}) {
    key += figure_key(bounds);
  }
  if (!f.request && !f.total) key += message.text.substr(0, 160);
  return key;
}

}  // namespace

// Lines of other writers in between are passed over; a prefix that repeats on every line is taken
// off the ones that follow, so that a message broken by its logger joins.
MessageCollector::Window MessageCollector::window_of(const logtext::LineHit& hit) {
  Window window;
  window.text = logtext::clean_text(hit.line);
  window.first_line_end = window.text.size();
  const logtext::LogLine first = logtext::read_line(window.text, hit.number);
  window.process = std::string(first.process);
  window.time_ms = first.time_ms;
  window.line_starts.emplace_back(0, hit.number);

  std::string_view rest = hit.rest;
  std::uint64_t number = hit.number;
  for (std::size_t lines = 0; lines < kWindowLines && !rest.empty(); ++lines) {
    if (window.text.size() > window.first_line_end + kWindowBytes) break;
    const std::size_t end = std::min(rest.find('\n'), std::min(rest.size(), kWindowBytes));
    const std::string cleaned = logtext::clean_text(rest.substr(0, end));
    rest.remove_prefix(std::min(rest.size(), end + 1));
    ++number;
    const logtext::LogLine line = logtext::read_line(cleaned, number);
    if (!line.process.empty() && line.process != window.process) continue;
    window.text += '\n';
    window.line_starts.emplace_back(window.text.size(), number);
    window.text += line.message;
  }
  return window;
}

std::size_t MessageCollector::consumed_in(std::uint64_t line) const {
  const auto found =
      std::ranges::find(consumed_, line, &std::pair<std::uint64_t, std::size_t>::first);
  return found == consumed_.end() ? 0 : found->second;
}

void MessageCollector::consume(const Window& window, std::size_t end) {
  // Lines come in order, so marks far behind are never asked for again.
  constexpr std::size_t kMaxMarks = 4 * kWindowLines;
  if (consumed_.size() > kMaxMarks)
    consumed_.erase(consumed_.begin(), consumed_.end() - kWindowLines);
  for (std::size_t i = 0; i < window.line_starts.size(); ++i) {
    const auto [start, line] = window.line_starts[i];
    if (start >= end) break;
    const bool is_last =
        i + 1 == window.line_starts.size() || window.line_starts[i + 1].first >= end;
    // A line in the middle was used whole. The window holds it without its prefix, so an offset in
    // its last line is a lower end, which is enough: a message has no phrase behind its middle.
    consumed_.emplace_back(line, is_last ? end - start : kWindowBytes);
  }
}

void MessageCollector::add(const logtext::LineHit& hit) {
  const Window window = window_of(hit);
  std::size_t at = consumed_in(hit.number);
  while (true) {
    at = next_phrase(std::string_view(window.text).substr(0, window.first_line_end + 1), at);
    if (at == std::string_view::npos) return;
    auto read = read_message(window.text, at);
    if (!read) {
      ++at;
      continue;
    }
    const std::size_t end = std::max(read->end, at + 1);
    Message& message = read->message;
    message.line = hit.number;
    message.process = window.process;
    message.time_ms = window.time_ms;
    // From the start of the line, or of what precedes the phrase in a long one.
    const std::size_t start = at - std::min<std::size_t>(at, 200);
    const std::size_t from = window.text.rfind('\n', at);
    const std::size_t begin = from == std::string::npos ? start : std::max(start, from + 1);
    message.text = single_spaced(
        std::string_view(window.text).substr(begin, std::min(end - begin, kKeptText)));
    consume(window, end);
    keep(std::move(message));
    at = end;
  }
}

void MessageCollector::keep(Message message) {
  const auto [place, added] = known_.try_emplace(key_of(message), messages_.size());
  if (!added) {
    if (place->second < messages_.size()) ++messages_[place->second].count;
    return;
  }
  if (messages_.size() >= kMaxMessages) {
    known_.erase(place);
    ++dropped_count_;
    return;
  }
  messages_.push_back(std::move(message));
}

}  // namespace fragscope::explain
