// SPDX-License-Identifier: Apache-2.0
#include "analyzer/logtext/log_line.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace fragscope::logtext {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

// --- Cleaning. -----------------------------------------------------------------------------------

/// Length of what introduces a terminal code at `text`: the escape byte, or its spelling.
std::size_t escape_length(std::string_view text) {
  static constexpr std::array<std::string_view, 6> kSpellings = {
      "\x1b", "\\x1b", "\\u001b", "\\033", "\\e", "\\x1B"};
  for (const std::string_view spelling : kSpellings) {
    if (text.starts_with(spelling)) return spelling.size();
  }
  return 0;
}

/// Length of a whole terminal code ("ESC [ 1 ; 31 m") at `text`, 0 if there is none.
std::size_t code_length(std::string_view text) {
  std::size_t at = escape_length(text);
  if (at == 0) return 0;
  if (at >= text.size() || text[at] != '[') return text[0] == '\x1b' ? at : 0;
  ++at;
  while (at < text.size() && (is_digit(text[at]) || text[at] == ';' || text[at] == '?'))
    ++at;
  return at < text.size() && is_letter(text[at]) ? at + 1 : at;
}

/// What a two-character escape stands for, 0 if it is none.
char unescaped(char c) {
  switch (c) {
    case 'n':
      return '\n';
    case 't':
    case 'r':
      return ' ';
    case '"':
    case '\'':
      return c;
    default:
      return '\0';
  }
}

// --- Prefixes. -----------------------------------------------------------------------------------

/// Reads a prefix piece by piece; every `pass_` moves on only if its piece is there.
class PrefixReader {
 public:
  explicit PrefixReader(LogLine& line)
      : line_(line)
      , rest_(line.text) {}

  void run() {
    // A prefix has a handful of pieces; a line that goes on and on with them is a message.
    constexpr int kMaxPieces = 12;
    for (int piece = 0; piece < kMaxPieces; ++piece) {
      skip_blanks();
      if (!pass_process() && !pass_rank() && !pass_container() && !pass_time() && !pass_level() &&
          !pass_source() && !pass_mark()) {
        break;
      }
    }
    line_.message = rest_;
  }

 private:
  void skip_blanks() {
    while (!rest_.empty() && is_blank(rest_.front()))
      rest_.remove_prefix(1);
  }

  void name_process(std::string_view process) {
    if (line_.process.empty()) line_.process = process;
  }

  /// "(EngineCore_0 pid=123)", "(RayWorkerWrapper pid=7, ip=10.0.0.1)".
  bool pass_process() {
    if (!rest_.starts_with('(')) return false;
    const auto close = rest_.find(')');
    constexpr std::size_t kLongest = 120;
    if (close == std::string_view::npos || close > kLongest) return false;
    const std::string_view inside = rest_.substr(1, close - 1);
    if (inside.find("pid=") == std::string_view::npos) return false;
    name_process(inside);
    rest_.remove_prefix(close + 1);
    return true;
  }

  /// "[rank0]:", "[rank 3]", "rank1:", "[default0]:", "[0]:".
  bool pass_rank() {
    const bool bracketed = rest_.starts_with('[');
    const std::size_t start = bracketed ? 1 : 0;
    std::size_t at = start;
    while (at < rest_.size() && is_letter(rest_[at]))
      ++at;
    const std::string_view word = rest_.substr(start, at - start);
    if (word != "rank" && word != "Rank" && word != "RANK" && word != "default" &&
        !(word.empty() && bracketed)) {
      return false;
    }
    if (at < rest_.size() && rest_[at] == ' ' && !word.empty()) ++at;
    const std::size_t digits = at;
    while (at < rest_.size() && is_digit(rest_[at]))
      ++at;
    if (at == digits || at - digits > 5) return false;
    const std::size_t end = at;
    if (bracketed && (at >= rest_.size() || rest_[at++] != ']')) return false;
    const bool colon = at < rest_.size() && rest_[at] == ':';
    if (!colon && (!bracketed || word.empty())) return false;
    name_process(rest_.substr(start, end - start));
    rest_.remove_prefix(colon ? at + 1 : at);
    return true;
  }

  /// "server-1  | " of docker compose, "pod/name container | ".
  bool pass_container() {
    constexpr std::size_t kLongest = 64;
    std::size_t at = 0;
    while (at < rest_.size() && at < kLongest &&
           (is_letter(rest_[at]) || is_digit(rest_[at]) || rest_[at] == '-' || rest_[at] == '_' ||
            rest_[at] == '.' || rest_[at] == '/')) {
      ++at;
    }
    const std::size_t end = at;
    if (end == 0) return false;
    while (at < rest_.size() && rest_[at] == ' ')
      ++at;
    if (at + 1 >= rest_.size() || rest_[at] != '|' || rest_[at + 1] != ' ') return false;
    name_process(rest_.substr(0, end));
    rest_.remove_prefix(at + 2);
    return true;
  }

