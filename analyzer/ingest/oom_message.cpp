// SPDX-License-Identifier: Apache-2.0
#include "analyzer/ingest/oom_message.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace fragscope::ingest {
namespace {

using model::Bounds;

constexpr std::string_view kMessage = "out of memory. Tried to allocate ";
constexpr std::string_view kMapping = "memory mapping failed with OOM on device ";
constexpr std::string_view kAllocation = "memory allocation failed with OOM on device ";

/// Reads words and figures; any run of blanks and line breaks equals one blank.
class TextCursor {
 public:
  TextCursor(std::string_view text, std::size_t at)
      : text_(text)
      , at_(at) {}

  /// Passes `words` if they come next.
  bool pass(std::string_view words) {
    std::size_t at = at_;
    for (const char expected : words) {
      if (expected == ' ') {
        if (at == text_.size() || !is_blank(text_[at])) return false;
        while (at < text_.size() && is_blank(text_[at]))
          ++at;
      } else {
        if (at == text_.size() || text_[at] != expected) return false;
        ++at;
      }
    }
    at_ = at;
    return true;
  }

  template <class Number>
  [[nodiscard]] std::optional<Number> number() {
    Number value{};
    const char* end = text_.data() + text_.size();
    const auto parsed = std::from_chars(text_.data() + at_, end, value);
    if (parsed.ec != std::errc{}) return std::nullopt;
    at_ = static_cast<std::size_t>(parsed.ptr - text_.data());
    return value;
  }

  /// "4.94 GiB" as the interval that prints so, "512 bytes" exactly.
  [[nodiscard]] std::optional<Bounds> size() {
    struct Unit {
      std::string_view name;
      int power;
    };
    static constexpr std::array<Unit, 4> kUnits = {
        {{" bytes", 0}, {" KiB", 10}, {" MiB", 20}, {" GiB", 30}}};
    const auto value = number<double>();
    if (!value || !std::isfinite(*value) || *value < 0) return std::nullopt;
    for (const Unit& unit : kUnits) {
      if (!pass(unit.name)) continue;
      const double half = unit.power == 0 ? 0 : 0.005;
      const double low = std::ldexp(std::max(*value - half, 0.0), unit.power);
      const double high = std::ldexp(*value + half, unit.power);
      if (!(high < 9.2e18)) return Bounds{0, policy::kUnlimited};  // "not available", printed
      return Bounds{static_cast<std::uint64_t>(std::ceil(low)),
                    static_cast<std::uint64_t>(std::floor(high))};
    }
    return std::nullopt;
  }

 private:
  static bool is_blank(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

  std::string_view text_;
  std::size_t at_;
};

bool is_sentinel(const Bounds& bounds) {
  return bounds.high == policy::kUnlimited;
}

std::optional<OomMessage> read_message(TextCursor cursor) {
  OomMessage message;
  message.request = cursor.size();
  if (!message.request || !cursor.pass(". GPU ")) return std::nullopt;
  const auto device = cursor.number<std::int32_t>();
  if (!device) return std::nullopt;
  message.device = *device;
  // PyTorch 2.1 misspelt the word.
  if (!cursor.pass(" has a total capacity of ") && !cursor.pass(" has a total capacty of ")) {
    return std::nullopt;
  }
  const auto total = cursor.size();
  if (!total || !cursor.pass(" of which ")) return std::nullopt;
  const auto free = cursor.size();
  if (!free || !cursor.pass(" is free.")) return std::nullopt;
  message.total = *total;
  message.free = *free;
  while (true) {
    const bool own = cursor.pass(" Including non-PyTorch memory, this process has ");
    if (!own) {
      if (!cursor.pass(" Process ")) break;
      if (!cursor.number<std::int64_t>() || !cursor.pass(" has ")) break;
    }
    const auto used = cursor.size();
    if (!used || !cursor.pass(" memory in use.")) break;
    if (own && !is_sentinel(*used)) message.process = used;
  }
  if (cursor.pass(" ")) {
    const auto limit = cursor.size();
    if (limit && cursor.pass(" allowed;") && !is_sentinel(*limit)) message.limit = limit;
  }
  return message;
}

// "<device> while trying to map|allocate N bytes (free: N, total: N)": exact numbers.
std::optional<OomMessage> read_exact_line(TextCursor cursor, bool is_mapping) {
  OomMessage message;
  const auto device = cursor.number<std::int32_t>();
  if (!device || !cursor.pass(" while trying to ") ||
      !cursor.pass(is_mapping ? "map " : "allocate ")) {
    return std::nullopt;
  }
  const auto asked = cursor.number<std::uint64_t>();
  if (!asked || !cursor.pass(" bytes (free: ")) return std::nullopt;
  const auto free = cursor.number<std::uint64_t>();
  if (!free || !cursor.pass(", total: ")) return std::nullopt;
  const auto total = cursor.number<std::uint64_t>();
  if (!total) return std::nullopt;
  message.device = *device;
  // A mapping line names the page, not the request.
  if (!is_mapping) message.request = model::exactly(*asked);
  message.free = model::exactly(*free);
  message.total = model::exactly(*total);
  return message;
}

}  // namespace

std::vector<OomMessage> find_oom_messages(std::string_view log) {
  std::vector<OomMessage> messages;
  std::uint64_t line = 1;
  std::size_t counted_to = 0;
  // The words that all three have in common, at different places, are rare in logs.
  for (std::size_t at = log.find("memory"); at != std::string_view::npos;
       at = log.find("memory", at + 1)) {
    std::optional<OomMessage> message;
    const std::size_t start = at - std::min<std::size_t>(at, std::string_view("out of ").size());
    if (TextCursor cursor(log, start); cursor.pass(kMessage)) {
      message = read_message(cursor);
    } else if (TextCursor mapping(log, at); mapping.pass(kMapping)) {
      message = read_exact_line(mapping, true);
    } else if (TextCursor allocation(log, at); allocation.pass(kAllocation)) {
      message = read_exact_line(allocation, false);
    }
    if (!message) continue;
    line +=
        static_cast<std::uint64_t>(std::count(log.begin() + static_cast<std::ptrdiff_t>(counted_to),
                                              log.begin() + static_cast<std::ptrdiff_t>(at),
                                              '\n'));
    counted_to = at;
    message->line = line;
    messages.push_back(*message);
  }
  return messages;
}

}  // namespace fragscope::ingest
