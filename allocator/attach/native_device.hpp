// SPDX-License-Identifier: Apache-2.0
// One device of PyTorch's own allocator, recorded: its events become records as they come, and
// what is known outside of PyTorch's lock waits for the next event, so that the ring has one writer
// and needs no lock of ours. Blocks are kept by nobody: sizes, splits and merges follow from
// PyTorch's rules, and the reader derives them.
#pragma once

#include "allocator/engine/attachment.hpp"
#include "allocator/recorder/process_recorder.hpp"
#include "trace/format/record.hpp"

#include <absl/container/flat_hash_map.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fragscope::attach {

/// Gives the ring of a device, made now; null: there is none.
class RingMaker {
 public:
  RingMaker() = default;
  RingMaker(const RingMaker&) = delete;
  RingMaker& operator=(const RingMaker&) = delete;
  virtual ~RingMaker() = default;

  /// Does not throw. `conf`: the allocator's settings.
  [[nodiscard]] virtual recorder::DeviceRecorder* make(std::int32_t ordinal,
                                                       trace::TraceBeginning beginning,
                                                       std::string_view conf) noexcept = 0;
  [[nodiscard]] virtual std::string path_of(std::int32_t ordinal) const = 0;
};

class NativeDevice final : public engine::Attachment {
 public:
  /// `maker` outlives this.
  NativeDevice(std::int32_t ordinal, RingMaker& maker)
      : maker_(maker)
      , ordinal_(ordinal) {}

  void begin_in_the_middle() noexcept override { phase_ = Phase::kWaiting; }
  [[nodiscard]] bool wants_stacks() const noexcept override;
  [[nodiscard]] const void* stack_for(std::uint64_t bytes) override;
  [[nodiscard]] bool on_event(const engine::NativeEvent& event) noexcept override;
  void keyframe(std::span<const engine::NativeBlock> blocks) noexcept override;
  void record_stream(std::uint64_t address, std::uint64_t stream) noexcept override;
  void memory_fraction(double fraction) noexcept override;
  void settings(std::string_view conf) noexcept override;
  void cache_released(std::uint64_t pool_first, std::uint64_t pool_second) noexcept override;
  [[nodiscard]] bool is_behind() const noexcept override;
  void lose() noexcept override;
  void capturing(bool is_capturing) noexcept override;
  [[nodiscard]] std::string_view failure_line() const noexcept override;

  /// Where its trace lies; the empty text if it is not recorded, or not used yet.
  [[nodiscard]] const char* ring_path() const noexcept;
  /// The program ends. From any thread: what comes now is not recorded any more.
  void end() noexcept;

 private:
  enum class Phase : std::uint8_t {
    kFresh,    ///< There was no event yet, and the device has no block.
    kWaiting,  ///< It may have some: the snapshot that says which must come first.
    kMarked,   ///< The snapshot was taken; there was no event since.
    kRecording,
    kOff,
  };
  /// What waits for the next event. Small, except that a keyframe may be large.
  struct Letter {
    enum class Kind : std::uint8_t { kRecordStream, kFraction, kSettings, kCacheRelease, kLose };
    Kind kind = Kind::kLose;
    std::uint64_t ticks = 0;
    std::uint64_t address = 0;
    std::uint64_t stream = 0;
    policy::PoolId pool;
    double fraction = 1;
    std::string text;
  };

  [[nodiscard]] bool begin(const engine::NativeEvent& event);
  [[nodiscard]] bool start_ring(trace::TraceBeginning beginning);
  void post(Letter letter) noexcept;
  [[nodiscard]] bool is_child() const;
  void take_mail();
  void write_letter(const Letter& letter);
  void write_keyframe(const std::vector<engine::NativeBlock>& blocks);
  void write_blocks(const std::vector<engine::NativeBlock>& blocks, std::uint64_t distance);
  void write_failure(const engine::NativeEvent& event);
  void write_mark_of_keyframe(const engine::NativeEvent& event);
  void write_event(const engine::NativeEvent& event);
  void count_returned(const engine::NativeEvent& event);
  [[nodiscard]] bool is_keyframe_due() const;
  void schedule_keyframe(std::uint64_t after);
  void append(trace::Record& record, std::uint64_t ticks);
  /// The stack's id in the ring; 0: none.
  [[nodiscard]] std::uint32_t stack_id(const void* stack);

  RingMaker& maker_;
  std::int32_t ordinal_;
  std::atomic<bool> has_mail_ = false;
  std::atomic<bool> is_ended_ = false;
  std::atomic<bool> is_capturing_ = false;
  std::atomic<recorder::DeviceRecorder*> published_ = nullptr;  // once it records

  // Of whoever holds PyTorch's lock.
  Phase phase_ = Phase::kFresh;
  recorder::DeviceRecorder* recorder_ = nullptr;
  bool has_tsc_ = false;
  std::uint64_t next_keyframe_ = 0;
  std::uint64_t keyframe_deadline_ = 0;  // in records and blocks
  std::uint64_t blocks_ = 0;             // about how many there are
  std::optional<std::uint64_t> mark_;    // the record of the last keyframe's snapshot
  std::uint64_t keyframes_ = 0;
  std::uint64_t returned_bytes_ = 0;  // to the driver, since the last request or free
  std::uint64_t returned_count_ = 0;  // of segments or page ranges
  std::uint64_t total_bytes_ = 0;
  std::string ring_path_;
  std::string failure_line_;
  absl::flat_hash_map<const void*, std::uint32_t> stack_ids_;

  std::mutex mail_mutex_;
  std::vector<Letter> letters_;
  std::optional<std::vector<engine::NativeBlock>> blocks_of_keyframe_;
  std::string conf_;
};

}  // namespace fragscope::attach
