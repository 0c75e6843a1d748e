// SPDX-License-Identifier: Apache-2.0
// Turns the dicts and lists of a PyTorch snapshot into typed records while the pickle is read. A
// dict shows what it is by its keys (a trace entry has "action", a block has "state", ...), and
// becomes that record at once; what no reader needs is dropped. Used by `torch_snapshot.cpp`
// through `PickleMachine`.
#pragma once

#include "analyzer/ingest/pickle/value.hpp"
#include "analyzer/ingest/record_lists.hpp"
#include "analyzer/ingest/snapshot_keys.hpp"
#include "analyzer/recording/recording.hpp"
#include "trace/result.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fragscope::ingest {

/// A block as read; its address may be missing (before PyTorch 2.1).
struct RawBlock {
  model::Block block;
  bool has_address = false;
};

/// A segment as read; `blocks` is a range of raw blocks.
struct RawSegment {
  model::Segment segment;
  RecordRange blocks;
  std::int64_t device = 0;
};

/// `allocator_settings` as far as it decides anything.
struct RawSettings {
  bool present = false;
  std::string conf;
  std::optional<std::int64_t> max_split_size;  ///< -1: unlimited
  bool expandable_segments = false;
  std::array<std::uint64_t, 16> roundup_divisions{};
};

/// The outermost dict, or the bare list of segments of PyTorch 1.x.
struct RawSnapshot {
  RecordRange segments;
  RecordRange traces;  ///< A range of `SnapshotBuilder::traces`.
  bool is_bare_list = false;
  RawSettings settings;
};

/// The builder of `PickleMachine` for snapshots. After a run, `finish` says what the outermost
/// value was; the records lie in the public vectors.
class SnapshotBuilder {
 public:
  /// `expected_events` only decides how often an array grows.
  SnapshotBuilder(model::Recording& recording, std::size_t expected_events);
  SnapshotBuilder(const SnapshotBuilder&) = delete;  // its lists refer to its dicts
  SnapshotBuilder& operator=(const SnapshotBuilder&) = delete;

  // What PickleMachine calls.
  [[nodiscard]] Value string(std::string_view text);
  [[nodiscard]] Value new_dict();
  [[nodiscard]] Value new_list() { return lists_.add(); }
  [[nodiscard]] Value tuple(std::span<const Value> items) { return lists_.tuple(items); }
  [[nodiscard]] bool set_items(std::uint64_t dict,
                               std::span<const Value> keys_and_values,
                               std::uint64_t byte_offset);
  [[nodiscard]] bool append(std::uint64_t list, std::span<const Value> items);
  [[nodiscard]] bool is_repeatable(std::uint64_t list) const {
    return lists_[list].kind == ListKind::kStack;
  }
  /// A new list with the items of one that `is_repeatable`.
  [[nodiscard]] Value repeat_list(std::uint64_t list) { return lists_.repeat(list); }
  [[nodiscard]] std::size_t held_bytes() const;
  [[nodiscard]] Error take_error() { return std::move(error_); }

  /// The outermost value as a snapshot. Fails: it is something else.
  [[nodiscard]] Result<RawSnapshot> finish(const Value& root);

  /// The events of each device.
  [[nodiscard]] std::span<const RecordRange> traces() const { return lists_.traces(); }

  std::vector<RawBlock> blocks;
  std::vector<RawSegment> segments;
  KeySet seen_event_keys = 0;  ///< Keys that any trace entry had; they date the writer.
  KeySet seen_segment_keys = 0;
  KeySet seen_block_keys = 0;
  KeySet seen_root_keys = 0;
  KeySet seen_settings_keys = 0;
  std::vector<model::StringId> unknown_actions;
  std::uint64_t unknown_action_count = 0;

 private:
  struct History {
    std::uint64_t real_size = 0;
    model::StackId stack = model::kNoStack;
  };

  /// The values of one dict by key; only the slots whose bit is set in `keys` are valid.
  struct Fields {
    KeySet keys = 0;
    std::array<const Value*, kKeyCount> values;
    [[nodiscard]] bool has(Key key) const { return (keys & bit(key)) != 0; }
    [[nodiscard]] const Value& operator[](Key key) const {
      return *values[static_cast<std::size_t>(key)];
    }
  };

  bool fail(std::string message, ErrorCode code = ErrorCode::kDamaged);
  bool fail_too_large(std::uint64_t size_bytes);
  bool fail_broken();
  [[nodiscard]] static Fields fields_of(std::span<const Value> keys_and_values);
  [[nodiscard]] static DictKind kind_of(const Fields& fields);
  bool fill(DictSlot& slot, const Fields& fields);

  bool read_event(const Fields& fields);
  void read_annotation(const Fields& fields);
  bool read_frame(const Fields& fields, std::uint32_t* record);
  bool read_block(const Fields& fields);
  bool read_segment(const Fields& fields);
  bool read_history(const Fields& fields);
  bool read_settings(const Fields& fields);
  bool read_divisions(const Fields& fields);
  bool read_root(const Fields& fields);

  // Reading one field; `what` names the record for the message.
  bool read_u64(const Fields& fields, Key key, std::string_view what, std::uint64_t* out);
  bool read_i64(const Fields& fields, Key key, std::string_view what, std::int64_t* out);
  bool read_pool(const Fields& fields, Key key, std::string_view what, model::PoolIndex* out);
  bool read_stack(const Fields& fields, Key key, std::string_view what, model::StackId* out);
  bool read_range(const Fields& fields, Key key, ListKind kind, RecordRange* out);

  /// Strings of up to seven bytes, with their length in the eighth: "N/A" comes once an event.
  struct ShortString {
    std::uint64_t bytes = ~std::uint64_t{0};
    model::StringId id{};
  };

  model::Recording& recording_;
  std::array<ShortString, 256> short_strings_;
  model::LargeVector<DictSlot> dicts_;
  RecordLists lists_;
  std::vector<History> histories_;
  RawSettings settings_;
  std::array<std::uint64_t, 16> divisions_{};
  RawSnapshot root_;
  bool root_is_broken_ = false;
  Error error_;
  std::optional<Error> broken_;  ///< The latest record that was none.
};

}  // namespace fragscope::ingest
