// SPDX-License-Identifier: Apache-2.0
#include "allocator/attach/native_device.hpp"

#include "allocator/live/live_options.hpp"
#include "allocator/policy/size_rules.hpp"
#include "allocator/stacks/call_stacks.hpp"
#include "trace/process/ring_directory.hpp"
#include "trace/ring/clock.hpp"

#include <algorithm>
#include <exception>
#include <utility>

namespace fragscope::attach {
namespace {

using engine::NativeAction;
using engine::NativeBlock;
using engine::NativeEvent;
using trace::Record;
using trace::RecordKind;

/// What is told without an event following: more is left out, and counted.
constexpr std::size_t kMostLetters = 4096;

std::uint8_t class_flag(std::uint64_t bytes) {
  // No option rounds a request over this border.
  return bytes > policy::kSmallSize ? trace::kFlagLarge : 0;
}

}  // namespace

// --- Events, under PyTorch's lock. ---------------------------------------------------------------

bool NativeDevice::on_event(const NativeEvent& event) noexcept {
  if (phase_ != Phase::kRecording) {
    try {
      if (!begin(event)) return false;
    } catch (const std::exception&) {
      phase_ = Phase::kOff;
      return false;
    }
  }
  if (!recorder_->is_recording() || is_ended_.load(std::memory_order_relaxed)) return false;
  if (has_mail_.load(std::memory_order_relaxed)) take_mail();
  if (recorder_->is_behind()) recorder_->take_marks();
  count_returned(event);
  switch (event.action) {
    case NativeAction::kOutOfMemory:
      write_failure(event);
      break;
    case NativeAction::kSnapshot:
      write_mark_of_keyframe(event);
      break;
    default:
      write_event(event);
  }
  return is_keyframe_due();
}

/// Whether the event is to be recorded.
bool NativeDevice::begin(const NativeEvent& event) {
  switch (phase_) {
    case Phase::kFresh:
      if (event.action == NativeAction::kSnapshot) return false;  // of nothing
      return start_ring(trace::TraceBeginning::kEmpty);
    case Phase::kWaiting:
      if (event.action == NativeAction::kSnapshot && event.is_keyframe) phase_ = Phase::kMarked;
      return false;
    case Phase::kMarked: {
      const bool is_snapshot = event.action == NativeAction::kSnapshot;
      if (is_snapshot) {
        const std::lock_guard lock(mail_mutex_);
        if (!blocks_of_keyframe_) return false;
        if (blocks_of_keyframe_->empty()) {
          // Nothing was there, and nothing came since.
          blocks_of_keyframe_.reset();
          phase_ = Phase::kFresh;
          return false;
        }
      }
      if (!start_ring(trace::TraceBeginning::kMiddle)) return false;
      Record mark;
      mark.kind = RecordKind::kSnapshot;
      mark_ = recorder_->written();
      append(mark, event.ticks);
      return true;
    }
    default:
      return false;
  }
}

bool NativeDevice::start_ring(trace::TraceBeginning beginning) {
  std::string conf;
  {
    const std::lock_guard lock(mail_mutex_);
    conf = conf_;
  }
  recorder_ = maker_.make(ordinal_, beginning, conf);
  phase_ = recorder_ == nullptr ? Phase::kOff : Phase::kRecording;
  if (recorder_ == nullptr) return false;
  has_tsc_ = recorder_->header().clock == trace::ClockKind::kTsc;
  total_bytes_ = recorder_->header().device_total_bytes;
  ring_path_ = maker_.path_of(ordinal_);
  failure_line_ = trace::what_explains(ring_path_);
  next_keyframe_ = recorder_->written() + recorder_->capacity() / 4;
  keyframe_deadline_ = recorder_->capacity() / 8 * 7;
  published_.store(recorder_, std::memory_order_release);
  return true;
}

void NativeDevice::append(Record& record, std::uint64_t ticks) {
  record.ticks = has_tsc_ ? ticks : 0;
  if (is_capturing_.load(std::memory_order_relaxed)) record.flags |= trace::kFlagCapturing;
  recorder_->append(record);
}

bool NativeDevice::wants_stacks() const noexcept {
  return live::LiveOptions::of_process().stacks != stacks::StackKind::kOff;
}

const void* NativeDevice::stack_for(std::uint64_t bytes) {
  const live::LiveOptions& options = live::LiveOptions::of_process();
  if (bytes < options.min_stack_size) return nullptr;
  return stacks::CallStacks::of_process().walk(options.stacks);
}

std::uint32_t NativeDevice::stack_id(const void* stack) {
  if (stack == nullptr) return 0;
  const auto [place, is_new] = stack_ids_.try_emplace(stack, 0);
  if (is_new) {
    const auto texts = static_cast<const stacks::CallStack*>(stack)->texts();
    place->second = recorder_->intern_stack(texts);
  }
  return place->second;
}

void NativeDevice::write_event(const NativeEvent& event) {
  Record record;
  record.kind = static_cast<RecordKind>(event.action);
  record.address = event.address;
  if (event.stream != 0) record.stream = recorder_->stream_id(event.stream);
  if ((event.pool_first | event.pool_second) != 0) {
    record.pool = recorder_->pool_id({event.pool_first, event.pool_second});
  }
  record.stack = stack_id(event.stack);
  switch (event.action) {
    case NativeAction::kSegmentUnmap:
      record.flags |= trace::kFlagUnmapped;
      [[fallthrough]];
    case NativeAction::kSegmentMap:
      record.flags |= trace::kFlagExpandable;
      [[fallthrough]];
    case NativeAction::kSegmentAlloc:
    case NativeAction::kSegmentFree:
      record.size = event.size;
      record.flags |= class_flag(event.requested);
      ++blocks_;
      break;
    default:
      // How large the block is PyTorch does not say.
      record.other = event.size;
      record.flags |= class_flag(event.size);
      if (event.action == NativeAction::kAlloc) ++blocks_;
      if (event.action == NativeAction::kFreeCompleted && blocks_ > 0) --blocks_;
  }
  append(record, event.ticks);
}

void NativeDevice::count_returned(const NativeEvent& event) {
  switch (event.action) {
    case NativeAction::kSegmentFree:
    case NativeAction::kSegmentUnmap:
      returned_bytes_ += event.size;
      ++returned_count_;
      return;
    case NativeAction::kFreeCompleted:
      return;  // A release waits for them, between one segment and the next.
    default:
      returned_bytes_ = returned_count_ = 0;
  }
}

void NativeDevice::write_failure(const NativeEvent& event) {
  Record memory;
  memory.kind = RecordKind::kDeviceMemory;
  memory.address = event.address;
  memory.size = total_bytes_;
  append(memory, event.ticks);
  Record record;
  record.kind = RecordKind::kOutOfMemory;
  record.address = event.address;
  record.size = event.size;
  record.other = event.requested;
  record.stream = recorder_->stream_id(event.stream);
  record.pool = recorder_->pool_id({event.pool_first, event.pool_second});
  record.stack = stack_id(event.stack);
  record.flags |= class_flag(event.size);
  append(record, event.ticks);
  recorder_->count_failure();
}

void NativeDevice::write_mark_of_keyframe(const NativeEvent& event) {
  Record record;
  record.kind = RecordKind::kSnapshot;
  record.size = event.size;
  if (event.is_keyframe) {
    mark_ = recorder_->written();
    // Until its blocks are there, or did not come.
    schedule_keyframe(recorder_->capacity() / 4);
  }
  append(record, event.ticks);
}

// --- Keyframes. ----------------------------------------------------------------------------------

bool NativeDevice::is_keyframe_due() const {
  const std::uint64_t written = recorder_->written();
  return written >= next_keyframe_ || written + blocks_ >= keyframe_deadline_;
}

void NativeDevice::schedule_keyframe(std::uint64_t after) {
  next_keyframe_ = recorder_->written() + after;
  keyframe_deadline_ = policy::kUnlimited;
}

void NativeDevice::write_keyframe(const std::vector<NativeBlock>& blocks) {
  const std::uint64_t capacity = recorder_->capacity();
  if (!mark_) return;  // nothing says where the blocks belong
  const std::uint64_t distance = recorder_->written() - *mark_;
  // What happened since the snapshot must still be there with the keyframe's end.
  if (blocks.size() > capacity / 8 * 3 || distance > capacity / 2) {
    recorder_->count_refused_keyframe();
    schedule_keyframe(capacity / 4);
    return;
  }
  write_blocks(blocks, distance);
  recorder_->standing_facts();
  // As the policy's recorder has it, with an eighth of the ring for what others do between a
  // snapshot and its keyframe.
  const std::uint64_t count = blocks.size();
  const std::uint64_t eighth = capacity / 8;
  schedule_keyframe(std::max(capacity / 4, std::min(8 * count, capacity - eighth - 2 * count)));
  keyframe_deadline_ = *mark_ + capacity - eighth;
  blocks_ = count;
}

void NativeDevice::write_blocks(const std::vector<NativeBlock>& blocks, std::uint64_t distance) {
  Record begin;
  begin.kind = RecordKind::kKeyframeBegin;
  begin.address = keyframes_;
  begin.size = blocks.size();
  for (const NativeBlock& block : blocks)
    begin.other += block.size;
  begin.stack = static_cast<std::uint32_t>(distance);
  append(begin, 0);
  const std::uint64_t ticks = trace::ticks_now(recorder_->header().clock);
  for (const NativeBlock& block : blocks) {
    Record record;
    record.kind = RecordKind::kKeyframeBlock;
    record.address = block.address;
    record.size = block.size;
    record.other = block.requested;
    record.stream = recorder_->stream_id(block.stream);
    record.pool = recorder_->pool_id({block.pool_first, block.pool_second});
    record.flags |= block.is_first ? trace::kFlagFirst : 0;
    record.flags |= block.is_large ? trace::kFlagLarge : 0;
    record.flags |= block.is_expandable ? trace::kFlagExpandable : 0;
    record.flags |= block.is_allocated ? trace::kFlagAllocated : 0;
    record.flags |= block.is_pending ? trace::kFlagPending : 0;
    append(record, ticks);
  }
  Record end;
  end.kind = RecordKind::kKeyframeEnd;
  end.address = keyframes_++;
  end.size = blocks.size();
  append(end, ticks);
}

// --- What is told without PyTorch's lock. --------------------------------------------------------

/// In a forked child a lock may be held by a thread that it does not have.
bool NativeDevice::is_child() const {
  const recorder::DeviceRecorder* recorder = published_.load(std::memory_order_acquire);
  return recorder != nullptr && !recorder->is_recording();
}

void NativeDevice::post(Letter letter) noexcept {
  if (is_child()) return;
  const std::lock_guard lock(mail_mutex_);
  try {
    if (letters_.size() < kMostLetters) letters_.push_back(std::move(letter));
  } catch (const std::exception&) {
    // It is not recorded.
  }
  has_mail_.store(true, std::memory_order_relaxed);
}

void NativeDevice::keyframe(std::span<const NativeBlock> blocks) noexcept {
  if (is_child()) return;
  const std::lock_guard lock(mail_mutex_);
  try {
    blocks_of_keyframe_.emplace(blocks.begin(), blocks.end());
  } catch (const std::exception&) {
    blocks_of_keyframe_.reset();
  }
  has_mail_.store(true, std::memory_order_relaxed);
}

void NativeDevice::record_stream(std::uint64_t address, std::uint64_t stream) noexcept {
  Letter letter;
  letter.kind = Letter::Kind::kRecordStream;
  letter.address = address;
  letter.stream = stream;
  post(std::move(letter));
}

void NativeDevice::memory_fraction(double fraction) noexcept {
  Letter letter;
  letter.kind = Letter::Kind::kFraction;
  letter.fraction = fraction;
  post(std::move(letter));
}

void NativeDevice::settings(std::string_view conf) noexcept {
  if (is_child()) return;
  try {
    {
      const std::lock_guard lock(mail_mutex_);
      if (conf_ == conf) return;
      conf_ = conf;
      // The ring begins with them.
      if (published_.load(std::memory_order_acquire) == nullptr) return;
    }
    Letter letter;
    letter.kind = Letter::Kind::kSettings;
    letter.text = conf;
    post(std::move(letter));
  } catch (const std::exception&) {
    // They are not recorded.
  }
}

void NativeDevice::cache_released(std::uint64_t pool_first, std::uint64_t pool_second) noexcept {
  // Before the first event there was nothing.
  if (published_.load(std::memory_order_acquire) == nullptr) return;
  Letter letter;
  letter.kind = Letter::Kind::kCacheRelease;
  letter.pool = {pool_first, pool_second};
  post(std::move(letter));
}

bool NativeDevice::is_behind() const noexcept {
  const recorder::DeviceRecorder* recorder = published_.load(std::memory_order_acquire);
  return recorder != nullptr && recorder->is_recording() && recorder->is_behind();
}

void NativeDevice::lose() noexcept {
  Letter letter;
  letter.kind = Letter::Kind::kLose;
  post(std::move(letter));
}

void NativeDevice::capturing(bool is_capturing) noexcept {
  is_capturing_.store(is_capturing, std::memory_order_relaxed);
}

std::string_view NativeDevice::failure_line() const noexcept {
  if (published_.load(std::memory_order_acquire) == nullptr || is_child()) return {};
  return failure_line_;
}

const char* NativeDevice::ring_path() const noexcept {
  return published_.load(std::memory_order_acquire) == nullptr ? "" : ring_path_.c_str();
}

void NativeDevice::end() noexcept {
  if (is_ended_.exchange(true, std::memory_order_relaxed)) return;
  recorder::DeviceRecorder* recorder = published_.load(std::memory_order_acquire);
  if (recorder != nullptr) recorder->end();
}

// --- The same, with it. --------------------------------------------------------------------------

void NativeDevice::take_mail() {
  std::vector<Letter> letters;
  std::optional<std::vector<NativeBlock>> blocks;
  {
    const std::lock_guard lock(mail_mutex_);
    has_mail_.store(false, std::memory_order_relaxed);
    letters.swap(letters_);
    blocks.swap(blocks_of_keyframe_);
  }
  for (const Letter& letter : letters)
    write_letter(letter);
  if (blocks) write_keyframe(*blocks);
}

void NativeDevice::write_letter(const Letter& letter) {
  Record record;
  switch (letter.kind) {
    case Letter::Kind::kRecordStream:
      record.kind = RecordKind::kRecordStream;
      record.address = letter.address;
      record.other = recorder_->stream_id(letter.stream);
      break;
    case Letter::Kind::kFraction:
      recorder_->on_limit(
          static_cast<std::uint64_t>(letter.fraction * static_cast<double>(total_bytes_)));
      return;
    case Letter::Kind::kSettings:
      recorder_->settings(letter.text);
      return;
    case Letter::Kind::kCacheRelease:
      record.kind = RecordKind::kCacheRelease;
      record.pool = recorder_->pool_id(letter.pool);
      record.size = std::exchange(returned_bytes_, 0);
      record.other = std::exchange(returned_count_, 0);
      break;
    case Letter::Kind::kLose:
      record.kind = RecordKind::kUnknownChanges;
      break;
  }
  append(record, 0);
}

}  // namespace fragscope::attach
