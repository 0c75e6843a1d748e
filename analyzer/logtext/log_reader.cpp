// SPDX-License-Identifier: Apache-2.0
#include "analyzer/logtext/log_reader.hpp"

#include "analyzer/ingest/byte_source.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include <sys/stat.h>

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

  /// Hands over the lines whose phrases begin in text[from, until).
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
    newlines_ += count_lines(text.substr(counted, until - counted));
  }

  /// The text moved: what was at `by` is now at 0.
  void shift(std::size_t by) { handed_until_ -= std::min(handed_until_, by); }

  [[nodiscard]] std::uint64_t lines() const { return newlines_; }

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
    const std::size_t behind = std::min(text.size(), end + 1);
    const std::size_t front = start - std::min(start, kBeforeBytes);
    std::uint32_t groups = 0;
    for (std::size_t i = first; i < places_.size() && places_[i].first < end; ++i) {
      groups |= 1U << places_[i].second;
    }
    use_({newlines_ + 1,
          groups,
          text.substr(start, end - start),
          text.substr(front, start - front),
          text.substr(behind, kBehindBytes / 2)});
    handed_until_ = end;
  }

  const PhraseScanner& scanner_;
  const std::function<void(const LineHit&)>& use_;
  std::vector<std::pair<std::size_t, std::uint32_t>> places_;  // where, and of which group
  std::uint64_t newlines_ = 0;
  std::size_t handed_until_ = 0;  // everything in front of it was handed over
};

Result<LogTotals> stream_log(int descriptor,
                             std::uint64_t total_bytes,
                             HitFinder& finder,
                             const ingest::ProgressFn& progress) {
  LogTotals totals;
  std::vector<char> buffer(kChunkBytes + 3 * kBehindBytes);
  std::size_t filled = 0;
  std::size_t scanned = 0;
  bool at_end = false;
  while (!at_end) {
    const ssize_t got = ::read(descriptor, buffer.data() + filled, buffer.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ingest::system_failure("cannot be read");
    at_end = got == 0;
    filled += static_cast<std::size_t>(got);
    totals.bytes += static_cast<std::uint64_t>(got);
    if (progress) progress(totals.bytes, std::max(totals.bytes, total_bytes));
    // Wait for a full buffer, unless the log ends: a pipe gives it in small pieces.
    if (!at_end && filled < buffer.size()) continue;
    const std::size_t until = at_end ? filled : filled - kBehindBytes;
    finder.find({buffer.data(), filled}, scanned, until);
    const std::size_t keep_from = until - std::min(until, kBehindBytes);
    std::memmove(buffer.data(), buffer.data() + keep_from, filled - keep_from);
    finder.shift(keep_from);
    filled -= keep_from;
    scanned = until - keep_from;
  }
  totals.lines = finder.lines();
  return totals;
}

bool is_compressed(int descriptor) {
  unsigned char magic[4] = {};
  if (::pread(descriptor, magic, sizeof magic, 0) != sizeof magic) return false;
  const bool gzip = magic[0] == 0x1f && magic[1] == 0x8b;
  const bool zstd = magic[0] == 0x28 && magic[1] == 0xb5 && magic[2] == 0x2f && magic[3] == 0xfd;
  return gzip || zstd;
}

}  // namespace

Result<LogTotals> read_log(const std::string& path,
                           const PhraseScanner& scanner,
                           const std::function<void(const LineHit&)>& use,
                           const ingest::ProgressFn& progress) {
  HitFinder finder(scanner, use);
  if (path == "-") return stream_log(STDIN_FILENO, 0, finder, progress);
  const ingest::Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.number() < 0) return ingest::system_failure("cannot be opened");
  struct stat status {};
  if (::fstat(file.number(), &status) != 0) return ingest::system_failure("cannot be examined");
  if (S_ISDIR(status.st_mode)) {
    return failure(ErrorCode::kUnreadable, "is a directory; expected a log");
  }
  if (!is_compressed(file.number())) {
    ::posix_fadvise(file.number(), 0, 0, POSIX_FADV_SEQUENTIAL);
    return stream_log(file.number(), static_cast<std::uint64_t>(status.st_size), finder, progress);
  }
  const Result<ingest::ByteSource> source = ingest::ByteSource::open(path);
  if (!source) return tl::unexpected<Error>(source.error());
  const auto bytes = source->bytes();
  return read_text({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, scanner, use);
}

LogTotals read_text(std::string_view text,
                    const PhraseScanner& scanner,
                    const std::function<void(const LineHit&)>& use) {
  HitFinder finder(scanner, use);
  finder.find(text, 0, text.size());
  return {text.size(), finder.lines()};
}

}  // namespace fragscope::logtext
