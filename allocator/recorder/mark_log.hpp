// SPDX-License-Identifier: Apache-2.0
// What a program says of itself, by a mark of its own or by an annotation of PyTorch's, and when:
// the last of it. Rings take it from here, each in its own time: one that is made later begins with
// what was said before, and one whose allocator is not ours takes it with its next event.
#pragma once

#include "trace/format/header.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace fragscope::recorder {

enum class MarkKind : std::uint8_t { kPoint = 0, kBegin = 1, kEnd = 2 };
/// Who said it; the numbers of `trace::RecordKind::kMark`.
enum class MarkSource : std::uint8_t { kProgram = 0, kAnnotation = 1 };

struct SaidMark {
  std::string text;
  MarkKind kind = MarkKind::kPoint;
  MarkSource source = MarkSource::kProgram;
  std::uint32_t thread = 0;        ///< The operating system's id.
  std::uint64_t ticks = 0;         ///< 0: not known yet,
  std::uint64_t monotonic_ns = 0;  ///< but this.
};

/// Thread-safe; nothing throws but std::bad_alloc. A forked child begins with an empty one: what
/// its parent said is in the parent's rings.
class MarkLog {
 public:
  /// How many are kept.
  static constexpr std::uint64_t kMost = 256;
  /// Longer texts are cut.
  static constexpr std::size_t kMostBytes = 255;

  /// Never destroyed.
  [[nodiscard]] static MarkLog& of_process();

  MarkLog();
  MarkLog(const MarkLog&) = delete;
  MarkLog& operator=(const MarkLog&) = delete;
  ~MarkLog() = default;

  /// By the calling thread, now. Where much waits for its rings already, an annotation that begins
  /// and ends with nothing between is forgotten: a program may have any number of those.
  void say(std::string_view text, MarkKind kind, MarkSource source);
  /// From before this log: when, by CLOCK_MONOTONIC, and by which thread.
  void say_earlier(std::string_view text,
                   MarkKind kind,
                   std::uint64_t monotonic_ns,
                   std::uint32_t thread);

  /// How many were said: what a ring that has taken all is at. May fall by what was forgotten, but
  /// never below what a ring has taken.
  [[nodiscard]] std::uint64_t said() const { return said_.load(std::memory_order_acquire); }
  /// Visits the marks from number `from` on, as far as they are kept; gives `said`.
  [[nodiscard]] std::uint64_t take(std::uint64_t from,
                                   const std::function<void(const SaidMark&)>& visit);

 private:
  void add(std::string_view text, SaidMark mark);
  /// Forgets what this would be the end of.
  [[nodiscard]] bool forget_begin_of(std::string_view text, const SaidMark& end);
  [[nodiscard]] SaidMark& at(std::uint64_t number) { return marks_[number % kMost]; }
  [[nodiscard]] std::uint64_t ticks_at(std::uint64_t monotonic_ns,
                                       const trace::ClockAnchor& now) const;

  trace::ClockKind clock_;
  trace::ClockAnchor start_;
  std::uint32_t pid_;
  std::atomic<std::uint64_t> said_ = 0;
  std::mutex mutex_;                       // of what follows, and of changing what is above
  std::uint64_t taken_ = 0;                // by the ring that took most
  std::optional<trace::ClockAnchor> now_;  // when the first of the earlier ones was taken
  std::array<SaidMark, kMost> marks_;
};

/// The system's id of this thread in the process `pid`; asked for once in each thread. A forked
/// child has what its parent knew.
[[nodiscard]] std::uint32_t thread_id(std::uint32_t pid);

}  // namespace fragscope::recorder
