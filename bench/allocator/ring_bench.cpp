// SPDX-License-Identifier: Apache-2.0
// What a record costs the job, beside what it could not cost less than (a time stamp, a copy of 64
// bytes) and what others do (a vector under a mutex, a logger with a thread of its own, a line of
// text). `median_ns` is of a record in batches of 1,000, `p999_ns` in batches of 10: one batch in
// a thousand costs more.
#include "trace/ring/clock.hpp"
#include "trace/ring/ring_file.hpp"
#include "trace/ring/ring_reader.hpp"
#include "trace/ring/ring_writer.hpp"

#include <benchmark/benchmark.h>

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cinttypes>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#ifdef FRAGSCOPE_HAVE_SPDLOG
#include <spdlog/async.h>
#include <spdlog/sinks/base_sink.h>
#endif

namespace {

using fragscope::trace::anchor_now;
using fragscope::trace::best_clock;
using fragscope::trace::ClockAnchor;
using fragscope::trace::ClockKind;
using fragscope::trace::Record;
using fragscope::trace::RecordKind;
using fragscope::trace::RingFile;
using fragscope::trace::RingOptions;
using fragscope::trace::RingReader;
using fragscope::trace::RingWriter;
using fragscope::trace::ticks_now;

constexpr std::uint64_t kLongBatch = 1000;
constexpr std::uint64_t kShortBatch = 10;
constexpr std::uint64_t kShortBatches = 100;  // After each long one.
constexpr std::uint64_t kRound = kLongBatch + kShortBatch * kShortBatches;
constexpr std::uint64_t kCapacity = 1 << 16;

/// A ring in shared memory, gone when the benchmark ends.
class Ring {
 public:
  Ring()
      : path_("/dev/shm/fragscope_ring_bench_" + std::to_string(getpid())) {
    std::filesystem::remove(path_);
    RingOptions options;
    options.record_capacity = kCapacity;
    auto made = RingFile::create(path_, options);
    if (made) file_.emplace(std::move(*made));
  }
  ~Ring() { std::filesystem::remove(path_); }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;
  [[nodiscard]] RingFile* file() { return file_ ? &*file_ : nullptr; }

 private:
  std::string path_;
  std::optional<RingFile> file_;
};

Record record_of(std::uint64_t number) {
  Record record;
  record.address = 0x200000000000 + number * 512;
  record.size = 512;
  record.other = number;
  record.kind = RecordKind::kAlloc;
  return record;
}

std::uint64_t iterations(const benchmark::State& state) {
  return static_cast<std::uint64_t>(state.iterations());
}

/// How many records `measure` asked for in all.
std::uint64_t records(const benchmark::State& state) {
  return iterations(state) * kRound;
}

/// Nanoseconds of a tick, measured once over 20 ms.
double tick_ns(ClockKind clock) {
  static const double measured = [clock] {
    const ClockAnchor first = anchor_now(clock);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const ClockAnchor last = anchor_now(clock);
    return static_cast<double>(last.monotonic_ns - first.monotonic_ns) /
           static_cast<double>(last.ticks - first.ticks);
  }();
  return measured;
}

double quantile(std::vector<double>& values, double share) {
  if (values.empty()) return 0;
  const auto at = static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + at, values.end());
  return values[static_cast<std::size_t>(at)];
}

/// Calls `append` with 0, 1, 2, ...: each round a batch of 1,000 and a hundred of 10. Only they are
/// timed, with the two readings of the clock: some 2 ns a record in a short batch. `settle` runs
/// after each round.
template <class Append, class Settle>
void measure(benchmark::State& state, Append append, Settle settle) {
  const ClockKind clock = best_clock();
  const double ns = tick_ns(clock);
  std::vector<double> long_ns;
  std::vector<double> short_ns;
  long_ns.reserve(static_cast<std::size_t>(state.max_iterations));
  short_ns.reserve(static_cast<std::size_t>(state.max_iterations) * kShortBatches);
  std::uint64_t number = 0;
  const auto batch_ns = [&](std::uint64_t size) {
    const std::uint64_t from = ticks_now(clock);
    for (const std::uint64_t end = number + size; number < end; ++number)
      append(number);
    return static_cast<double>(ticks_now(clock) - from) * ns;
  };
  for (auto _ : state) {
    const double batch = batch_ns(kLongBatch);
    state.SetIterationTime(batch * 1e-9);
    long_ns.push_back(batch / kLongBatch);
    for (std::uint64_t i = 0; i < kShortBatches; ++i)
      short_ns.push_back(batch_ns(kShortBatch) / kShortBatch);
    settle();
  }
  state.counters["median_ns"] = quantile(long_ns, 0.5);
  state.counters["p999_ns"] = quantile(short_ns, 0.999);
}

template <class Append>
void measure(benchmark::State& state, Append append) {
  measure(state, append, [] {});
}

void ring_append(benchmark::State& state) {
  Ring ring;
  if (ring.file() == nullptr) return state.SkipWithError("no ring");
  RingWriter writer(ring.file()->memory());
  const ClockKind clock = best_clock();
  measure(state, [&](std::uint64_t number) {
    Record record = record_of(number);
    record.ticks = ticks_now(clock);
    writer.append(record);
  });
  auto reader = RingReader::open(ring.file()->bytes());
  std::uint64_t last = 0;
  while (const auto record = reader->next())
    last = record->other;
  if (writer.written() != records(state) || last + 1 != records(state))
    state.SkipWithError("records are missing");
}
BENCHMARK(ring_append)->UseManualTime();

