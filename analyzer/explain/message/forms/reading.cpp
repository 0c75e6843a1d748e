// SPDX-License-Identifier: Apache-2.0
#include "analyzer/explain/message/forms/reading.hpp"

#include "trace/ascii.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace fragscope::explain {
namespace {

/// Words that only the beginning of a message with figures has: where they come up, what follows
/// belongs to it.
constexpr std::array<std::string_view, 7> kBeginnings = {"out of memory. Tried to allocate",
                                                         "out of memory. Allocation was",
                                                         "backend out of memory",
                                                         "would exceed allowed memory",
                                                         "has a total capac",
                                                         " total capacity; ",
                                                         "Free memory on device "};

bool begins_message(std::string_view text, std::size_t at) {
  return std::ranges::any_of(kBeginnings, [&](std::string_view words) {
    return lower(text[at]) == lower(words.front()) && JoinedCursor(text, at).pass(words);
  });
}

}  // namespace

std::optional<Bounds> if_available(std::optional<Bounds> bounds) {
  return bounds && bounds->high != policy::kUnlimited ? bounds : std::nullopt;
}

bool Reading::be(Shape shape, Backend backend) {
  message.shape = shape;
  message.backend = backend;
  return true;
}

bool Reading::cut() {
  message.cut_short = true;
  return true;
}

bool Reading::figure(std::optional<Bounds>& into, std::string_view words) {
  JoinedCursor probe = cursor;
  const auto bounds = probe.size();
  std::string unreadable;
  if (!bounds) unreadable = probe.unreadable_size();
  if ((!bounds && unreadable.empty()) || !probe.pass(words)) return false;
  into = if_available(bounds);
  if (!bounds) message.unreadable.push_back(std::move(unreadable));
  cursor = probe;
  return true;
}

void Reading::request() {
  static_cast<void>(figure(message.figures.request, ""));
}

void Reading::request_in_bytes() {
  JoinedCursor probe = cursor;
  const auto bytes = probe.count();
  if (!bytes || !probe.pass(" bytes")) return;
  message.figures.request = model::exactly(*bytes);
  cursor = probe;
}

void Reading::device() {
  device(cursor);
}

void Reading::device(JoinedCursor& from) {
  if (const auto number = from.count(); number && *number < 4096) {
    message.device = static_cast<std::int32_t>(*number);
  }
}

bool Reading::pass_through(JoinedCursor& from, std::string_view words, std::size_t within) const {
  const std::size_t last = std::min(window.size(), from.at() + within);
  for (std::size_t i = from.at(); i < last; ++i) {
    JoinedCursor probe(window, i);
    if (lower(window[i]) == lower(words.front()) && probe.pass(words)) {
      from = probe;
      return true;
    }
    if (begins_message(window, i)) return false;
  }
  return false;
}

bool Reading::has_message(std::size_t from, std::size_t to) const {
  for (std::size_t i = from; i < to; ++i) {
    if (begins_message(window, i)) return true;
    for (const stages::MemoryWords& words : stages::memory_words()) {
      JoinedCursor probe(window, i);
      if (lower(window[i]) != lower(words.text.front()) || !probe.pass(words.text)) continue;
      if (probe.at() <= to) return true;
    }
  }
  return false;
}

std::optional<JoinedCursor> Reading::behind_last(std::string_view words, std::size_t within) const {
  const std::size_t first = at - std::min(at, within);
  for (std::size_t start = at; start-- > first;) {
    JoinedCursor probe(window, start);
    if (window[start] != words.front() || !probe.pass(words) || probe.at() > at) continue;
    return has_message(probe.at(), at) ? std::nullopt : std::optional(probe);
  }
  return std::nullopt;
}

std::string_view Reading::before(std::size_t length) const {
  const std::size_t start = at - std::min(at, length);
  return window.substr(start, at - start);
}

bool Reading::tells_of_failure(const stages::MemoryWords& words) const {
  return stages::tells_of_failure(words, window, at, cursor.at());
}

}  // namespace fragscope::explain
