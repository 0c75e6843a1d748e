// SPDX-License-Identifier: Apache-2.0
#include "allocator/recorder/device_recorder.hpp"

#include "trace/ring/clock.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

namespace fragscope::recorder {
namespace {

using trace::Record;
using trace::RecordKind;

constexpr std::size_t kMostFrames = 128;
/// Records between two moments at which a keyframe may come: what one call of the policy makes,
/// but for a release of everything that is cached.
constexpr std::uint64_t kSpareRecords = 64;

/// A name that a number makes a new one each time may not fill the table, which stacks need:
/// numbers do not count in it any more once an eighth is full of names.
constexpr std::uint64_t kTextShare = 8;
constexpr std::uint64_t kFamilyShare = 64;
/// Annotations that may come without a decision of the allocator, as a part of the ring.
constexpr std::uint64_t kAnnotationShare = 64;

/// The name with each run of digits as one '#'; `place` is as long as the longest name.
std::string_view family_of(std::string_view name, std::span<char> place) {
  std::size_t size = 0;
  for (const char c : name) {
    const bool is_digit = c >= '0' && c <= '9';
    if (is_digit && size > 0 && place[size - 1] == '#') continue;
    place[size++] = is_digit ? '#' : c;
  }
  return {place.data(), size};
}

void add_one(std::uint64_t& counter) {
  std::atomic_ref shared(counter);
  shared.store(shared.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

}  // namespace

DeviceRecorder::DeviceRecorder(trace::RingFile& ring, const ForkGuard& guard, Complaint& complaint)
    : guard_(guard)
    , complaint_(complaint)
    , writer_(ring.memory())
    , table_(ring.memory())
    , ring_(std::move(ring))
    , clock_(ring_.header().clock)
    , device_(static_cast<std::uint8_t>(ring_.header().device))
    , pid_(ring_.header().process.pid)
    , next_keyframe_(writer_.capacity() / 4)
    , keyframe_deadline_(writer_.capacity())
    , text_room_(ring_.header().table_bytes / kTextShare)
    , family_room_(ring_.header().table_bytes / kFamilyShare)
    , annotation_room_(writer_.capacity() / kAnnotationShare)
    , annotation_room_at_(writer_.written()) {}

DeviceRecorder::~DeviceRecorder() {
  end();
}

void DeviceRecorder::end() {
  if (!is_recording()) return;
  is_recording_.store(false, std::memory_order_relaxed);
  ring_.header().last_anchor = trace::anchor_now(clock_);
  ring_.end(trace::TraceState::kEnded);
}

void DeviceRecorder::stop(std::string_view reason) {
  if (!is_recording()) return;
  is_recording_.store(false, std::memory_order_relaxed);
  ring_.header().last_anchor = trace::anchor_now(clock_);
  ring_.end(trace::TraceState::kUnrecorded, reason);
  complaint_.say(ring_.header().device, reason);
}

// --- What the caller tells. ----------------------------------------------------------------------

std::uint32_t DeviceRecorder::intern_stack(std::span<const FrameText> frames) {
  if (!is_recording()) return 0;
  std::array<std::uint32_t, kMostFrames> ids;
  const auto kept = frames.first(std::min(frames.size(), kMostFrames));
  std::ranges::transform(kept, ids.begin(), [this](const FrameText& frame) {
    return table_.frame({table_.text(frame.function), table_.text(frame.file), frame.line});
  });
  const auto used = std::span(ids).first(kept.size());
  // A stack with holes would name the wrong place.
  return std::ranges::count(used, 0U) > 0 ? 0 : table_.stack(used);
}

void DeviceRecorder::mark(std::string_view text, MarkKind kind) {
  if (!is_recording()) return;
  write(RecordKind::kMark, {mark_text(text), static_cast<std::uint64_t>(kind), 0});
  keyframe_if_due();
}

void DeviceRecorder::take_marks() {
  if (!is_recording()) return;
  next_mark_ = marks_.take(next_mark_, [this](const SaidMark& mark) { write_mark(mark); });
  keyframe_if_due();
}

void DeviceRecorder::write_mark(const SaidMark& mark) {
  Record record;
  record.kind = RecordKind::kMark;
  record.ticks = mark.ticks;
  record.thread = mark.thread;
  record.address = mark_text(mark.text);
  record.size = static_cast<std::uint64_t>(mark.kind);
  record.other = static_cast<std::uint64_t>(mark.source);
  append(record);
  last_kind_ = RecordKind::kMark;
}

std::uint32_t DeviceRecorder::mark_text(std::string_view text) {
  const std::uint32_t id = table_.text_within(text, text_room_);
  std::array<char, MarkLog::kMostBytes> place;
  if (id != 0) return id;
  text = text.substr(0, place.size());
  const std::uint32_t family = table_.text_within(family_of(text, place), family_room_);
  if (family == 0) add_one(ring_.header().table_refused);
  return family;
}

bool DeviceRecorder::has_room_for_annotations() {
  // Two of them for each record since, themselves among them.
  const std::uint64_t written = writer_.written();
  const std::uint64_t since = written - std::exchange(annotation_room_at_, written);
  const std::uint64_t most = writer_.capacity() / kAnnotationShare;
  annotation_room_ = std::min(annotation_room_ + since, most);
  if (annotation_room_ < 2) return false;
  annotation_room_ -= 2;
  return true;
}

void DeviceRecorder::settings(std::string_view conf) {
  if (!is_recording()) return;
  const std::uint32_t text = table_.text(conf);
  keep_settings(text);
  write(RecordKind::kSettings, {text, 0, 0});
}

void DeviceRecorder::keep_settings(std::uint32_t text) {
  const auto begin = settings_.begin();
  auto end = std::remove(begin, begin + static_cast<std::ptrdiff_t>(settings_count_), text);
  if (end == settings_.end()) end = std::shift_left(begin, end, 1);
  *end++ = text;
  settings_count_ = static_cast<std::size_t>(end - begin);
}

void DeviceRecorder::device_memory(policy::Capacity capacity, std::uint64_t others_bytes) {
  write(RecordKind::kDeviceMemory, {capacity.free_bytes, capacity.total_bytes, others_bytes});
  keyframe_if_due();
}

void DeviceRecorder::device_use(policy::Capacity capacity,
                                std::span<const ProcessOnDevice> processes,
                                std::string_view refusal) {
  if (!is_recording()) return;
  std::uint64_t others_bytes = 0;
  for (const ProcessOnDevice& process : processes) {
    const std::uint32_t name = process.name.empty() ? 0 : table_.text(process.name);
    write(process.is_this ? RecordKind::kThisProcess : RecordKind::kProcess,
          {process.pid, process.used_bytes.value_or(policy::kUnlimited), name});
    if (!process.is_this) others_bytes += process.used_bytes.value_or(0);
  }
  if (!refusal.empty()) write(RecordKind::kProcessesRefused, {table_.text(refusal), 0, 0});
  device_memory(capacity, others_bytes);
}

void DeviceRecorder::fact(std::string_view name, std::string_view value) {
  if (!is_recording()) return;
  static_cast<void>(table_.fact(table_.text(name), table_.text(value)));
}

void DeviceRecorder::snapshot_taken(std::uint64_t active_bytes) {
  write(RecordKind::kSnapshot, {0, active_bytes, 0});
  keyframe_if_due();
}

// --- What the policy decides. --------------------------------------------------------------------

void DeviceRecorder::on_alloc(const policy::Block& block) {
  block.tag = stack_;
  write(RecordKind::kAlloc, block, {block.address, block.size, block.requested_size});
  // The hand-out was its last step.
  keyframe_if_due();
}

void DeviceRecorder::on_free_requested(const policy::Block& block) {
  write(RecordKind::kFreeRequested, block, {block.address, block.size, block.requested_size});
  // One that waits for other streams is completed by a later call.
  if (!block.used_on.empty()) last_kind_ = RecordKind::kNone;
}

void DeviceRecorder::on_free_completed(const policy::Block& block) {
  write(RecordKind::kFreeCompleted, block, {block.address, block.size, block.requested_size});
  // The block is free and not merged yet, here as in what was recorded. A program may free for
  // longer than the ring holds.
  keyframe_if_due();
}

void DeviceRecorder::on_segment_alloc(const policy::Block& block) {
  const std::uint32_t took = std::exchange(driver_time_, 0);
  write(RecordKind::kSegmentAlloc, block, {block.address, block.size, 0, took});
}

void DeviceRecorder::on_segment_freed(const policy::Block& block) {
  const std::uint32_t took = std::exchange(driver_time_, 0);
  write(RecordKind::kSegmentFree, block, {block.address, block.size, 0, took});
}

void DeviceRecorder::on_segment_map(const policy::Block& block,
                                    policy::Address start,
                                    std::uint64_t size) {
  const std::uint32_t took = std::exchange(driver_time_, 0);
  write(RecordKind::kSegmentMap, block, {start, size, block.expandable->base, took});
}

void DeviceRecorder::on_segment_unmap(const policy::Block& block,
                                      policy::Address start,
                                      std::uint64_t size) {
  const std::uint32_t took = std::exchange(driver_time_, 0);
  write(RecordKind::kSegmentUnmap, block, {start, size, block.expandable->base, took});
}

void DeviceRecorder::on_split(const policy::Block& front, const policy::Block& rest) {
  write(RecordKind::kSplit, front, {front.address, front.size, rest.size});
}

void DeviceRecorder::on_merge(const policy::Block& block,
                              policy::Address start,
                              std::uint64_t /*size*/) {
  write(RecordKind::kMerge, block, {block.address, block.size, start});
}

void DeviceRecorder::on_record_stream(const policy::Block& block, policy::StreamId other) {
  if (!is_recording()) return;
  write(RecordKind::kRecordStream, block, {block.address, block.size, stream_id(other)});
  keyframe_if_due();
}

void DeviceRecorder::on_retry(std::uint64_t device_allocation, policy::StreamId stream) {
  if (!is_recording()) return;
  Record record;
  record.kind = RecordKind::kRetry;
  record.size = device_allocation;
  record.stream = stream_id(stream);
  write(record);
}

void DeviceRecorder::on_cache_release(std::uint64_t bytes,
                                      std::uint64_t count,
                                      policy::PoolId only) {
  if (!is_recording()) return;
  Record record;
  record.kind = RecordKind::kCacheRelease;
  record.size = bytes;
  record.other = count;
  record.pool = pool_id(only);
  write(record);
}

void DeviceRecorder::on_limit(std::optional<std::uint64_t> bytes) {
  limit_ = bytes.value_or(policy::kUnlimited);
  write(RecordKind::kLimit, {0, *limit_, 0});
}

void DeviceRecorder::on_out_of_memory(const policy::AllocationFailure& failure,
                                      policy::StreamId stream,
                                      policy::PoolId pool) {
  if (!is_recording()) return;
  write(RecordKind::kDeviceMemory, {failure.capacity.free_bytes, failure.capacity.total_bytes, 0});
  Record record;
  record.kind = RecordKind::kOutOfMemory;
  record.address = failure.capacity.free_bytes;
  record.size = failure.rounded_size;
  record.other = failure.requested_size;
  record.stream = stream_id(stream);
  record.pool = pool_id(pool);
  if (policy::size_class(failure.rounded_size) == policy::SizeClass::kLarge) {
    record.flags |= trace::kFlagLarge;
  }
  write(record);
  count_failure();
  keyframe_if_due();
}

// --- Keyframes. ----------------------------------------------------------------------------------

// The last whole keyframe must still be there when the next one is complete, however many blocks
// there are by then: the deadline, to which written records and blocks add up.
void DeviceRecorder::keyframe_if_due() {
  // In a forked child even to look would be a race with the threads that it lost.
  if (policy_ == nullptr || !is_recording()) return;
  const std::uint64_t written = writer_.written();
  if (written >= next_keyframe_ || written + policy_->block_count() >= keyframe_deadline_) {
    keyframe();
  }
}

// At most as long that two keyframes of now fit in beside it; where there is room so long that an
// eighth of the records or less are of keyframes.
std::uint64_t DeviceRecorder::keyframe_interval() const {
  const std::uint64_t quarter = writer_.capacity() / 4;
  const std::uint64_t blocks = policy_ == nullptr ? 0 : policy_->block_count();
  const std::uint64_t two_keyframes = std::min(2 * blocks, writer_.capacity());
  return std::max(quarter, std::min(8 * blocks, writer_.capacity() - two_keyframes));
}

void DeviceRecorder::keyframe() {
  if (!is_recording() || policy_ == nullptr) return;
  next_keyframe_ = writer_.written() + writer_.capacity() / 4;
  keyframe_deadline_ = policy::kUnlimited;
  const std::uint64_t blocks = policy_->block_count();
  if (blocks > writer_.capacity() / 8 * 3) {
    count_refused_keyframe();
    return;
  }
  const std::uint64_t begin = writer_.written();
  write_blocks();
  standing_facts();
  keyframe_deadline_ = begin + writer_.capacity() - std::min(kSpareRecords, writer_.capacity() / 4);
  next_keyframe_ = writer_.written() + keyframe_interval();
}

void DeviceRecorder::write_blocks() {
  const std::uint64_t blocks = policy_->block_count();
  write(RecordKind::kKeyframeBegin, {keyframes_, blocks, policy_->held_bytes()});
  policy_->visit_blocks([this](const policy::Block& block) {
    Record record = record_of(RecordKind::kKeyframeBlock, block);
    record.address = block.address;
    record.size = block.size;
    record.other = block.requested_size;
    const bool is_pending = !block.allocated && !block.is_free();
    record.flags |= block.allocated ? trace::kFlagAllocated : 0;
    record.flags |= is_pending ? trace::kFlagPending : 0;
    record.flags |= block.mapped ? 0 : trace::kFlagUnmapped;
    if (block.prev == nullptr) {
      record.flags |= trace::kFlagFirst;
      record.detail = static_cast<std::uint32_t>(block.segment_number);
    }
    const std::uint32_t current = std::exchange(stack_, block.tag);
    write(record);
    stack_ = current;
  });
  write(RecordKind::kKeyframeEnd, {keyframes_++, blocks, 0});
}

// What was said once and would be overwritten.
void DeviceRecorder::standing_facts() {
  const trace::ClockAnchor now = trace::anchor_now(clock_);
  Record record;
  record.kind = RecordKind::kClock;
  record.address = now.monotonic_ns;
  record.size = now.unix_ns;
  write(record);
  for (std::size_t i = 0; i < settings_count_; ++i) {
    const bool is_last = i + 1 == settings_count_;
    if (settings_[i] != 0) write(RecordKind::kSettings, {settings_[i], 0, is_last ? 0U : 1U});
  }
  if (limit_) write(RecordKind::kLimit, {0, *limit_, 0});
}

// --- Records. ------------------------------------------------------------------------------------

Record DeviceRecorder::record_of(RecordKind kind, const policy::Block& block) {
  Record record;
  record.kind = kind;
  record.stream = stream_id(block.stream);
  if (block.pool->owner() != nullptr) record.pool = pool_id(block.pool->owner()->id);
  if (block.pool->size_class() == policy::SizeClass::kLarge) record.flags |= trace::kFlagLarge;
  if (block.expandable != nullptr) record.flags |= trace::kFlagExpandable;
  if (!block.mapped) record.flags |= trace::kFlagUnmapped;
  return record;
}

/// Whether it completes what the record before began, in the same call of the policy.
bool DeviceRecorder::completes_last(RecordKind kind) const {
  switch (kind) {
    case RecordKind::kMerge:
    case RecordKind::kKeyframeBlock:
      return true;
    case RecordKind::kAlloc:
      return last_kind_ == RecordKind::kSplit;
    case RecordKind::kFreeCompleted:
      return last_kind_ == RecordKind::kFreeRequested;
    default:
      return false;
  }
}

void DeviceRecorder::stamp_and_append(Record& record) {
  // The time stamp is most of what a record costs; one call of the policy needs one.
  if (!completes_last(record.kind)) {
    ticks_ = trace::ticks_now(clock_);
    thread_ = thread_id(pid_);
  }
  last_kind_ = record.kind;
  record.ticks = ticks_;
  record.thread = thread_;
  record.stack = stack_;
  record.device = device_;
  if (policy_ != nullptr && policy_->is_capture_underway()) record.flags |= trace::kFlagCapturing;
  writer_.append(record);
}

void DeviceRecorder::write(Record& record) {
  if (is_recording()) stamp_and_append(record);
}

void DeviceRecorder::append(Record& record) {
  if (record.ticks == 0) record.ticks = trace::ticks_now(clock_);
  if (record.thread == 0) record.thread = thread_id(pid_);
  record.device = device_;
  writer_.append(record);
}

void DeviceRecorder::count_failure() {
  add_one(ring_.header().failures);
}

void DeviceRecorder::count_refused_keyframe() {
  add_one(ring_.header().keyframes_refused);
}

void DeviceRecorder::write(RecordKind kind, const policy::Block& block, const Fields& fields) {
  if (!is_recording()) return;
  Record record = record_of(kind, block);
  record.address = fields.address;
  record.size = fields.size;
  record.other = fields.other;
  record.detail = fields.detail;
  stamp_and_append(record);
}

void DeviceRecorder::write(RecordKind kind, const Fields& fields) {
  Record record;
  record.kind = kind;
  record.address = fields.address;
  record.size = fields.size;
  record.other = fields.other;
  write(record);
}

std::uint32_t DeviceRecorder::stream_id(policy::StreamId stream) {
  if (stream == 0) return 0;
  if (stream == last_stream_) return last_stream_id_;
  // Only what is written may take room: after a fork the table is the parent's.
  if (!is_recording()) return trace::kUnknownStream;
  const std::uint32_t id = table_.stream(stream);
  if (id == 0) return trace::kUnknownStream;
  last_stream_ = stream;
  last_stream_id_ = id;
  return id;
}

std::uint16_t DeviceRecorder::pool_id(policy::PoolId pool) {
  if (pool == policy::PoolId{}) return 0;
  if (!is_recording()) return trace::kUnknownPool;
  const std::uint32_t id = table_.pool(pool.first, pool.second);
  return id == 0 || id >= trace::kUnknownPool ? trace::kUnknownPool
                                              : static_cast<std::uint16_t>(id);
}

}  // namespace fragscope::recorder
