// SPDX-License-Identifier: Apache-2.0
#include "analyzer/ingest/snapshot_builder.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

namespace fragscope::ingest {
namespace {

using model::Action;
using model::BlockState;
using model::index_of;
using model::PoolIndex;
using model::StackId;
using model::StringId;

constexpr KeySet kDivisionKeys =
    (KeySet{1} << (static_cast<unsigned>(Key::kDivision32768) + 1)) - 1;
constexpr std::size_t kMaxRecords = std::numeric_limits<std::uint32_t>::max() / 2;

constexpr std::string_view kEventWord = "trace entry";
constexpr std::string_view kSegmentWord = "segment";
constexpr std::string_view kBlockWord = "block";
constexpr std::string_view kFrameWord = "frame";

std::string quoted(std::string_view text) {
  constexpr std::size_t kShown = 40;
  std::string shown = "'";
  for (const char c : text.substr(0, kShown))
    shown += c >= ' ' && c < 127 ? c : '?';
  return shown + (text.size() > kShown ? "...'" : "'");
}

}  // namespace

SnapshotBuilder::SnapshotBuilder(model::Recording& recording, std::size_t expected_events)
    : recording_(recording)
    , lists_(recording, dicts_) {
  recording_.events.reserve(expected_events);
  dicts_.reserve(expected_events);
  lists_.reserve(expected_events);

  for (const std::string_view name : kKeyNames)
    static_cast<void>(recording_.strings.intern(name));
  for (const std::string_view name : kActionNames) {
    static_cast<void>(recording_.strings.intern(name));
  }
}

bool SnapshotBuilder::fail(std::string message, ErrorCode code) {
  error_ = Error{code, std::move(message), {}, {}, {}};
  return false;
}

Value SnapshotBuilder::string(std::string_view text) {
  constexpr std::size_t kShort = 7;
  if (text.size() > kShort) return {ValueKind::kString, index_of(recording_.strings.intern(text))};
  std::uint64_t bytes = 0;
  std::memcpy(&bytes, text.data(), text.size());
  bytes |= static_cast<std::uint64_t>(text.size()) << 56;
  ShortString& known = short_strings_[(bytes * 0x9e3779b97f4a7c15ULL) >> 56];
  if (known.bytes != bytes) known = {bytes, recording_.strings.intern(text)};
  return {ValueKind::kString, index_of(known.id)};
}

Value SnapshotBuilder::new_dict() {
  dicts_.emplace_back();
  return {ValueKind::kDict, dicts_.size() - 1};
}

SnapshotBuilder::Fields SnapshotBuilder::fields_of(std::span<const Value> keys_and_values) {
  Fields fields;
  for (std::size_t i = 0; i + 1 < keys_and_values.size(); i += 2) {
    const Value& key = keys_and_values[i];
    if (key.kind != ValueKind::kString || key.payload >= kKeyCount) continue;
    fields.keys |= KeySet{1} << key.payload;
    fields.values[key.payload] = &keys_and_values[i + 1];
  }
  return fields;
}

DictKind SnapshotBuilder::kind_of(const Fields& fields) {
  // An annotation may have an 'action' too, but it has a name, and a trace entry has none.
  if (fields.has(Key::kAction) && !fields.has(Key::kName)) return DictKind::kEvent;
  if (fields.has(Key::kFilename) && fields.has(Key::kName)) return DictKind::kFrame;
  if (fields.has(Key::kBlocks)) return DictKind::kSegment;
  if (fields.has(Key::kState)) return DictKind::kBlock;
  if (fields.has(Key::kRealSize)) return DictKind::kHistory;
  if (fields.has(Key::kSegments)) return DictKind::kRoot;
  if (fields.has(Key::kConf) || fields.has(Key::kMaxSplitSize)) return DictKind::kSettings;
  if (fields.keys != 0 && (fields.keys & ~kDivisionKeys) == 0) return DictKind::kDivisions;
  return DictKind::kOpaque;
}

bool SnapshotBuilder::set_items(std::uint64_t dict,
                                std::span<const Value> keys_and_values,
                                std::uint64_t byte_offset) {
  DictSlot& slot = dicts_[dict];
  const Fields fields = fields_of(keys_and_values);
  if (slot.kind != DictKind::kUnset) {
    // Only a dict of over a thousand entries comes in parts, and none of the known ones has that.
    if (slot.kind == DictKind::kOpaque && kind_of(fields) == DictKind::kOpaque) return true;
    return fail("a dict is filled a second time; snapshots fill each one once");
  }
  if (std::max({recording_.events.size(), blocks.size(), dicts_.size()}) > kMaxRecords) {
    return fail("more records than this version can number", ErrorCode::kTooLarge);
  }
  slot.kind = kind_of(fields);
  if (fill(slot, fields) || error_.code == ErrorCode::kTooLarge) {
    return error_.code != ErrorCode::kTooLarge;
  }
  // An annotation may have any keys. Only where a record is needed is this an error.
  slot.kind = DictKind::kBroken;
  lists_.note_broken();
  broken_ = std::exchange(error_, {});
  broken_->byte_offset = byte_offset;
  return true;
}

bool SnapshotBuilder::fill(DictSlot& slot, const Fields& fields) {
  const auto next = [](const auto& records) { return static_cast<std::uint32_t>(records.size()); };
  switch (slot.kind) {
    case DictKind::kEvent:
      slot.record = next(recording_.events);
      return read_event(fields);
    case DictKind::kFrame:
      return read_frame(fields, &slot.record);
    case DictKind::kBlock:
      slot.record = next(blocks);
      return read_block(fields);
    case DictKind::kSegment:
      slot.record = next(segments);
      return read_segment(fields);
    case DictKind::kHistory:
      slot.record = next(histories_);
      return read_history(fields);
    case DictKind::kSettings:
      return read_settings(fields);
    case DictKind::kDivisions:
      return read_divisions(fields);
    case DictKind::kRoot:
      return read_root(fields);
    case DictKind::kOpaque:
      read_annotation(fields);
      return true;
    case DictKind::kUnset:
    case DictKind::kBroken:
      return true;
  }
  return true;
}

// What is no annotation as PyTorch writes them is nothing that a reader needs.
void SnapshotBuilder::read_annotation(const Fields& fields) {
  for (const Key key : {Key::kName, Key::kStage, Key::kTimeUs, Key::kDevice})
    if (!fields.has(key)) return;
  const Value& name = fields[Key::kName];
  const Value& stage = fields[Key::kStage];
  const Value& time = fields[Key::kTimeUs];
  const Value& device = fields[Key::kDevice];
  if (name.kind != ValueKind::kString || stage.kind != ValueKind::kString) return;
  if (time.kind != ValueKind::kInt || device.kind != ValueKind::kInt) return;
  const std::string_view word =
      recording_.strings.view(model::StringId{static_cast<std::uint32_t>(stage.payload)});
  if (word != "START" && word != "END") return;
  const auto ordinal = static_cast<std::int64_t>(device.payload);
  if (ordinal < 0 || ordinal > std::numeric_limits<std::int32_t>::max()) return;
  recording_.annotations.push_back({model::StringId{static_cast<std::uint32_t>(name.payload)},
                                    static_cast<std::int64_t>(time.payload),
                                    static_cast<std::int32_t>(ordinal),
                                    word == "START"});
}

bool SnapshotBuilder::read_u64(const Fields& fields,
                               Key key,
                               std::string_view what,
                               std::uint64_t* out) {
  if (fields.has(key)) {
    const Value& value = fields[key];
    const bool negative =
        value.kind == ValueKind::kInt && static_cast<std::int64_t>(value.payload) < 0;
    if ((value.kind == ValueKind::kInt && !negative) || value.kind == ValueKind::kUint) {
      *out = value.payload;
      return true;
    }
    return fail("'" + std::string(name_of(key)) + "' of a " + std::string(what) +
                (negative ? " is negative" : " is no integer") + "; expected 0 or more");
  }
  return fail("a " + std::string(what) + " without '" + std::string(name_of(key)) + "'");
}

bool SnapshotBuilder::read_i64(const Fields& fields,
                               Key key,
                               std::string_view what,
                               std::int64_t* out) {
  if (!fields.has(key)) return true;
  const Value& value = fields[key];
  if (value.kind != ValueKind::kInt) {
    return fail("'" + std::string(name_of(key)) + "' of a " + std::string(what) +
                " is no integer of 63 bits");
  }
  *out = static_cast<std::int64_t>(value.payload);
  return true;
}

bool SnapshotBuilder::read_pool(const Fields& fields,
                                Key key,
                                std::string_view what,
                                PoolIndex* out) {
  if (!fields.has(key)) return true;
  const Value& value = fields[key];
  if (value.kind == ValueKind::kPair) {
    *out = PoolIndex{static_cast<std::uint16_t>(value.payload)};
    return true;
  }
  // A snapshot that went through JSON has a list here.
  if (const ListSlot* list = lists_.use(value); list != nullptr && list->kind == ListKind::kPair) {
    *out = PoolIndex{static_cast<std::uint16_t>(list->range.first)};
    return true;
  }
  return fail("'" + std::string(name_of(key)) + "' of a " + std::string(what) +
              " is no pair of numbers (or there are over 4096 pools)");
}

bool SnapshotBuilder::read_stack(const Fields& fields,
                                 Key key,
                                 std::string_view what,
                                 StackId* out) {
  if (!fields.has(key)) return true;
  if (fields[key].kind == ValueKind::kNone) return true;
  const ListSlot* list = lists_.use(fields[key]);
  if (list != nullptr && list->kind == ListKind::kEmpty) return true;
  if (list != nullptr && list->kind == ListKind::kBroken) return fail_broken();
  if (list == nullptr || list->kind != ListKind::kStack) {
    return fail("'" + std::string(name_of(key)) + "' of a " + std::string(what) +
                " is no list of frames");
  }
  *out = StackId{list->range.first};
  return true;
}

bool SnapshotBuilder::read_range(const Fields& fields, Key key, ListKind kind, RecordRange* out) {
  if (!fields.has(key)) return true;
  const ListSlot* list = lists_.use(fields[key]);
  if (list != nullptr && list->kind == ListKind::kEmpty) return true;
  if (list != nullptr && list->kind == ListKind::kBroken) return fail_broken();
  if (list == nullptr || list->kind != kind) {
    return fail("'" + std::string(name_of(key)) + "' is not the list that a snapshot has there",
                ErrorCode::kForeign);
  }
  *out = list->range;
  return true;
}

bool SnapshotBuilder::fail_broken() {
  error_ = broken_.value_or(Error{});
  return false;
}

bool SnapshotBuilder::fail_too_large(std::uint64_t size_bytes) {
  return fail("a size of " + std::to_string(size_bytes) +
              " bytes; the allocator refuses 1 EiB and more, so none is in a snapshot");
}

bool SnapshotBuilder::read_event(const Fields& fields) {
  model::Event event;
  const Value& action = fields[Key::kAction];
  if (action.kind != ValueKind::kString) return fail("'action' of a trace entry is no string");
  const std::uint64_t known = action.payload - kKeyCount;
  if (known < kActionNames.size()) {
    event.action = static_cast<Action>(known);
  } else {
    const StringId name{static_cast<std::uint32_t>(action.payload)};
    constexpr std::size_t kNamed = 16;
    if (unknown_actions.size() < kNamed && std::ranges::count(unknown_actions, name) == 0) {
      unknown_actions.push_back(name);
    }
    ++unknown_action_count;
  }

  const bool is_oom = event.action == Action::kOom;
  const bool is_known = event.action < Action::kSnapshot;
  const Key address_key = is_oom ? Key::kDeviceFree : Key::kAddr;
  event.has_address = fields.has(address_key);
  if (event.has_address || (is_known && !is_oom)) {
    if (!read_u64(fields, address_key, kEventWord, &event.address)) return false;
  }
  if (fields.has(Key::kSize) || is_known) {
    if (!read_u64(fields, Key::kSize, kEventWord, &event.size_bytes)) return false;
  }
  if (!read_i64(fields, Key::kStream, kEventWord, &event.stream) ||
      !read_i64(fields, Key::kTimeUs, kEventWord, &event.time_us) ||
      !read_pool(fields, Key::kPoolId, kEventWord, &event.pool) ||
      !read_stack(fields, Key::kFrames, kEventWord, &event.stack)) {
    return false;
  }
  if (is_known && event.size_bytes >= policy::kTooLarge) return fail_too_large(event.size_bytes);
  seen_event_keys |= fields.keys;
  recording_.events.push_back(event);
  return true;
}

bool SnapshotBuilder::read_frame(const Fields& fields, std::uint32_t* record) {
  model::Frame frame;
  if (fields[Key::kName].kind != ValueKind::kString ||
      fields[Key::kFilename].kind != ValueKind::kString) {
    return fail("a frame whose 'name' or 'filename' is no string");
  }
  if (!read_i64(fields, Key::kLine, kFrameWord, &frame.line)) return false;
  frame.name = StringId{static_cast<std::uint32_t>(fields[Key::kName].payload)};
  frame.filename = StringId{static_cast<std::uint32_t>(fields[Key::kFilename].payload)};
  *record = static_cast<std::uint32_t>(model::index_of(recording_.stacks.intern_frame(frame)));
  return true;
}

bool SnapshotBuilder::read_block(const Fields& fields) {
  RawBlock raw;
  model::Block& block = raw.block;
  if (!read_u64(fields, Key::kSize, kBlockWord, &block.size_bytes)) return false;
  raw.has_address = fields.has(Key::kAddress);
  if (raw.has_address && !read_u64(fields, Key::kAddress, kBlockWord, &block.address)) return false;
  block.has_requested = fields.has(Key::kRequestedSize);
  if (block.has_requested &&
      !read_u64(fields, Key::kRequestedSize, kBlockWord, &block.requested_bytes)) {
    return false;
  }
  const Value& state = fields[Key::kState];
  const std::string_view word =
      state.kind == ValueKind::kString
          ? recording_.strings.view(StringId{static_cast<std::uint32_t>(state.payload)})
          : std::string_view{};
  if (word == "active_allocated") {
    block.state = BlockState::kLive;
  } else if (word == "active_pending_free" || word == "active_awaiting_free") {
    block.state = BlockState::kPending;
  } else if (word == "inactive") {
    block.state = BlockState::kFree;
  } else {
    return fail("a block in state " + quoted(word) +
                "; expected active_allocated, active_pending_free or inactive");
  }
  if (fields.has(Key::kHistory)) {
    RecordRange range;
    if (!read_range(fields, Key::kHistory, ListKind::kHistory, &range)) return false;
    // Newest first: the first entry is the block's present owner.
    if (range.count > 0) block.stack = histories_[range.first].stack;
  }
  if (!read_stack(fields, Key::kFrames, kBlockWord, &block.stack)) return false;
  seen_block_keys |= fields.keys;
  blocks.push_back(raw);
  return true;
}

bool SnapshotBuilder::read_segment(const Fields& fields) {
  RawSegment raw;
  model::Segment& segment = raw.segment;
  if (!read_u64(fields, Key::kAddress, kSegmentWord, &segment.address) ||
      !read_u64(fields, Key::kTotalSize, kSegmentWord, &segment.size_bytes) ||
      !read_i64(fields, Key::kDevice, kSegmentWord, &raw.device) ||
      !read_i64(fields, Key::kStream, kSegmentWord, &segment.stream) ||
      !read_pool(fields, Key::kSegmentPoolId, kSegmentWord, &segment.pool) ||
      !read_stack(fields, Key::kFrames, kSegmentWord, &segment.stack) ||
      !read_range(fields, Key::kBlocks, ListKind::kBlocks, &raw.blocks)) {
    return false;
  }
  if (fields.has(Key::kSegmentType)) {
    const Value& type = fields[Key::kSegmentType];
    const std::string_view word =
        type.kind == ValueKind::kString
            ? recording_.strings.view(StringId{static_cast<std::uint32_t>(type.payload)})
            : std::string_view{};
    if (word != "small" && word != "large") {
      return fail("a segment of type " + quoted(word) + "; expected small or large");
    }
    segment.size_class = word == "small" ? model::SizeClass::kSmall : model::SizeClass::kLarge;
  } else {
    return fail("a segment without 'segment_type'");
  }
  if (fields.has(Key::kIsExpandable)) {
    const Value& expandable = fields[Key::kIsExpandable];
    if (expandable.kind != ValueKind::kBool)
      return fail("'is_expandable' is neither true nor false");
    segment.expandable = expandable.payload != 0;
  }
  if (segment.size_bytes >= policy::kTooLarge) return fail_too_large(segment.size_bytes);
  seen_segment_keys |= fields.keys;
  segments.push_back(raw);
  return true;
}

bool SnapshotBuilder::read_history(const Fields& fields) {
  History entry;
  if (!read_u64(fields, Key::kRealSize, "history entry", &entry.real_size) ||
      !read_stack(fields, Key::kFrames, "history entry", &entry.stack)) {
    return false;
  }
  histories_.push_back(entry);
  return true;
}

bool SnapshotBuilder::read_settings(const Fields& fields) {
  settings_ = RawSettings{};
  settings_.present = true;
  if (fields.has(Key::kConf) && fields[Key::kConf].kind == ValueKind::kString) {
    settings_.conf =
        recording_.strings.view(StringId{static_cast<std::uint32_t>(fields[Key::kConf].payload)});
  }
  if (fields.has(Key::kMaxSplitSize)) {
    std::int64_t max_split_size = -1;
    if (!read_i64(fields, Key::kMaxSplitSize, "setting", &max_split_size)) return false;
    settings_.max_split_size = max_split_size;
  }
  if (fields.has(Key::kExpandableSegments)) {
    settings_.expandable_segments = fields[Key::kExpandableSegments].payload == 1 &&
                                    fields[Key::kExpandableSegments].kind == ValueKind::kBool;
  }
  if (fields.has(Key::kRoundupDivisions)) settings_.roundup_divisions = divisions_;
  seen_settings_keys |= fields.keys;
  return true;
}

bool SnapshotBuilder::read_divisions(const Fields& fields) {
  divisions_ = {};
  for (std::size_t bucket = 0; bucket < divisions_.size(); ++bucket) {
    const Key key = static_cast<Key>(bucket);
    if (!fields.has(key)) continue;
    if (!read_u64(fields, key, "roundup_power2_divisions", &divisions_[bucket])) return false;
  }
  return true;
}

bool SnapshotBuilder::read_root(const Fields& fields) {
  root_is_broken_ = true;  // until it was read whole
  if (!read_range(fields, Key::kSegments, ListKind::kSegments, &root_.segments) ||
      !read_range(fields, Key::kDeviceTraces, ListKind::kTraces, &root_.traces)) {
    return false;
  }
  if (fields.has(Key::kAllocatorSettings)) root_.settings = settings_;
  seen_root_keys |= fields.keys;
  root_is_broken_ = false;
  return true;
}

bool SnapshotBuilder::append(std::uint64_t list, std::span<const Value> items) {
  Result<void> appended = lists_.append(list, items);
  if (!appended) error_ = std::move(appended.error());
  return appended.has_value();
}

std::size_t SnapshotBuilder::held_bytes() const {
  return dicts_.size() * sizeof(DictSlot) + lists_.held_bytes() +
         blocks.capacity() * sizeof(RawBlock) + segments.capacity() * sizeof(RawSegment) +
         histories_.capacity() * sizeof(History) + recording_.events.size() * sizeof(model::Event) +
         recording_.annotations.capacity() * sizeof(model::Annotation) +
         recording_.strings.held_bytes() + recording_.stacks.held_bytes();
}

Result<RawSnapshot> SnapshotBuilder::finish(const Value& root) {
  if (root.kind == ValueKind::kDict && dicts_[root.payload].kind == DictKind::kRoot) return root_;
  if (root.kind == ValueKind::kDict && dicts_[root.payload].kind == DictKind::kBroken &&
      root_is_broken_) {
    return tl::unexpected<Error>(*broken_);
  }
  if (root.kind == ValueKind::kList) {
    const ListSlot& list = lists_[root.payload];
    if (list.kind == ListKind::kBroken && broken_) return tl::unexpected<Error>(*broken_);
    if (list.kind == ListKind::kSegments || list.kind == ListKind::kEmpty) {
      RawSnapshot bare;
      bare.is_bare_list = true;
      bare.segments = list.range;
      return bare;
    }
  }
  return failure(ErrorCode::kForeign,
                 "a pickle, but no memory snapshot; expected a dict with 'segments' "
                 "(torch.cuda.memory._dump_snapshot) or PyTorch 1.x's list of segments");
}

}  // namespace fragscope::ingest