void time_stamp(benchmark::State& state) {
  const ClockKind clock = best_clock();
  const std::uint64_t first = ticks_now(clock);
  std::uint64_t last = 0;
  std::uint64_t taken = 0;
  measure(state, [&](std::uint64_t) {
    benchmark::DoNotOptimize(last = ticks_now(clock));
    ++taken;
  });
  if (taken != records(state) || last <= first) state.SkipWithError("time stands still");
}
BENCHMARK(time_stamp)->UseManualTime();

void copy_64_bytes(benchmark::State& state) {
  std::vector<Record> slots(kCapacity);
  std::uint64_t next = 0;
  measure(state, [&](std::uint64_t number) {
    const Record record = record_of(number);
    std::memcpy(static_cast<void*>(&slots[next++ % kCapacity]), &record, sizeof(record));
    benchmark::ClobberMemory();
  });
  const std::uint64_t last = records(state) - 1;
  if (slots[last % kCapacity].other != last) state.SkipWithError("records are missing");
}
BENCHMARK(copy_64_bytes)->UseManualTime();

void vector_under_a_mutex(benchmark::State& state) {
  std::mutex mutex;
  std::vector<Record> kept;
  const ClockKind clock = best_clock();
  std::uint64_t count = 0;
  const auto append = [&](std::uint64_t number) {
    const std::lock_guard lock(mutex);
    kept.push_back(record_of(number));
    kept.back().ticks = ticks_now(clock);
  };
  // The vector grows in the first round alone, and is emptied after each.
  const auto settle = [&] {
    if (kept.front().other == count) count = kept.back().other + 1;
    kept.clear();
  };
  measure(state, append, settle);
  if (count != records(state)) state.SkipWithError("records are missing");
}
BENCHMARK(vector_under_a_mutex)->UseManualTime();

#ifdef FRAGSCOPE_HAVE_SPDLOG
/// Formats, and throws away what it counted.
class CountingSink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  [[nodiscard]] std::uint64_t lines() const { return lines_.load(std::memory_order_acquire); }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    benchmark::DoNotOptimize(line.data());
    lines_.fetch_add(1, std::memory_order_release);  // Pairs with the load in `lines`.
  }
  void flush_() override {}

 private:
  std::atomic<std::uint64_t> lines_ = 0;
};

/// What the caller pays while the queue has room: the thread behind it catches up between rounds.
void spdlog_async(benchmark::State& state) {
  const auto pool = std::make_shared<spdlog::details::thread_pool>(8192, 1);
  const auto sink = std::make_shared<CountingSink>();
  const auto logger = std::make_shared<spdlog::async_logger>(
      "bench", sink, pool, spdlog::async_overflow_policy::block);
  const ClockKind clock = best_clock();
  std::uint64_t sent = 0;
  const auto append = [&](std::uint64_t number) {
    const Record record = record_of(number);
    logger->info(
        "{},alloc,{:x},{},{}", ticks_now(clock), record.address, record.size, record.other);
  };
  const auto settle = [&] {
    sent += kRound;
    while (sink->lines() < sent)
      std::this_thread::yield();
  };
  measure(state, append, settle);
  if (sink->lines() != records(state)) state.SkipWithError("lines are missing");
}
#else
void spdlog_async(benchmark::State& state) {
  for (auto _ : state)
    state.SetIterationTime(1);
  state.SetLabel("not measured: built without spdlog (Debian: libspdlog-dev)");
}
#endif
BENCHMARK(spdlog_async)->UseManualTime();

/// To /dev/null: the text and the copy into the kernel, no disk.
void line_of_text(benchmark::State& state) {
  std::FILE* file = std::fopen("/dev/null", "w");
  if (file == nullptr) return state.SkipWithError("no /dev/null");
  const ClockKind clock = best_clock();
  std::uint64_t lines = 0;
  measure(state, [&](std::uint64_t number) {
    const Record record = record_of(number);
    const int written = std::fprintf(file,
                                     "%" PRIu64 ",alloc,%" PRIx64 ",%" PRIu64 ",%" PRIu64 "\n",
                                     ticks_now(clock),
                                     record.address,
                                     record.size,
                                     record.other);
    lines += written > 0 ? 1 : 0;
  });
  if (std::fclose(file) != 0 || lines != records(state)) state.SkipWithError("lines are missing");
}
BENCHMARK(line_of_text)->UseManualTime();

/// Every record of a full ring, each with its commit word checked before and after the copy:
/// `items_per_second`.
void ring_read(benchmark::State& state) {
  Ring ring;
  if (ring.file() == nullptr) return state.SkipWithError("no ring");
  RingWriter writer(ring.file()->memory());
  for (std::uint64_t i = 0; i < kCapacity; ++i)
    writer.append(record_of(i));
  std::uint64_t read = 0;
  bool is_right = true;
  while (state.KeepRunning()) {
    auto reader = RingReader::open(ring.file()->bytes());
    std::uint64_t number = 0;
    for (; const auto record = reader->next(); ++number)
      is_right &= record->other == number;
    is_right &= number == kCapacity && reader->counts().records == number;
    read += number;
  }
  if (!is_right || read != iterations(state) * kCapacity)
    state.SkipWithError("records are missing");
  state.SetItemsProcessed(static_cast<std::int64_t>(read));
}
BENCHMARK(ring_read);

}  // namespace
