// SPDX-License-Identifier: Apache-2.0
#include "analyzer/ingest/writer_version.hpp"

#include <algorithm>

namespace fragscope::ingest {
namespace {

constexpr int kOldest = 0;
constexpr int kNewest = 99;

/// A key that appeared with minor version `since` of PyTorch 2: seen, the writer is at least that;
/// not seen although it could have been, the writer is older.
struct Witness {
  bool could_be_seen;
  bool seen;
  int since;
};

}  // namespace

std::string writer_version(const SnapshotBuilder& builder, const RawSnapshot& root) {
  if (root.is_bare_list) return "PyTorch 1.13 or earlier";
  const auto in = [](KeySet keys, Key key) { return (keys & bit(key)) != 0; };
  const KeySet events = builder.seen_event_keys;
  const KeySet settings = builder.seen_settings_keys;
  const bool has_events = events != 0;
  const bool has_settings = root.settings.present;
  const Witness witnesses[] = {
      {!builder.segments.empty(), in(builder.seen_segment_keys, Key::kIsExpandable), 1},
      {has_events, in(events, Key::kTimeUs), 2},
      {true, has_settings, 3},
      {true, in(builder.seen_root_keys, Key::kExternalAnnotations), 5},
      {has_events, in(events, Key::kCompileContext), 8},
      {has_events, in(events, Key::kUserMetadata), 10},
      {has_settings, in(settings, Key::kGraphCaptureReuse), 10},
      {has_events, in(events, Key::kPoolId), 12},
      {has_settings, in(settings, Key::kMaxRoundThreshold), 14},
      {true, in(builder.seen_root_keys, Key::kHostSegments), 14},
  };
  int low = kOldest;
  int high = kNewest;
  for (const Witness& witness : witnesses) {
    if (witness.seen) low = std::max(low, witness.since);
  }
  for (const Witness& witness : witnesses) {
    // A key that a later one proves to exist was left out for another reason (skipped, stripped).
    if (witness.could_be_seen && !witness.seen && witness.since > low) {
      high = std::min(high, witness.since - 1);
    }
  }
  const std::string first = "PyTorch 2." + std::to_string(low);
  if (high == kNewest) return first + " or later";
  return low == high ? first : first + " to 2." + std::to_string(high);
}

}  // namespace fragscope::ingest
