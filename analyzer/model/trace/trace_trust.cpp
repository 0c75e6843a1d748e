// SPDX-License-Identifier: Apache-2.0
// What weakens the evidence of a trace: of what it does not know, and why.
#include "analyzer/model/trace/trace_history.hpp"
#include "analyzer/recording/plural.hpp"
#include "trace/format/header_text.hpp"

#include <algorithm>

namespace fragscope::model {

void TraceHistory::add_trust(Recording& recording) const {
  const AddSignal add_if = [&](bool present, const char* signal, const std::string& effect) {
    if (present) {
      recording.trust.push_back({signal, "device " + std::to_string(device_) + ": " + effect});
    }
  };
  add_trust_in_heap(add_if);
  add_trust_in_file(add_if);
  add_trust_in_names(add_if);
  recording.unjudged_failures.count += counts_.failures_in_the_dark + failures_missing();
  recording.unjudged_failures.may_be_more |= !reader_->is_complete();
}

std::uint64_t TraceHistory::failures_missing() const {
  const std::uint64_t seen = failed_.size() + counts_.failures_in_the_dark;
  return std::max(reader_->header().failures, seen) - seen;
}

void TraceHistory::add_trust_in_heap(const AddSignal& add_if) const {
  add_if(is_native(),
         "derived-sizes",
         "PyTorch's own allocator was recorded, which does not tell how large blocks are, nor what "
         "is split and merged; that is derived from its rules, " +
             (keyframes_ == 0 ? "and no keyframe checks it"
                              : "and checked at " + plural(keyframes_, "keyframe", "keyframes")));
  add_if(first_event() > 0,
         "history-cut",
         plural(reader_->first_record(),
                "record before the first one is",
                "records before the first one are") +
             " overwritten; the heap is known from record " +
             std::to_string(starts_.front().known_from) +
             " on, and a higher peak before it would not be seen");
  add_if(counts_.lost > 0,
         "lost-records",
         plural(counts_.lost, "record is", "records are") +
             " missing in the middle; from there to the next keyframe the heap is not known");
  add_if(!is_known_before(end_event()),
         "end-not-known",
         "no keyframe follows the last gap; what is shown as the end is the heap before record " +
             std::to_string(last_known()));
  add_if(counts_.failures_in_the_dark > 0,
         "failures-not-judged",
         plural(counts_.failures_in_the_dark, "failed request", "failed requests") +
             " where the heap is not known");
  add_if(failures_missing() > 0,
         "failures-missing",
         plural(failures_missing(), "failed request", "failed requests") +
             " of which no record is left; the header counts them");
  add_if(contradictions_ > 0,
         "records-contradict",
         plural(contradictions_, "record does", "records do") +
             " not fit the heap that those before make, the first is " +
             std::to_string(first_contradiction_) + "; left out");
}

void TraceHistory::add_trust_in_file(const AddSignal& add_if) const {
  const trace::Header& header = reader_->header();
  const std::uint64_t damaged = damaged_chunks_ + reader_->damage_count();
  add_if(damaged > 0,
         "damaged-chunk",
         plural(damaged, "part of the file is", "parts of the file are") +
             " damaged and left out, among them: " +
             (damage_.empty() ? reader_->first_damage() : damage_));
  add_if(reader_->unknown_chunks() > 0,
         "unknown-chunks",
         plural(reader_->unknown_chunks(), "part is", "parts are") +
             " skipped, of a kind that this version does not know");
  add_if(reader_->is_complete() && reader_->cut_bytes() > 0,
         "bytes-behind-end",
         plural(reader_->cut_bytes(), "byte", "bytes") + " behind the end of the trace left out");
  add_if(header.state == trace::TraceState::kUnrecorded,
         "recording-stopped",
         "recording stopped before the program did: " + std::string(trace::text_of(header.reason)));
  add_if(!reader_->is_complete(),
         "cut-short",
         "the file has no end; left out behind its last whole part: " +
             plural(reader_->cut_bytes(), "byte", "bytes"));
  add_if(header.dropped > 0,
         "dropped-records",
         plural(header.dropped, "record was", "records were") + " dropped");
  add_if(header.damaged > 0,
         "damaged-records",
         plural(header.damaged, "slot", "slots") + " of the ring held no sound record");
}

void TraceHistory::add_trust_in_names(const AddSignal& add_if) const {
  add_if(reader_->header().table_refused > 0,
         "table-full",
         plural(reader_->header().table_refused, "stack or name", "stacks or names") +
             " found no room: not known");
  add_if(!reader_->table().damage().empty(), "table-damaged", reader_->table().damage());
  add_if(counts_.unknown_homes > 0,
         "unknown-homes",
         plural(counts_.unknown_homes, "record names", "records name") +
             " a stream or pool that the table does not have; the default one is taken");
  add_if(counts_.unknown_settings > 0,
         "unknown-settings",
         plural(counts_.unknown_settings, "record of options names", "records of options name") +
             " a text that the table does not have; the options before are used");
  add_if(counts_.unknown_kinds > 0,
         "unknown-kinds",
         plural(counts_.unknown_kinds, "record is", "records are") +
             " skipped, of a kind that this version does not know");
  add_if(
      counts_.other_devices > 0,
      "other-devices",
      plural(
          counts_.other_devices, "record of another device is", "records of another device are") +
          " skipped");
  add_if(counts_.settings > 1,
         "settings-changed",
         "the options were given " + std::to_string(counts_.settings) +
             " times; the last ones are used");
}

}  // namespace fragscope::model
