// SPDX-License-Identifier: Apache-2.0
#include "analyzer/logtext/time_stamp.hpp"

#include <algorithm>
#include <array>

namespace fragscope::logtext {
namespace {

constexpr std::int64_t kSecond = 1000;
constexpr std::int64_t kMinute = 60 * kSecond;
constexpr std::int64_t kHour = 60 * kMinute;
constexpr std::int64_t kDay = 24 * kHour;

/// Days from 1970-01-01; the usual civil-calendar arithmetic, with March as the first month.
std::int64_t days_since_epoch(std::int64_t year, std::int64_t month, std::int64_t day) {
  const std::int64_t y = month <= 2 ? year - 1 : year;
  const std::int64_t era = y / 400;
  const std::int64_t year_of_era = y - era * 400;
  const std::int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  const std::int64_t day_of_era =
      year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
  return era * 146097 + day_of_era - 719468;
}

/// Without a year, one with a 29th of February: the distance of two stamps is right across it only
/// in such a year, and wrong by a day in others.
std::int64_t days_in_year(std::int64_t month, std::int64_t day) {
  constexpr std::int64_t kLeapYear = 1972;
  return days_since_epoch(kLeapYear, month, day) - days_since_epoch(kLeapYear, 1, 1);
}

/// A date as milliseconds.
struct Date {
  std::int64_t ms = 0;
  TimeOrigin origin = TimeOrigin::kDay;
};

Date date_of(std::optional<std::int64_t> year, std::int64_t month, std::int64_t day) {
  if (year) return {kDay * days_since_epoch(*year, month, day), TimeOrigin::kEpoch};
  return {kDay * days_in_year(month, day), TimeOrigin::kYear};
}

/// A place in a text. What is asked for is passed if it is there; otherwise the place stays.
class Cursor {
 public:
  explicit Cursor(std::string_view text)
      : text_(text) {}

  [[nodiscard]] std::size_t at() const { return at_; }

  bool pass_any(std::string_view allowed) {
    if (at_ >= text_.size() || allowed.find(text_[at_]) == std::string_view::npos) return false;
    ++at_;
    return true;
  }

  bool pass(std::string_view words) {
    if (!text_.substr(at_).starts_with(words)) return false;
    at_ += words.size();
    return true;
  }

  /// Exactly `count` digits whose value lies in [low, high]; further digits must not follow.
  std::optional<std::int64_t> number(std::size_t count, std::int64_t low, std::int64_t high) {
    if (at_ + count > text_.size()) return std::nullopt;
    std::int64_t value = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (!is_digit(at_ + i)) return std::nullopt;
      value = value * 10 + (text_[at_ + i] - '0');
    }
    if (is_digit(at_ + count) || value < low || value > high) return std::nullopt;
    at_ += count;
    return value;
  }

  /// The digits behind a decimal point, as thousandths.
  std::int64_t thousandths() {
    std::int64_t value = 0;
    for (std::int64_t scale = 100; is_digit(at_); scale /= 10, ++at_)
      value += (text_[at_] - '0') * scale;
    return value;
  }

