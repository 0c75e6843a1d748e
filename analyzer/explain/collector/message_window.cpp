// SPDX-License-Identifier: Apache-2.0
#include "analyzer/explain/collector/message_window.hpp"

#include "analyzer/logtext/clean_text.hpp"
#include "analyzer/logtext/log_line.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

namespace fragscope::explain {
namespace {

// A message is at most some two thousand bytes and, broken at 80 columns, some thirty lines long.
constexpr std::size_t kWindowBytes = 6000;
constexpr std::size_t kWindowLines = 40;

/// What two lines begin with alike, up to the last mark that ends a prefix: "worker-0: ",
/// "[pod/a/main] ", "trainer - ERROR - ". Empty if there is no such mark.
std::size_t shared_prefix(std::string_view a, std::string_view b) {
  constexpr std::size_t kLongest = 120;
  a = a.substr(0, kLongest);
  const auto same = std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin();
  // A mark alone is no prefix: messages have some of their own at the start of a line.
  for (std::size_t end = static_cast<std::size_t>(same); end > 2; --end) {
    const char mark = a[end - 2];
    const bool is_spaced = a[end - 1] == ' ' && (mark == ':' || mark == ']' || mark == '|' ||
                                                 mark == '>' || (mark == '-' && a[end - 3] == ' '));
    if (is_spaced || (mark == '>' && a[end - 1] == ':')) return end;
  }
  return 0;
}

/// A line of the log, cleaned and taken apart. It stays where it is: `line` has views of `text`.
struct CleanLine {
  CleanLine(std::string_view raw, std::uint64_t number)
      : text(logtext::clean_text(raw))
      , line(logtext::read_line(text, number)) {}
  CleanLine(const CleanLine&) = delete;
  CleanLine& operator=(const CleanLine&) = delete;
  ~CleanLine() = default;

  std::string text;
  logtext::LogLine line;
};

/// Puts a window together.
class Windower {
 public:
  Windower(const logtext::LineHit& hit, Writer writer)
      : hit_(hit)
      , hit_line_(hit.line, hit.number)
      , writer_(writer) {
    window_.process = std::string(hit_line_.line.process);
    window_.time = std::string(hit_line_.line.time_text);
  }

  [[nodiscard]] MessageWindow run(HitPrefix prefix) {
    const std::size_t repeated = add_line_before();
    const std::string_view without = hit_line_.line.message.substr(repeated);
    window_.has_prefix = without.size() < hit_line_.text.size();
    const std::string_view text = prefix == HitPrefix::kKept ? hit_line_.text : without;
    window_.hit_start = window_.text.size();
    add_line(text, hit_.offset, hit_.number);
    window_.hit_end = window_.text.size();
    add_lines_behind();
    return std::move(window_);
  }

 private:
  void add_line(std::string_view text, std::uint64_t offset, std::uint64_t number) {
    window_.lines.push_back({window_.text.size(), offset, number});
    window_.text += text;
  }

  [[nodiscard]] bool is_same_writer(const logtext::LogLine& line) const {
    if (line.process.empty()) return writer_ == Writer::kSameOrUnnamed || window_.process.empty();
    return line.process == window_.process;
  }

  /// Gives the length of the prefix that the hit's line repeats, behind the one that is understood.
  std::size_t add_line_before() {
    std::string_view before = hit_.before;
    if (!before.ends_with('\n')) return 0;
    before.remove_suffix(1);
    before = before.substr(before.rfind('\n') + 1);
    const CleanLine line(before, hit_.number - 1);
    if (!is_same_writer(line.line)) return 0;
    add_line(line.text, hit_.offset - before.size() - 1, hit_.number - 1);
    window_.text += '\n';
    return shared_prefix(line.line.message, hit_line_.line.message);
  }

  void add_lines_behind() {
    std::string_view rest = hit_.rest;
    std::uint64_t offset = hit_.offset + hit_.line.size();
    std::uint64_t number = hit_.number;
    for (std::size_t lines = 0; lines < kWindowLines && !rest.empty(); ++lines) {
      if (window_.text.size() > window_.hit_end + kWindowBytes) break;
      // The rest of an overlong line goes on without a break.
      const std::size_t start = rest.front() == '\n' ? 1 : 0;
      number += start;
      const std::size_t end = std::min(rest.find('\n', start), start + kWindowBytes);
      add_line_behind(rest.substr(start, end - start), offset + start, number, start == 1);
      offset += std::min(end, rest.size());
      rest.remove_prefix(std::min(end, rest.size()));
    }
  }

  void add_line_behind(std::string_view raw,
                       std::uint64_t offset,
                       std::uint64_t number,
                       bool is_line_start) {
    if (!is_line_start) return add_line(logtext::clean_text(raw), offset, number);
    const CleanLine line(raw, number);
    if (!is_same_writer(line.line)) return;
    const std::size_t repeated = shared_prefix(hit_line_.line.message, line.line.message);
    window_.text += '\n';
    add_line(line.line.message.substr(repeated), offset, number);
  }

  const logtext::LineHit& hit_;
  CleanLine hit_line_;
  Writer writer_;
  MessageWindow window_;
};

}  // namespace

MessageWindow window_of(const logtext::LineHit& hit, Writer writer, HitPrefix prefix) {
  return Windower(hit, writer).run(prefix);
}

}  // namespace fragscope::explain
