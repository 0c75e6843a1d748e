// SPDX-License-Identifier: Apache-2.0
// Writes what one device's allocator decides into a ring. Sits inside the user's job: no lock, no
// system call, no heap where a record is written, and nothing that goes wrong here ever reaches the
// job: then nothing is recorded any more, and the ring's header says why.
#pragma once

#include "allocator/policy/blocks/observer.hpp"
#include "allocator/policy/caching_policy.hpp"
#include "allocator/recorder/complaint.hpp"
#include "allocator/recorder/fork_guard.hpp"
#include "allocator/recorder/mark_log.hpp"
#include "trace/format/record.hpp"
#include "trace/ring/ring_file.hpp"
#include "trace/ring/ring_writer.hpp"
#include "trace/ring/table_writer.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace fragscope::recorder {

/// One line of a call stack, as the caller knows it; the texts need not outlive the call.
struct FrameText {
  std::string_view function;
  std::string_view file;
  std::uint32_t line = 0;
};

/// A process on the device, as NVML shows it; the text need not outlive the call.
struct ProcessOnDevice {
  std::uint64_t pid = 0;
  std::optional<std::uint64_t> used_bytes;  ///< None: NVML does not know.
  bool is_this = false;
  std::string_view name;  ///< Empty: not known.
};

/// Not thread-safe: like the policy it is called under the device's lock, marks included.
class DeviceRecorder final : public policy::Observer {
 public:
  /// Records into `ring`, which was just made and is taken over. `guard` is of the same process,
  /// is sound, and outlives this, as `complaint` does. May throw std::bad_alloc, and `ring` is the
  /// caller's then.
  DeviceRecorder(trace::RingFile& ring, const ForkGuard& guard, Complaint& complaint);
  /// As `end`.
  ~DeviceRecorder() override;

  /// Whose blocks keyframes list; without it there are none, and a ring that came round once cannot
  /// be replayed. The policy outlives this, or is taken back by null.
  void watch(const policy::CachingPolicy* policy) { policy_ = policy; }

  /// The call stack of what comes next, from `intern_stack`; 0: none.
  void set_stack(std::uint32_t stack) { stack_ = stack; }
  /// The innermost frame first; of deeper stacks the innermost 128. 0 if the table is full.
  [[nodiscard]] std::uint32_t intern_stack(std::span<const FrameText> frames);

  /// Something that the user's program says of itself: a point, or where a stage begins or ends.
  void mark(std::string_view text, MarkKind kind);
  /// Whether the program said something that is not in the ring yet; one load.
  [[nodiscard]] bool is_behind() const { return marks_.said() != next_mark_; }
  /// Writes that, each with the time at which it was said.
  void take_marks();
  /// Whether annotations may be written as they come: there are not much more of them than of what
  /// the allocator decides. Where there are, they wait for its next decision.
  [[nodiscard]] bool has_room_for_annotations();
  /// The options, as the allocator took them.
  void settings(std::string_view conf);
  /// What the driver says of the device, and how much of it other processes hold (0: not known).
  void device_memory(policy::Capacity capacity, std::uint64_t others_bytes);
  /// The same with who uses the device, as seen a moment ago: behind a mark or a failed request it
  /// belongs to that. `refusal`: why nobody can tell; then `processes` is empty.
  void device_use(policy::Capacity capacity,
                  std::span<const ProcessOnDevice> processes,
                  std::string_view refusal);
  /// Something about the device or the driver that stays so, such as {"driver", "570.1"}; said
  /// once, and kept for as long as the ring. Names: docs/trace_format.md.
  void fact(std::string_view name, std::string_view value);
  void snapshot_taken(std::uint64_t active_bytes);
  /// Nanoseconds that the driver took for the call that the policy tells of next; none: it refused.
  void driver_took(std::optional<std::uint64_t> nanoseconds) {
    driver_time_ = nanoseconds ? trace::driver_time(*nanoseconds) : 0;
  }
  /// Every block that there is, so that a reader can begin here.
  void keyframe();

  // For whoever follows another allocator and has records of its own (allocator/attach).
  /// Fills in thread and device, and the time where `ticks` is 0. Only while recording.
  void append(trace::Record& record);
  [[nodiscard]] std::uint32_t stream_id(policy::StreamId stream);
  [[nodiscard]] std::uint16_t pool_id(policy::PoolId pool);
  /// What was said once and would be overwritten; for the end of a keyframe.
  void standing_facts();
  [[nodiscard]] std::uint64_t written() const { return writer_.written(); }
  [[nodiscard]] std::uint64_t capacity() const { return writer_.capacity(); }
  void count_failure();
  void count_refused_keyframe();

