// SPDX-License-Identifier: Apache-2.0
#include "analyzer/whatif/program/program_of_trace.hpp"

#include "analyzer/recording/plural.hpp"
#include "analyzer/whatif/program/program_builder.hpp"
#include "trace/format/header_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string>

namespace fragscope::whatif {
namespace {

using trace::Record;
using trace::RecordKind;

class TraceReading {
 public:
  TraceReading(const model::TraceHistory& history,
               const model::Recording& recording,
               model::TraceHistory::Stretch stretch)
      : history_(history)
      , recording_(recording)
      , known_from_(stretch.begin)
      , stretch_(history.of_whole_requests(stretch)) {}

  [[nodiscard]] Program read() {
    Program& program = builder_.program();
    const trace::Header& header = history_.header();
    program.version = policy::torch_version(trace::text_of(header.torch_version))
                          .value_or(policy::TorchVersion::kTorch215);
    conf_problem_ = policy::apply_conf(trace::text_of(header.conf), program.version, program.conf);
    program.device_bytes = header.device_total_bytes;
    program.first_event = stretch_.begin;
    if (header.source != trace::TraceSource::kPytorchNative) builder_.tell_retries();
    take_beginning();
    builder_.set_expandable(program.conf.rules.expandable_segments);
    history_.visit_records({known_from_, stretch_.begin},
                           [this](const Record& record) { take_left_out(record); });
    history_.visit_records(stretch_, [this](const Record& record) { take(record); });
    Program made = builder_.finish();
    add_doubts(made);
    return made;
  }

 private:
  void take_beginning() {
    const std::array target = {stretch_.begin};
    history_.visit_states_until(target, [this](model::EventIndex, model::HeapState& heap) {
      for (const model::HeapSegment& segment : heap.segments)
        held_bytes_ += segment.size_bytes;
      builder_.begin_with(heap, recording_.pools, recording_.settings.rules);
      return false;
    });
  }

  [[nodiscard]] ProgramBuilder::Home home_of(const Record& record) const {
    const model::PoolId& pool =
        recording_.pools[model::index_of(history_.names().pool(record.pool))];
    return {static_cast<policy::StreamId>(history_.names().stream(record.stream)),
            {pool.first, pool.second}};
  }

  void take(const Record& record) {
    builder_.at(
        static_cast<std::uint32_t>(record.commit - 1 - static_cast<std::uint64_t>(stretch_.begin)));
    switch (record.kind) {
      case RecordKind::kAlloc:
        note_capture(record);
        return builder_.allocate(record.address, record.other, home_of(record));
      case RecordKind::kFreeRequested:
        note_capture(record);
        return builder_.free(record.address);
      case RecordKind::kFreeCompleted:
        return builder_.complete(record.address);
      case RecordKind::kRecordStream: {
        note_capture(record);
        const auto other = history_.names().stream(static_cast<std::uint32_t>(record.other));
        return builder_.record_stream(record.address, static_cast<policy::StreamId>(other));
      }
      case RecordKind::kOutOfMemory:
        note_capture(record);
        builder_.fail(record.other, home_of(record));
        return take_outside();
      case RecordKind::kSegmentAlloc:
      case RecordKind::kSegmentFree:
      case RecordKind::kSegmentMap:
      case RecordKind::kSegmentUnmap:
        return take_device_call(record);
      default:
        return take_other(record);
    }
  }

  // Of a request that began before the keyframe: only what was said meanwhile.
  void take_left_out(const Record& record) {
    switch (record.kind) {
      case RecordKind::kLimit:
      case RecordKind::kSettings:
      case RecordKind::kDeviceMemory:
        return take_other(record);
      case RecordKind::kOutOfMemory:
        return take_outside();
      default:
        return;
    }
  }

  // What a failure shows counts, and no other moment.
  void take_outside() {
    if (outside_bytes_) builder_.program().outside_bytes = outside_bytes_;
    has_failure_ = true;
  }

