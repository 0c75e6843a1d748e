// SPDX-License-Identifier: Apache-2.0
#include "allocator/recorder/mark_log.hpp"

#include "trace/ring/clock.hpp"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <utility>

#include <sys/syscall.h>

namespace fragscope::recorder {
namespace {

/// Marks that no ring has yet, from which on empty annotations are forgotten: with each record of
/// an allocator come at most so many that say nothing about it.
constexpr std::uint64_t kMostEmpty = 8;

/// What fits, without half a character at the end.
std::string_view cut(std::string_view text) {
  if (text.size() <= MarkLog::kMostBytes) return text;
  std::size_t size = MarkLog::kMostBytes;
  const auto continues = [&text](std::size_t at) {
    return (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80;
  };
  while (size > MarkLog::kMostBytes - 4 && continues(size))
    --size;
  return text.substr(0, size);
}

}  // namespace

std::uint32_t thread_id(std::uint32_t pid) {
  static thread_local std::uint32_t known_pid = 0;
  static thread_local std::uint32_t id = 0;
  if (known_pid != pid) {
    id = static_cast<std::uint32_t>(::syscall(SYS_gettid));
    known_pid = pid;
  }
  return id;
}

MarkLog& MarkLog::of_process() {
  static auto* const log = [] {
    // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): never destroyed
    auto* made = new MarkLog();
    // Somebody who is not in the child may be in the middle of it. What it held stays behind.
    pthread_atfork(nullptr, nullptr, [] { std::construct_at(&of_process()); });
    return made;
  }();
  return *log;
}

MarkLog::MarkLog()
    : clock_([] {
      static const trace::ClockKind best = trace::best_clock();
      return best;
    }())
    , start_(trace::anchor_now(clock_))
    , pid_(static_cast<std::uint32_t>(::getpid())) {}

void MarkLog::say(std::string_view text, MarkKind kind, MarkSource source) {
  SaidMark mark;
  mark.kind = kind;
  mark.source = source;
  mark.thread = thread_id(pid_);
  mark.ticks = trace::ticks_now(clock_);
  add(cut(text), std::move(mark));
}

void MarkLog::say_earlier(std::string_view text,
                          MarkKind kind,
                          std::uint64_t monotonic_ns,
                          std::uint32_t thread) {
  SaidMark mark;
  mark.kind = kind;
  mark.thread = thread;
  mark.monotonic_ns = monotonic_ns;
  add(cut(text), std::move(mark));
}

void MarkLog::add(std::string_view text, SaidMark mark) {
  const std::lock_guard lock(mutex_);
  if (forget_begin_of(text, mark)) return;
  const std::uint64_t number = said_.load(std::memory_order_relaxed);
  // What stood there gives its memory.
  mark.text = std::exchange(at(number).text, {});
  mark.text.assign(text);
  at(number) = std::move(mark);
  said_.store(number + 1, std::memory_order_release);
}

bool MarkLog::forget_begin_of(std::string_view text, const SaidMark& end) {
  const std::uint64_t said = said_.load(std::memory_order_relaxed);
  if (end.kind != MarkKind::kEnd || end.source != MarkSource::kAnnotation) return false;
  if (said <= taken_ + kMostEmpty) return false;
  const SaidMark& last = at(said - 1);
  const bool is_its_begin = last.kind == MarkKind::kBegin && last.source == end.source &&
                            last.thread == end.thread && last.text == text;
  if (is_its_begin) said_.store(said - 1, std::memory_order_release);
  return is_its_begin;
}

std::uint64_t MarkLog::take(std::uint64_t from, const std::function<void(const SaidMark&)>& visit) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t said = said_.load(std::memory_order_relaxed);
  for (std::uint64_t number = std::max(from, said - std::min(said, kMost)); number < said;
       ++number) {
    SaidMark& mark = at(number);
    if (mark.ticks == 0) {
      // The same for all of them, so that they stay in order.
      if (!now_) now_ = trace::anchor_now(clock_);
      mark.ticks = ticks_at(mark.monotonic_ns, *now_);
    }
    visit(mark);
  }
  taken_ = std::max(taken_, said);
  return said;
}

// How fast the counter ticks follows from two looks at both clocks: at the log's start, and later.
std::uint64_t MarkLog::ticks_at(std::uint64_t monotonic_ns, const trace::ClockAnchor& now) const {
  if (clock_ == trace::ClockKind::kMonotonicNs) return monotonic_ns;
  constexpr std::uint64_t kLeast = 1'000'000;
  if (now.monotonic_ns < start_.monotonic_ns + kLeast || monotonic_ns > start_.monotonic_ns) {
    return start_.ticks;
  }
  const double rate = static_cast<double>(now.ticks - start_.ticks) /
                      static_cast<double>(now.monotonic_ns - start_.monotonic_ns);
  const double before = static_cast<double>(start_.monotonic_ns - monotonic_ns) * rate;
  return start_.ticks - std::min(start_.ticks, static_cast<std::uint64_t>(before));
}

}  // namespace fragscope::recorder
