// SPDX-License-Identifier: Apache-2.0
#include "analyzer/explain/message/message_collector.hpp"

#include "analyzer/explain/message/message_reader.hpp"
#include "analyzer/logtext/clean_text.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace fragscope::explain {
namespace {

// A message is at most some two thousand bytes and, broken at 80 columns, some thirty lines long.
constexpr std::size_t kWindowBytes = 6000;
constexpr std::size_t kWindowLines = 40;
constexpr std::size_t kKeptText = 4000;
constexpr std::size_t kMaxMessages = 2000;

/// Where message phrases begin in a text, in ascending order.
std::vector<std::size_t> phrase_places(std::string_view text, std::size_t from) {
  static const logtext::PhraseScanner scanner({message_phrases()});
  std::vector<std::size_t> places;
  scanner.scan(text, from, text.size(), [&places](std::size_t place, std::uint32_t) {
    places.push_back(place);
  });
  std::ranges::sort(places);
  places.erase(std::unique(places.begin(), places.end()), places.end());
  return places;
}

bool is_blank(char c) {
  return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

std::string single_spaced(std::string_view text) {
  std::string joined;
  for (const char c : text) {
    const bool blank = is_blank(c);
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

/// The message from the start of its line, or of what precedes the phrase in a long one.
void set_text(Message& message, std::string_view window, std::size_t at, std::size_t end) {
  const std::size_t reach = at - std::min<std::size_t>(at, 200);
  const std::size_t line_end = window.rfind('\n', at);
  const std::size_t begin = line_end == std::string_view::npos || line_end + 1 == at
                                ? reach
                                : std::max(reach, line_end + 1);
  message.text = single_spaced(window.substr(begin, at - begin));
  if (!message.text.empty() && is_blank(window[at - 1])) message.text += ' ';
  message.lead = message.text.size();
  message.text += single_spaced(window.substr(at, std::min(end - at, kKeptText)));
}

}  // namespace

// Lines of other writers in between are passed over; a prefix that repeats on every line is taken
// off the ones that follow, so that a message broken by its logger joins.
MessageCollector::Window MessageCollector::window_of(const logtext::LineHit& hit) {
  const std::string hit_text = logtext::clean_text(hit.line);
  const logtext::LogLine first = logtext::read_line(hit_text, hit.number);
  Window window;
  window.process = std::string(first.process);
  window.time = std::string(first.time_text);
  add_line_before(hit, window);
  window.hit_start = window.text.size();
  window.line_starts.emplace_back(window.hit_start, hit.number);
  window.text += hit_text;
  window.hit_end = window.text.size();

  std::string_view rest = hit.rest;
  std::uint64_t number = hit.number;
  for (std::size_t lines = 0; lines < kWindowLines && !rest.empty(); ++lines) {
    if (window.text.size() > window.hit_end + kWindowBytes) break;
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

// The first words of a message may stand at the end of the line before.
void MessageCollector::add_line_before(const logtext::LineHit& hit, Window& window) {
  std::string_view before = hit.before;
  if (!before.ends_with('\n')) return;
  before.remove_suffix(1);
  before = before.substr(before.rfind('\n') + 1);
  const std::string cleaned = logtext::clean_text(before);
  const logtext::LogLine line = logtext::read_line(cleaned, hit.number - 1);
  if (!line.process.empty() && line.process != window.process) return;
  window.line_starts.emplace_back(0, hit.number - 1);
  window.text = cleaned + '\n';
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
    if (start < window.hit_start) continue;
    const bool is_last =
        i + 1 == window.line_starts.size() || window.line_starts[i + 1].first >= end;
    // A line in the middle was used whole. The window holds it without its prefix, so an offset in
    // its last line is a lower end, which is enough: a message has no phrase behind its middle.
    consumed_.emplace_back(line, is_last ? end - start : kWindowBytes);
  }
}

void MessageCollector::add(const logtext::LineHit& hit) {
  const Window window = window_of(hit);
  const std::string_view until_line_end =
      std::string_view(window.text).substr(0, window.hit_end + 1);
  std::size_t used = window.hit_start + consumed_in(hit.number);
  for (const std::size_t at : phrase_places(until_line_end, used)) {
    if (at < used) continue;
    auto read = read_message(window.text, at);
    if (!read) continue;
    used = std::max(read->end, at + 1);
    Message& message = read->message;
    message.line = hit.number;
    message.process = window.process;
    message.time = window.time;
    set_text(message, window.text, at, used);
    consume(window, used);
    keep(std::move(message));
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

Result<std::vector<Message>> read_messages(const std::string& path) {
  MessageCollector collector;
  const logtext::PhraseScanner scanner({message_phrases()});
  return logtext::read_log(path, scanner, [&](const logtext::LineHit& hit) { collector.add(hit); })
      .map([&](const logtext::LogTotals&) { return collector.take_messages(); });
}

std::vector<Message> find_messages(std::string_view text) {
  MessageCollector collector;
  const logtext::PhraseScanner scanner({message_phrases()});
  logtext::read_text(text, scanner, [&](const logtext::LineHit& hit) { collector.add(hit); });
  return collector.take_messages();
}

}  // namespace fragscope::explain