  /// Reads `count` digits at `at`; -1 if they are not there.
  [[nodiscard]] int digits(std::size_t& at, std::size_t count) const {
    if (at + count > rest_.size()) return -1;
    int value = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const char c = rest_[at + i];
      if (!is_digit(c)) return -1;
      value = value * 10 + (c - '0');
    }
    at += count;
    return value;
  }

  [[nodiscard]] bool at_char(std::size_t at, std::string_view allowed) const {
    return at < rest_.size() && allowed.find(rest_[at]) != std::string_view::npos;
  }

  /// "2025-01-31 " or "01-31 ", also with slashes; days since the epoch, or none without a year.
  bool read_date(std::size_t& at, std::optional<std::int64_t>& days) const {
    std::size_t probe = at;
    int year = digits(probe, 4);
    if (year < 0 || !at_char(probe, "-/")) {
      year = -1;
      probe = at;
    } else {
      ++probe;
    }
    const int month = digits(probe, 2);
    if (month < 1 || month > 12 || !at_char(probe, "-/")) return false;
    ++probe;
    const int day = digits(probe, 2);
    if (day < 1 || day > 31 || !at_char(probe, " T")) return false;
    ++probe;
    if (year >= 0) days = days_since_epoch(year, month, day);
    at = probe;
    return true;
  }

  /// Days from 1970-01-01; the usual civil-calendar arithmetic, with March as the first month.
  static std::int64_t days_since_epoch(int year, int month, int day) {
    const std::int64_t y = month <= 2 ? year - 1 : year;
    const std::int64_t era = y / 400;
    const std::int64_t year_of_era = y - era * 400;
    const std::int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    const std::int64_t day_of_era =
        year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return era * 146097 + day_of_era - 719468;
  }

  bool pass_time() {
    std::size_t at = rest_.starts_with('[') ? 1 : 0;
    std::optional<std::int64_t> days;
    static_cast<void>(read_date(at, days));
    const int hour = digits(at, 2);
    if (hour < 0 || hour > 23 || !at_char(at, ":")) return false;
    ++at;
    const int minute = digits(at, 2);
    if (minute < 0 || minute > 59 || !at_char(at, ":")) return false;
    ++at;
    const int second = digits(at, 2);
    if (second < 0 || second > 60) return false;
    std::int64_t millis = 0;
    if (at_char(at, ".,")) {
      std::size_t probe = at + 1;
      std::int64_t scale = 100;
      while (probe < rest_.size() && is_digit(rest_[probe])) {
        millis += (rest_[probe] - '0') * scale;
        scale /= 10;
        ++probe;
      }
      at = probe;
    }
    if (!line_.time_ms) {
      line_.time_ms = days.value_or(0) * 86'400'000 +
                      ((std::int64_t{hour} * 60 + minute) * 60 + second) * 1000 + millis;
    }
    // What follows directly belongs to the stamp: "Z", "+00:00", "]", ",", a rank in a header.
    while (at < rest_.size() && at_char(at, "Z]:,-"))
      ++at;
    rest_.remove_prefix(at);
    return true;
  }

  bool pass_level() {
    static constexpr std::array<std::string_view, 9> kLevels = {
        "INFO", "WARNING", "WARN", "ERROR", "CRITICAL", "DEBUG", "FATAL", "TRACE", "NOTICE"};
    const std::size_t start = rest_.starts_with('[') ? 1 : 0;
    for (const std::string_view level : kLevels) {
      if (!rest_.substr(start).starts_with(level)) continue;
      std::size_t at = start + level.size();
      if (at < rest_.size() && (is_letter(rest_[at]) || is_digit(rest_[at]))) continue;
      while (at < rest_.size() && at_char(at, "]:|"))
        ++at;
      rest_.remove_prefix(at);
      return true;
    }
    return false;
  }

  /// "[gpu_worker.py:298]", "core.py:66]", "[loader.cc:12]".
  bool pass_source() {
    const std::size_t start = rest_.starts_with('[') ? 1 : 0;
    std::size_t at = start;
    constexpr std::size_t kLongest = 80;
    while (at < rest_.size() && at < kLongest &&
           (is_letter(rest_[at]) || is_digit(rest_[at]) || at_char(at, "_./-<>"))) {
      ++at;
    }
    if (at == start || !at_char(at, ":")) return false;
    const std::size_t digits_at = ++at;
    while (at < rest_.size() && is_digit(rest_[at]))
      ++at;
    if (at == digits_at || !at_char(at, "]")) return false;
    rest_.remove_prefix(at + 1);
    return true;
  }

  /// "> " of a quotation, "- " and "| " of loggers, a count of uniq or grep.
  bool pass_mark() {
    if (rest_.size() >= 2 && at_char(0, ">|-") && rest_[1] == ' ') {
      rest_.remove_prefix(2);
      return true;
    }
    std::size_t at = 0;
    while (at < rest_.size() && is_digit(rest_[at]))
      ++at;
    if (at == 0 || at > 7 || at >= rest_.size()) return false;
    const bool is_count = rest_[at] == ' ' && at + 1 < rest_.size() && rest_[at + 1] == '[';
    if (!is_count && rest_[at] != ':') return false;
    rest_.remove_prefix(at + 1);
    return true;
  }

  LogLine& line_;
  std::string_view rest_;
};

}  // namespace

std::string clean_text(std::string_view raw) {
  std::string text;
  text.reserve(raw.size());
  for (std::size_t at = 0; at < raw.size();) {
    const char c = raw[at];
    if (c == '\x1b' || c == '\\') {
      if (const std::size_t length = code_length(raw.substr(at)); length > 0) {
        at += length;
        continue;
      }
    }
    if (c == '\\' && at + 1 < raw.size()) {
      if (const char plain = unescaped(raw[at + 1]); plain != '\0') {
        text += plain;
        at += 2;
        continue;
      }
    }
    const bool control = static_cast<unsigned char>(c) < 32 && c != '\n';
    text += control || c == 127 ? ' ' : c;
    ++at;
  }
  return text;
}

LogLine read_line(std::string_view text, std::uint64_t number) {
  LogLine line;
  line.number = number;
  line.text = text;
  PrefixReader(line).run();
  return line;
}

}  // namespace fragscope::logtext