  void take_device_call(const Record& record) {
    using Kind = DeviceCall::Kind;
    const bool is_page =
        record.kind == RecordKind::kSegmentMap || record.kind == RecordKind::kSegmentUnmap;
    const bool gets =
        record.kind == RecordKind::kSegmentAlloc || record.kind == RecordKind::kSegmentMap;
    const Kind kind =
        is_page ? (gets ? Kind::kMap : Kind::kUnmap) : (gets ? Kind::kAllocate : Kind::kFree);
    held_bytes_ = gets ? held_bytes_ + record.size : held_bytes_ - record.size;
    builder_.device_call(kind,
                         record.address,
                         record.size,
                         is_page ? record.other : 0,
                         home_of(record).pool,
                         record.detail);
  }

  void take_other(const Record& record) {
    switch (record.kind) {
      case RecordKind::kRetry:
        return builder_.retry();
      case RecordKind::kCacheRelease:
        return builder_.cache_released(home_of(record).pool);
      case RecordKind::kLimit:
        // Keyframes repeat it, and the settings.
        if (record.size != limit_bytes_) builder_.limit(record.size);
        limit_bytes_ = record.size;
        return;
      case RecordKind::kSettings:
        // Of those that keyframes repeat, all but the last are for who begins there.
        if (record.other != 0 && knows_settings_) return;
        knows_settings_ = record.other == 0;
        if (record.address != settings_) {
          builder_.settings(std::string(history_.table().text(record.address)));
        }
        settings_ = record.address;
        return;
      case RecordKind::kMark:
        return builder_.mark(std::string(history_.table().text(record.address)),
                             static_cast<std::uint16_t>(record.size));
      case RecordKind::kDeviceMemory:
        return take_device_memory(record);
      default:
        return;
    }
  }

  void take_device_memory(const Record& record) {
    builder_.program().device_bytes = record.size;
    const std::uint64_t used = record.size - std::min(record.size, record.address);
    outside_bytes_ = used - std::min(used, held_bytes_);
    if (!has_failure_) builder_.program().outside_bytes = outside_bytes_;
  }

  // Only requests and frees are asked where a capture matters.
  void note_capture(const Record& record) {
    builder_.capture((record.flags & trace::kFlagCapturing) != 0);
  }

  void add_doubts(Program& program) const {
    if (conf_problem_) {
      program.doubts.push_back("the recorded options are not all known: " + conf_problem_->message);
    }
    const auto& segments = program.start.segments;
    const bool has_order = segments.size() < 2 ||
                           std::ranges::any_of(segments, [](const policy::ImageSegment& segment) {
                             return segment.number > 0;
                           });
    if (!has_order && program.version != policy::TorchVersion::kTorch26) {
      program.doubts.push_back(
          "the recording begins in the middle of the program: which of several free blocks of one "
          "size is the oldest is not known for those that were there before");
    }
    doubt_unknown_ages(program);
    if (builder_.unknown_frees() > 0) {
      program.doubts.push_back(fmt::format(
          "{} that nobody had seen handed out",
          model::plural(builder_.unknown_frees(), "free of a block", "frees of blocks")));
    }
  }

  const model::TraceHistory& history_;
  const model::Recording& recording_;
  model::EventIndex known_from_;
  model::TraceHistory::Stretch stretch_;
  ProgramBuilder builder_;
  std::optional<policy::ConfError> conf_problem_;
  std::uint64_t held_bytes_ = 0;
  std::optional<std::uint64_t> outside_bytes_;
  std::optional<std::uint64_t> limit_bytes_;
  std::uint64_t settings_ = 0;
  bool knows_settings_ = false;
  bool has_failure_ = false;
};

}  // namespace

Result<Program> program_of_trace(const model::TraceHistory& history,
                                 const model::Recording& recording,
                                 std::uint64_t at_most) {
  const auto stretch = history.last_stretch(at_most);
  if (stretch.end - stretch.begin > std::numeric_limits<std::uint32_t>::max()) {
    return failure(ErrorCode::kTooLarge, "more than 2^32 records are not replayed at once");
  }
  Program program = TraceReading(history, recording, stretch).read();
  if (is_sound(program.start)) return program;
  return failure(ErrorCode::kContradictory,
                 "the trace begins with blocks that cannot be there together");
}

}  // namespace fragscope::whatif
