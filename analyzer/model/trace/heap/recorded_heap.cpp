// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/trace/heap/recorded_heap.hpp"

#include "allocator/policy/conf/size_options.hpp"
#include "trace/format/header_text.hpp"

#include <utility>

namespace fragscope::model {
namespace {

using trace::Record;
using trace::RecordKind;

}  // namespace

EarlierKeyframes::EarlierKeyframes(trace::TraceReader reader)
    : reader_(std::move(reader)) {
  for (std::size_t i = 0; i < reader_.chunk_count(); ++i) {
    const auto records = reader_.records(i);
    if (!records) continue;
    for (const Record& record : *records) {
      const std::uint64_t number = record.commit - 1;
      if (record.kind == RecordKind::kKeyframeBegin && record.stack > 0 && record.stack <= number) {
        begins_[number - record.stack] = number;
      }
    }
  }
}

std::vector<Record> EarlierKeyframes::behind(std::uint64_t record) {
  std::vector<Record> keyframe;
  const auto found = begins_.find(record);
  if (found == begins_.end()) return keyframe;
  for (std::size_t i = reader_.chunk_of(found->second); i < reader_.chunk_count(); ++i) {
    const auto records = reader_.records(i);
    if (!records) break;
    for (const Record& next : *records) {
      if (next.commit - 1 < found->second) continue;
      const bool follows = next.commit - 1 == found->second + keyframe.size();
      const bool is_end = next.kind == RecordKind::kKeyframeEnd;
      if (!follows || (!keyframe.empty() && !is_end && next.kind != RecordKind::kKeyframeBlock)) {
        return {};
      }
      keyframe.push_back(next);
      if (!is_end) continue;
      // As many as announced, and its begin and end.
      if (keyframe.size() - 2 != keyframe.front().size) return {};
      return keyframe;
    }
  }
  return {};
}

RecordedHeap::RecordedHeap(const trace::Header& header,
                           const trace::Table& table,
                           EarlierKeyframes* keyframes)
    : header_(&header)
    , table_(&table)
    , keyframes_(keyframes)
    , heap_(std::make_unique<TraceHeap>()) {
  if (header.source != trace::TraceSource::kPytorchNative) {
    heap_->trust_spaces();
    return;
  }
  native_ = std::make_unique<NativeRecords>(*heap_, header.device_total_bytes);
  use_settings(0);
}

void RecordedHeap::begin_empty() {
  heap_->begin_empty();
  if (native_) native_->find_free_blocks();
}

void RecordedHeap::lose() {
  heap_->lose();
  is_in_earlier_keyframe_ = false;
  if (native_) native_->find_free_blocks();
}

void RecordedHeap::use_settings(std::uint64_t text) {
  if (text > table_->count(trace::TableKind::kText)) return;
  settings_ = text;
  if (!native_) return;
  const std::string_view conf = text == 0 ? trace::text_of(header_->conf) : table_->text(text);
  native_->use(policy::read_size_options(conf).rules);
}

void RecordedHeap::listen(std::function<void(const Record&)> listener) {
  listener_ = std::move(listener);
  if (native_) native_->listen(listener_);
}

void RecordedHeap::tell(const Record& record) const {
  if (listener_) listener_(record);
}

void RecordedHeap::apply(const Record& record) {
  if (record.kind == RecordKind::kSettings) use_settings(record.address);
  if (record.kind == RecordKind::kUnknownChanges) {
    tell(record);
    return lose();
  }
  if (!native_) {
    heap_->apply(record);
    return tell(record);
  }
  apply_native(record);
  if (keyframes_ == nullptr) return;
  const std::vector<Record> keyframe = keyframes_->behind(record.commit - 1);
  if (!keyframe.empty()) native_->take_keyframe(keyframe);
}

// A keyframe of an earlier moment was taken there. Only its own records are passed over, so that a
// walk that begins among them sees the same.
void RecordedHeap::apply_native(const Record& record) {
  const bool is_block = record.kind == RecordKind::kKeyframeBlock;
  const bool is_end = record.kind == RecordKind::kKeyframeEnd;
  const bool was_in_earlier = is_in_earlier_keyframe_;
  is_in_earlier_keyframe_ =
      record.kind == RecordKind::kKeyframeBegin ? record.stack > 0 : was_in_earlier && is_block;
  if (is_in_earlier_keyframe_ || (was_in_earlier && is_end)) {
    heap_->abandon_keyframe();
    return tell(record);
  }
  native_->apply(record);
  if (is_end) native_->find_free_blocks();
}

}  // namespace fragscope::model