  /// From now on nothing is recorded; the header says why, and the process's one line on standard
  /// error.
  void stop(std::string_view reason);
  /// The program ends: nothing is recorded any more, and the header says that all is well. Nothing
  /// in a forked child.
  void end();
  [[nodiscard]] bool is_recording() const {
    return is_recording_.load(std::memory_order_relaxed) && !guard_.is_child();
  }
  [[nodiscard]] const trace::Header& header() const { return ring_.header(); }

  void on_alloc(const policy::Block& block) override;
  void on_free_requested(const policy::Block& block) override;
  void on_free_completed(const policy::Block& block) override;
  void on_segment_alloc(const policy::Block& block) override;
  // With what the driver took for it, which is known once it has gone.
  void on_segment_freed(const policy::Block& block) override;
  void on_segment_map(const policy::Block& block,
                      policy::Address start,
                      std::uint64_t size) override;
  void on_segment_unmap(const policy::Block& block,
                        policy::Address start,
                        std::uint64_t size) override;
  void on_split(const policy::Block& front, const policy::Block& rest) override;
  void on_merge(const policy::Block& block, policy::Address start, std::uint64_t size) override;
  void on_record_stream(const policy::Block& block, policy::StreamId other) override;
  void on_retry(std::uint64_t device_allocation, policy::StreamId stream) override;
  void on_cache_release(std::uint64_t bytes, std::uint64_t count, policy::PoolId only) override;
  void on_limit(std::optional<std::uint64_t> bytes) override;
  void on_out_of_memory(const policy::AllocationFailure& failure,
                        policy::StreamId stream,
                        policy::PoolId pool) override;

 private:
  /// Kind, flags, stream and pool.
  [[nodiscard, gnu::always_inline]] inline trace::Record record_of(trace::RecordKind kind,
                                                                   const policy::Block& block);
  /// Inlined, so that a record stays in registers on its way into the ring: fields that were just
  /// stored one by one and are loaded as something wider have to be waited for.
  [[gnu::always_inline]] inline void stamp_and_append(trace::Record& record);
  /// What the fields mean: `trace::RecordKind`.
  struct Fields {
    std::uint64_t address;
    std::uint64_t size;
    std::uint64_t other;
    std::uint32_t detail = 0;
  };
  void write(trace::Record& record);
  void write(trace::RecordKind kind, const policy::Block& block, const Fields& fields);
  void write(trace::RecordKind kind, const Fields& fields);
  [[nodiscard]] bool completes_last(trace::RecordKind kind) const;
  /// Where the policy's books are whole, after each record.
  void keyframe_if_due();
  void write_blocks();
  void keep_settings(std::uint32_t text);
  [[nodiscard]] std::uint64_t keyframe_interval() const;
  void write_mark(const SaidMark& mark);
  [[nodiscard]] std::uint32_t mark_text(std::string_view text);

  const ForkGuard& guard_;
  Complaint& complaint_;
  trace::RingWriter writer_;
  trace::TableWriter table_;
  trace::RingFile ring_;  // behind what may throw
  const policy::CachingPolicy* policy_ = nullptr;
  trace::ClockKind clock_;
  std::uint8_t device_;
  trace::RecordKind last_kind_ = trace::RecordKind::kNone;
  std::uint64_t ticks_ = 0;
  std::uint32_t thread_ = 0;
  std::uint32_t pid_;
  std::atomic<bool> is_recording_ = true;  // the end comes from another thread
  std::uint32_t stack_ = 0;
  std::uint32_t driver_time_ = 0;  // of a call that no record tells of yet
  policy::StreamId last_stream_ = 0;
  std::uint32_t last_stream_id_ = 0;
  std::uint64_t next_keyframe_ = 0;
  std::uint64_t keyframe_deadline_ = 0;  // in records and blocks, see keyframe_if_due
  std::uint64_t keyframes_ = 0;
  // By their texts, the last ones that differ, each where it was said last: one may set what the
  // next does not mention.
  static constexpr std::size_t kMostSettings = 8;
  std::array<std::uint32_t, kMostSettings> settings_{};
  std::size_t settings_count_ = 0;
  std::optional<std::uint64_t> limit_;  // as of a record; none: never said
  MarkLog& marks_ = MarkLog::of_process();
  std::uint64_t next_mark_ = 0;
  std::uint64_t text_room_;    // of the table, for names that marks bring
  std::uint64_t family_room_;  // and for what many of those have in common
  std::uint64_t annotation_room_;
  std::uint64_t annotation_room_at_;  // records written when it was counted last
};

}  // namespace fragscope::recorder