 private:
  [[nodiscard]] bool is_digit(std::size_t at) const {
    return at < text_.size() && text_[at] >= '0' && text_[at] <= '9';
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

/// "2025-01-31 ", "01-31 ", "01/31/2025-"; the first two also with slashes.
std::optional<Date> pass_date(Cursor& cursor) {
  Cursor probe = cursor;
  auto year = probe.number(4, 1970, 2999);
  if (year && !probe.pass_any("-/")) return std::nullopt;
  const auto month = probe.number(2, 1, 12);
  if (!month || !probe.pass_any("-/")) return std::nullopt;
  const auto day = probe.number(2, 1, 31);
  if (!day) return std::nullopt;
  if (!year && probe.pass("/")) {
    year = probe.number(4, 1970, 2999);
    if (!year || !probe.pass_any("- ")) return std::nullopt;
  } else if (!probe.pass_any("T") && !probe.pass(", ") && !probe.pass(" ")) {
    return std::nullopt;
  }
  cursor = probe;
  return date_of(year, *month, *day);
}

/// "Jan 31 ", "Jan  3 ".
std::optional<Date> pass_syslog_date(Cursor& cursor) {
  static constexpr std::array<std::string_view, 12> kMonths = {
      "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  // Most lines begin with none of these letters.
  Cursor probe = cursor;
  if (!probe.pass_any("JFMASOND")) return std::nullopt;
  probe = cursor;
  const auto named =
      std::ranges::find_if(kMonths, [&probe](std::string_view name) { return probe.pass(name); });
  if (named == kMonths.end() || !probe.pass(" ")) return std::nullopt;
  const bool one_digit = probe.pass(" ");
  const auto day = probe.number(one_digit ? 1 : 2, 1, 31);
  if (!day || !probe.pass(" ")) return std::nullopt;
  cursor = probe;
  return date_of(std::nullopt, named - kMonths.begin() + 1, *day);
}

/// "E0131 ".
std::optional<Date> pass_glog_date(Cursor& cursor) {
  Cursor probe = cursor;
  if (!probe.pass_any("IWEF")) return std::nullopt;
  const auto month_and_day = probe.number(4, 101, 1231);
  if (!month_and_day || !probe.pass(" ")) return std::nullopt;
  cursor = probe;
  return date_of(std::nullopt, *month_and_day / 100, *month_and_day % 100);
}

/// "Z", "+02:00", "-0500" or " UTC".
void pass_zone(Cursor& cursor) {
  if (cursor.pass("Z") || cursor.pass(" UTC")) return;
  Cursor probe = cursor;
  if (!probe.pass_any("+-")) return;
  if (!probe.number(4, 0, 1400)) {
    if (!probe.number(2, 0, 14) || !probe.pass_any(":") || !probe.number(2, 0, 59)) return;
  }
  cursor = probe;
}

/// "10:00:00", with a fraction and a zone.
std::optional<std::int64_t> pass_clock(Cursor& cursor) {
  const auto hour = cursor.number(2, 0, 23);
  if (!hour || !cursor.pass_any(":")) return std::nullopt;
  const auto minute = cursor.number(2, 0, 59);
  if (!minute || !cursor.pass_any(":")) return std::nullopt;
  const auto second = cursor.number(2, 0, 60);
  if (!second) return std::nullopt;
  std::int64_t ms = *hour * kHour + *minute * kMinute + *second * kSecond;
  if (cursor.pass_any(".,")) ms += cursor.thousandths();
  pass_zone(cursor);
  return ms;
}

/// llama.cpp: "12.34.567.890 ", the minutes with as many digits as they need.
std::optional<TimeStamp> read_running_time(std::string_view text) {
  for (std::size_t digits = 1; digits <= 6; ++digits) {
    Cursor cursor(text);
    const auto minutes = cursor.number(digits, 0, 999'999);
    if (!minutes || !cursor.pass(".")) continue;
    const auto seconds = cursor.number(2, 0, 59);
    if (!seconds || !cursor.pass(".")) return std::nullopt;
    const auto ms = cursor.number(3, 0, 999);
    if (!ms || !cursor.pass(".") || !cursor.number(3, 0, 999) || !cursor.pass(" ")) {
      return std::nullopt;
    }
    return TimeStamp{
        *minutes * kMinute + *seconds * kSecond + *ms, TimeOrigin::kProgram, cursor.at() - 1};
  }
  return std::nullopt;
}

}  // namespace

std::optional<TimeStamp> read_time_stamp(std::string_view text) {
  if (const auto running = read_running_time(text)) return running;
  Cursor cursor(text);
  std::optional<Date> date = pass_syslog_date(cursor);
  if (!date) date = pass_glog_date(cursor);
  if (!date) date = pass_date(cursor);
  const auto clock = pass_clock(cursor);
  if (!clock) return std::nullopt;
  const Date day = date.value_or(Date{});
  return TimeStamp{day.ms + *clock, day.origin, cursor.at()};
}

}  // namespace fragscope::logtext
