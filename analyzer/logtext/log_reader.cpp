// SPDX-License-Identifier: Apache-2.0
#include "analyzer/logtext/log_reader.hpp"

#include "analyzer/logtext/byte_reader.hpp"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

namespace fragscope::logtext {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{4} << 20;
/// What is kept in front of a hit, so that its line has a start, and behind it.
constexpr std::size_t kBehindBytes = std::size_t{64} << 10;
constexpr std::size_t kBeforeBytes = 512;
/// Of a line longer than this only the surroundings of a phrase are handed over.
constexpr std::size_t kLongestLine = std::size_t{16} << 10;

/// Finds the hits in a piece of text that moves along the log.
class HitFinder {
 public:
  HitFinder(const PhraseScanner& scanner, const std::function<void(const LineHit&)>& use)
      : scanner_(scanner)
      , use_(use) {}

  /// Hands over the lines whose phrases begin in text[from, until). A line should not be divided
  /// between two calls: each sees only its own phrases.
  void find(std::string_view text, std::size_t from, std::size_t until) {
    places_.clear();
    scanner_.scan(text, from, until, [this](std::size_t place, std::uint32_t group) {
      places_.emplace_back(place, group);
    });
    std::ranges::sort(places_);
    std::size_t counted = from;
    for (std::size_t i = 0; i < places_.size(); ++i) {
      // A phrase that begins with a line break is in the line that follows.
      const std::size_t place = places_[i].first + (text[places_[i].first] == '\n' ? 1 : 0);
      if (place < handed_until_) continue;
      newlines_ += count_lines(text.substr(counted, place - counted));
      counted = place;
      hand_over(text, place, i);
    }
    newlines_ += count_lines(text.substr(counted, until - std::min(counted, until)));
  }

  /// The text moved: what was at `by` is now at 0.
  void shift(std::size_t by) {
    handed_until_ -= std::min(handed_until_, by);
    base_ += by;
  }

  [[nodiscard]] std::uint64_t newlines() const { return newlines_; }

 private:
  static std::uint64_t count_lines(std::string_view text) {
    return static_cast<std::uint64_t>(std::count(text.begin(), text.end(), '\n'));
  }

  /// Hands over the line around `place`, which is that of places_[first].
  void hand_over(std::string_view text, std::size_t place, std::size_t first) {
    const std::size_t reach = place - std::min(place, kLongestLine / 2);
    const auto line_end_before = text.substr(reach, place - reach).rfind('\n');
    const std::size_t start =
        std::max(line_end_before == std::string_view::npos ? reach : reach + line_end_before + 1,
                 std::min(handed_until_, place));
    const std::size_t end =
        std::min(text.find('\n', place), std::min(text.size(), start + kLongestLine));
    const std::size_t front = start - std::min(start, kBeforeBytes);
    std::uint32_t groups = 0;
    for (std::size_t i = first; i < places_.size() && places_[i].first < end; ++i)
      groups |= 1U << places_[i].second;
    use_({newlines_ + 1,
          base_ + start,
          groups,
          text.substr(start, end - start),
          text.substr(front, start - front),
          text.substr(end, kBehindBytes / 2)});
    handed_until_ = end;
  }

  const PhraseScanner& scanner_;
  const std::function<void(const LineHit&)>& use_;
  std::vector<std::pair<std::size_t, std::uint32_t>> places_;  // where, and of which group
  std::uint64_t newlines_ = 0;
  std::uint64_t base_ = 0;        // of the text in the log
  std::size_t handed_until_ = 0;  // everything in front of it was handed over
};

/// Where to stop in text[from, ...), at most at `limit`: in front of a line break, since a phrase
/// may begin with one; at `limit` where there is none.
std::size_t line_end_before(std::string_view text, std::size_t from, std::size_t limit) {
  const std::size_t last = text.substr(0, limit).rfind('\n');
  return last == std::string_view::npos || last <= from ? limit : last;
}

Result<LogTotals> stream_log(LogBytes& log, HitFinder& finder, const ingest::ProgressFn& progress) {
  LogTotals totals;
  totals.encoding = log.encoding;
  std::vector<char> buffer(kChunkBytes + 3 * kBehindBytes);
  std::size_t filled = 0;
  std::size_t scanned = 0;
  bool ends_within_line = false;
  bool at_end = false;
  while (!at_end) {
    const auto got = log.reader->read(std::span(buffer).subspan(filled));
    if (!got) return tl::unexpected<Error>(got.error());
    at_end = *got == 0;
    filled += *got;
    totals.bytes += *got;
    if (!at_end) ends_within_line = buffer[filled - 1] != '\n';
    if (progress) progress(*log.stored_read, std::max(*log.stored_read, log.stored_total));
    // Wait for a full buffer, unless the log ends: a pipe gives it in small pieces.
    if (!at_end && filled < buffer.size()) continue;
    const std::string_view text(buffer.data(), filled);
    const std::size_t until =
        at_end ? filled : line_end_before(text, scanned, filled - kBehindBytes);
    finder.find(text, scanned, until);
    const std::size_t keep_from = until - std::min(until, kBehindBytes);
    std::memmove(buffer.data(), buffer.data() + keep_from, filled - keep_from);
    finder.shift(keep_from);
    filled -= keep_from;
    scanned = until - keep_from;
  }
  totals.lines = finder.newlines() + (ends_within_line ? 1 : 0);
  return totals;
}

}  // namespace

Result<LogTotals> read_log(const std::string& path,
                           const PhraseScanner& scanner,
                           const std::function<void(const LineHit&)>& use,
                           const ingest::ProgressFn& progress) {
  HitFinder finder(scanner, use);
  return open_log(path).and_then([&](LogBytes log) { return stream_log(log, finder, progress); });
}

LogTotals read_text(std::string_view text,
                    const PhraseScanner& scanner,
                    const std::function<void(const LineHit&)>& use) {
  HitFinder finder(scanner, use);
  finder.find(text, 0, text.size());
  LogTotals totals;
  totals.bytes = text.size();
  totals.lines = finder.newlines() + (text.empty() || text.ends_with('\n') ? 0 : 1);
  return totals;
}

}  // namespace fragscope::logtext
