// SPDX-License-Identifier: Apache-2.0
// What a record costs the job, beside what it could not cost less than (a time stamp, a copy of 64
// bytes) and what others do (a vector under a mutex, a line of text). Batches of 1000.
#include "trace/ring/clock.hpp"
#include "trace/ring/ring_file.hpp"
#include "trace/ring/ring_reader.hpp"
#include "trace/ring/ring_writer.hpp"

#include <benchmark/benchmark.h>

#include <unistd.h>

#include <array>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace {

using namespace fragscope::trace;

constexpr std::uint64_t kBatch = 1000;
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

void finish(benchmark::State& state) {
  state.SetItemsProcessed(static_cast<std::int64_t>(iterations(state) * kBatch));
}

void ring_append(benchmark::State& state) {
  Ring ring;
  if (ring.file() == nullptr) return state.SkipWithError("no ring");
  RingWriter writer(ring.file()->memory());
  const ClockKind clock = best_clock();
  for (auto _ : state) {
    for (std::uint64_t i = 0; i < kBatch; ++i) {
      Record record = record_of(i);
      record.ticks = ticks_now(clock);
      writer.append(record);
    }
  }
  if (writer.written() != iterations(state) * kBatch) state.SkipWithError("records are missing");
  finish(state);
}
BENCHMARK(ring_append);

void time_stamp(benchmark::State& state) {
  const ClockKind clock = best_clock();
  for (auto _ : state) {
    for (std::uint64_t i = 0; i < kBatch; ++i)
      benchmark::DoNotOptimize(ticks_now(clock));
  }
  finish(state);
}
BENCHMARK(time_stamp);

void copy_64_bytes(benchmark::State& state) {
  std::vector<Record> slots(kCapacity);
  std::uint64_t next = 0;
  for (auto _ : state) {
    for (std::uint64_t i = 0; i < kBatch; ++i) {
      const Record record = record_of(i);
      std::memcpy(static_cast<void*>(&slots[next++ % kCapacity]), &record, sizeof(record));
      benchmark::ClobberMemory();
    }
  }
  finish(state);
}
BENCHMARK(copy_64_bytes);

void vector_under_a_mutex(benchmark::State& state) {
  std::mutex mutex;
  std::vector<Record> records;
  const ClockKind clock = best_clock();
  for (auto _ : state) {
    records.clear();
    for (std::uint64_t i = 0; i < kBatch; ++i) {
      const std::lock_guard lock(mutex);
      records.push_back(record_of(i));
      records.back().ticks = ticks_now(clock);
    }
  }
  finish(state);
}
BENCHMARK(vector_under_a_mutex);

void line_of_text(benchmark::State& state) {
  std::FILE* file = std::fopen("/dev/null", "w");
  const ClockKind clock = best_clock();
  for (auto _ : state) {
    for (std::uint64_t i = 0; i < kBatch; ++i) {
      const Record record = record_of(i);
      std::fprintf(file,
                   "%" PRIu64 ",alloc,%" PRIx64 ",%" PRIu64 ",%" PRIu64 "\n",
                   ticks_now(clock),
                   record.address,
                   record.size,
                   record.other);
    }
  }
  std::fclose(file);
  finish(state);
}
BENCHMARK(line_of_text);

void ring_read(benchmark::State& state) {
  Ring ring;
  if (ring.file() == nullptr) return state.SkipWithError("no ring");
  RingWriter writer(ring.file()->memory());
  for (std::uint64_t i = 0; i < kCapacity; ++i)
    writer.append(record_of(i));
  std::uint64_t read = 0;
  for (auto _ : state) {
    auto reader = RingReader::open(ring.file()->bytes());
    while (const auto record = reader->next()) {
      benchmark::DoNotOptimize(record->address);
      ++read;
    }
  }
  if (read != iterations(state) * kCapacity) state.SkipWithError("records are missing");
  state.SetItemsProcessed(static_cast<std::int64_t>(read));
}
BENCHMARK(ring_read);

}  // namespace
