// SPDX-License-Identifier: Apache-2.0
// What the library built against PyTorch (allocator/torch) tells about PyTorch's own allocator, so
// that it is recorded: plain data over an abstract class, since the two are built apart and only
// this one can know PyTorch. Needs nothing but the standard library.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace fragscope::engine {

/// The numbers of `trace::RecordKind`.
enum class NativeAction : std::uint8_t {
  kSegmentAlloc = 1,
  kSegmentFree = 2,
  kSegmentMap = 3,
  kSegmentUnmap = 4,
  kAlloc = 5,
  kFreeRequested = 8,
  kFreeCompleted = 9,
  kOutOfMemory = 10,
  kSnapshot = 19,
};

/// What PyTorch tells a trace tracker. Sizes are bytes: requested ones of hand-outs and frees, the
/// device's of segments, the rounded one of a failure, active bytes of a snapshot.
struct NativeEvent {
  NativeAction action = NativeAction::kAlloc;
  bool is_keyframe = false;     ///< A snapshot that was taken for `keyframe`.
  const void* stack = nullptr;  ///< From `Attachment::stack_for`; null: none.
  std::uint64_t ticks = 0;      ///< The processor's time stamp counter; 0: not known.
  std::uint64_t address = 0;    ///< Of a failure the device's free bytes.
  std::uint64_t size = 0;
  std::uint64_t requested = 0;  ///< By the call that is under way; where blocks are handed out.
  std::uint64_t stream = 0;
  std::uint64_t pool_first = 0;
  std::uint64_t pool_second = 0;
};

/// A block of a snapshot. Those of a segment follow each other by address.
struct NativeBlock {
  std::uint64_t address = 0;
  std::uint64_t size = 0;
  std::uint64_t requested = 0;
  std::uint64_t stream = 0;
  std::uint64_t pool_first = 0;
  std::uint64_t pool_second = 0;
  bool is_first = false;  ///< Of its segment.
  bool is_large = false;
  bool is_expandable = false;
  bool is_allocated = false;
  bool is_pending = false;
};

/// One device's. Never destroyed; nothing ever throws. Whatever goes wrong, the device is not
/// recorded any more, and the job goes on.
class Attachment {
 public:
  Attachment(const Attachment&) = delete;
  Attachment& operator=(const Attachment&) = delete;
  virtual ~Attachment() = default;

  /// The device has blocks already: what comes before the next keyframe's snapshot is left out.
  /// Before the first event.
  virtual void begin_in_the_middle() noexcept = 0;

  /// Whether call stacks are recorded.
  [[nodiscard]] virtual bool wants_stacks() const noexcept = 0;
  /// The stack of the calling thread for a request of `bytes`; null: none. It may take Python's
  /// lock. Not noexcept, as an interpreter that ends may end the thread here.
  [[nodiscard]] virtual const void* stack_for(std::uint64_t bytes) = 0;

  /// Under PyTorch's lock of the device, in the order of its decisions. True: a keyframe is due.
  [[nodiscard]] virtual bool on_event(const NativeEvent& event) noexcept = 0;
  /// The blocks of a snapshot whose event, with `is_keyframe`, came last. Without PyTorch's lock.
  virtual void keyframe(std::span<const NativeBlock> blocks) noexcept = 0;

  // Without PyTorch's lock; each is written with the device's next event.
  virtual void record_stream(std::uint64_t address, std::uint64_t stream) noexcept = 0;
  virtual void memory_fraction(double fraction) noexcept = 0;
  virtual void settings(std::string_view conf) noexcept = 0;
  /// The program gave back what was cached, or what the private pool named had cached, whether
  /// there was something or not.
  virtual void cache_released(std::uint64_t pool_first, std::uint64_t pool_second) noexcept = 0;
  /// Whether the program said something that waits for the next event.
  [[nodiscard]] virtual bool is_behind() const noexcept = 0;
  /// Blocks are about to change in ways that no event tells. Ask for a keyframe afterwards.
  virtual void lose() noexcept = 0;

  /// Whether a graph is being captured on the device.
  virtual void capturing(bool is_capturing) noexcept = 0;
  /// A line for the message of a failure that was just told; empty if there is nothing to say.
  [[nodiscard]] virtual std::string_view failure_line() const noexcept = 0;

 protected:
  Attachment() = default;
};

}  // namespace fragscope::engine
