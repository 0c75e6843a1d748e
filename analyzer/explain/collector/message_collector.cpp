// SPDX-License-Identifier: Apache-2.0
#include "analyzer/explain/collector/message_collector.hpp"

#include "analyzer/explain/message/message_reader.hpp"
#include "analyzer/logtext/phrase_scanner.hpp"
#include "trace/ascii.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace fragscope::explain {
namespace {

constexpr std::size_t kKeptText = 4000;
constexpr std::size_t kKeptAtEachEnd = 1000;

const logtext::PhraseScanner& message_scanner() {
  static const logtext::PhraseScanner scanner({message_phrases()});
  return scanner;
}

/// Where message phrases begin in text[from, until), in ascending order.
std::vector<std::size_t> phrase_places(std::string_view text, std::size_t from, std::size_t until) {
  std::vector<std::size_t> places;
  message_scanner().scan(
      text, from, std::min(until, text.size()), [&places](std::size_t place, std::uint32_t) {
        places.push_back(place);
      });
  std::ranges::sort(places);
  places.erase(std::unique(places.begin(), places.end()), places.end());
  return places;
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

/// What makes two messages the same one: form, device and every figure; without figures the writer
/// and the text behind the line's prefix.
std::string key_of(const Message& message) {
  const Figures& f = message.figures;
  std::string key = fmt::format("{} {} {} ",
                                static_cast<int>(message.backend),
                                static_cast<int>(message.shape),
                                message.device.value_or(-1));
  for (const auto& bounds : {f.request, f.total, f.free, f.allocated, f.reserved, f.limit, f.gap}) {
    key += figure_key(bounds);
  }
  if (!f.request && !f.total) {
    key += message.process + ' ' + message.text.substr(message.lead, 160);
  }
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

struct FoundMessage {
  Message message;
  std::size_t end = 0;  ///< In the window.
};

/// The messages whose phrase is in the window's line with the phrase, from `used` on.
std::vector<FoundMessage> messages_in(const MessageWindow& window, std::size_t used) {
  std::vector<FoundMessage> found;
  for (const std::size_t at : phrase_places(window.text, used, window.hit_end + 1)) {
    if (at < used) continue;
    auto read = read_message(window.text, at);
    if (!read) continue;
    used = std::max(read->end, at + 1);
    Message& message = read->message;
    message.process = window.process;
    message.time = window.time;
    set_text(message, window.text, at, used);
    found.push_back({std::move(message), used});
  }
  return found;
}

bool are_whole(const std::vector<FoundMessage>& found) {
  return !found.empty() &&
         std::ranges::none_of(found, [](const FoundMessage& one) { return one.message.cut_short; });
}

}  // namespace

// One way of reading the lines around a hit does for nearly all. A line without a prefix may be
// another writer's, though, and the first words may stand on the line before, in front of a prefix
// that is repeated; so where nothing whole is found the other ways are tried.
void MessageCollector::add(const logtext::LineHit& hit) {
  const std::size_t consumed = consumed_at(hit.offset);
  MessageWindow window = window_of(hit, Writer::kSameOrUnnamed, HitPrefix::kKept);
  std::vector<FoundMessage> found = messages_in(window, window.hit_start + consumed);
  // Lines that are wrapped are short.
  constexpr std::size_t kLongestWrapped = 1000;
  const bool may_be_wrapped = window.has_prefix && hit.line.size() <= kLongestWrapped;
  if (consumed == 0 && may_be_wrapped && !are_whole(found)) {
    for (const auto& [writer, prefix] : {std::pair{Writer::kSame, HitPrefix::kKept},
                                         std::pair{Writer::kSameOrUnnamed, HitPrefix::kRemoved},
                                         std::pair{Writer::kSame, HitPrefix::kRemoved}}) {
      MessageWindow other = window_of(hit, writer, prefix);
      std::vector<FoundMessage> other_found = messages_in(other, other.hit_start);
      if (!are_whole(other_found) && (!found.empty() || other_found.empty())) continue;
      window = std::move(other);
      found = std::move(other_found);
      if (are_whole(found)) break;
    }
  }
  for (FoundMessage& one : found) {
    consume(window, one.end);
    one.message.line = hit.number;
    keep(std::move(one.message));
  }
}

std::size_t MessageCollector::consumed_at(std::uint64_t offset) const {
  const auto found =
      std::ranges::find(consumed_, offset, &std::pair<std::uint64_t, std::size_t>::first);
  return found == consumed_.end() ? 0 : found->second;
}

void MessageCollector::consume(const MessageWindow& window, std::size_t end) {
  for (std::size_t i = 0; i < window.lines.size(); ++i) {
    const MessageWindow::Line& line = window.lines[i];
    if (line.start >= end) break;
    if (line.start < window.hit_start) continue;
    const bool is_last = i + 1 == window.lines.size() || window.lines[i + 1].start >= end;
    // A line in the middle was used whole. The window holds it without its prefix, so an offset in
    // its last line is a lower end, which is enough: a message has no phrase behind its middle.
    consumed_.emplace_front(line.offset, is_last ? end - line.start : window.text.size());
  }
  // Lines come in order, so marks far behind are never asked for again.
  constexpr std::size_t kMaxMarks = 100;
  while (consumed_.size() > kMaxMarks)
    consumed_.pop_back();
}

void MessageCollector::keep(Message message) {
  const std::uint64_t number = first_.size() + dropped_count_ + last_.size();
  const std::string key = key_of(message);
  const auto [place, is_new] = known_.try_emplace(key, number);
  if (!is_new) {
    const std::uint64_t known = place->second;
    const bool is_first = known < first_.size();
    Kept& kept = is_first ? first_[known] : last_[known - first_.size() - dropped_count_];
    ++kept.message.count;
    return;
  }
  if (first_.size() < kKeptAtEachEnd) {
    first_.push_back({key, std::move(message)});
    return;
  }
  last_.push_back({key, std::move(message)});
  if (last_.size() <= kKeptAtEachEnd) return;
  known_.erase(last_.front().key);
  last_.pop_front();
  ++dropped_count_;
}

std::vector<Message> MessageCollector::take_messages() {
  std::vector<Message> messages;
  messages.reserve(first_.size() + last_.size());
  for (Kept& kept : first_)
    messages.push_back(std::move(kept.message));
  for (Kept& kept : last_)
    messages.push_back(std::move(kept.message));
  return messages;
}

Result<std::vector<Message>> read_messages(const std::string& path) {
  MessageCollector collector;
  return logtext::read_log(
             path, message_scanner(), [&](const logtext::LineHit& hit) { collector.add(hit); })
      .map([&](const logtext::LogTotals&) { return collector.take_messages(); });
}

std::vector<Message> find_messages(std::string_view text) {
  MessageCollector collector;
  logtext::read_text(
      text, message_scanner(), [&](const logtext::LineHit& hit) { collector.add(hit); });
  return collector.take_messages();
}

}  // namespace fragscope::explain
