// SPDX-License-Identifier: Apache-2.0
// A trace of a program that says what it does, by hand: sizes in MiB, each block at a place of its
// own in one segment of 16 GiB.
#pragma once

#include "analyzer/model/trace/trace_history.hpp"
#include "tests/support/trace_builder.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace fragscope::course {

inline constexpr std::uint64_t kMiB = 1 << 20;

class ToyServer {
 public:
  ToyServer() { add(trace::RecordKind::kSegmentAlloc, {kStart, kSize, 0}, trace::kFlagLarge); }

  /// Gives its address. `line` stands for a stack.
  std::uint64_t alloc(std::uint64_t mib, std::uint32_t line = 1) {
    const std::uint64_t size = mib * kMiB;
    const std::uint64_t address = next_;
    next_ += size;
    add(trace::RecordKind::kSplit, {address, size, kStart + kSize - next_}, trace::kFlagLarge);
    add(trace::RecordKind::kAlloc, {address, size, size}, trace::kFlagLarge).stack = stack_of(line);
    sizes_[address] = size;
    return address;
  }
  ToyServer& free(std::uint64_t address) {
    const test::Place block{address, sizes_[address], sizes_[address]};
    add(trace::RecordKind::kFreeRequested, block, trace::kFlagLarge);
    add(trace::RecordKind::kFreeCompleted, block, trace::kFlagLarge);
    return *this;
  }
  /// A block that is there for a while.
  ToyServer& use(std::uint64_t mib, std::uint32_t line = 1) { return free(alloc(mib, line)); }
  ToyServer& get_segment(std::uint64_t mib) {
    add(trace::RecordKind::kSegmentAlloc, {next_segment_, mib * kMiB, 0}, trace::kFlagLarge);
    next_segment_ += 4 * kSize;
    return *this;
  }
  ToyServer& fail(std::uint64_t mib) {
    add(trace::RecordKind::kOutOfMemory, {0, mib * kMiB, mib * kMiB}, trace::kFlagLarge);
    return *this;
  }

  ToyServer& on_thread(std::uint32_t thread) {
    thread_ = thread;
    return *this;
  }
  ToyServer& point(std::string_view name) { return mark(name, 0); }
  ToyServer& begin(std::string_view name) { return mark(name, 1); }
  ToyServer& end(std::string_view name) { return mark(name, 2); }
  ToyServer& begin_annotation(std::string_view name) { return mark(name, 1, 1); }
  ToyServer& end_annotation(std::string_view name) { return mark(name, 2, 1); }
  ToyServer& unknown_changes() {
    add(trace::RecordKind::kUnknownChanges, {}, 0);
    return *this;
  }
  /// What comes has numbers as if so many records in front of it were missing.
  ToyServer& miss(std::uint64_t records) {
    chunks_.push_back(std::move(records_));
    records_.clear();
    missing_.push_back(records);
    return *this;
  }

  /// The trace, read. Lives as long as this.
  [[nodiscard]] const model::TraceHistory& history() {
    if (history_) return *history_;
    test::TraceBuilder builder;
    builder.table(table_);
    chunks_.push_back(records_);
    missing_.push_back(0);
    std::uint64_t number = 0;
    for (std::size_t i = 0; i < chunks_.size(); ++i) {
      builder.records(test::numbered(chunks_[i], number));
      number += chunks_[i].size() + missing_[i];
    }
    bytes_ = builder.end().bytes();
    history_ = std::move(*model::TraceHistory::open(bytes_, recording_));
    return *history_;
  }
  [[nodiscard]] std::string function_of(model::StackId stack) const {
    const auto frames = recording_.stacks.stack(stack);
    if (frames.empty()) return "";
    return std::string(recording_.strings.view(recording_.stacks.frame(frames.front()).name));
  }

 private:
  static constexpr std::uint64_t kStart = std::uint64_t{1} << 40;
  static constexpr std::uint64_t kSize = std::uint64_t{16} << 30;

  trace::Record& add(trace::RecordKind kind, test::Place place, std::uint8_t flags) {
    records_.push_back(test::record(kind, place, flags));
    records_.back().thread = thread_;
    return records_.back();
  }

  ToyServer& mark(std::string_view name, std::uint64_t phase, std::uint64_t source = 0) {
    const auto [text, is_new] = texts_.try_emplace(std::string(name), 0);
    if (is_new) text->second = table_.text(name);
    add(trace::RecordKind::kMark, {text->second, phase, source}, 0);
    return *this;
  }

  std::uint32_t stack_of(std::uint32_t line) {
    const auto [stack, is_new] = stacks_.try_emplace(line, 0);
    if (is_new) {
      const std::uint32_t name = table_.text("line " + std::to_string(line));
      const std::uint32_t frames[] = {table_.frame({name, name, line})};
      stack->second = table_.stack(frames);
    }
    return stack->second;
  }

  test::TableBuilder table_;
  std::vector<trace::Record> records_;
  std::vector<std::vector<trace::Record>> chunks_;
  std::vector<std::uint64_t> missing_;  // behind each chunk
  std::map<std::uint64_t, std::uint64_t> sizes_;
  std::map<std::string, std::uint32_t, std::less<>> texts_;
  std::map<std::uint32_t, std::uint32_t> stacks_;
  std::uint64_t next_ = kStart;
  std::uint64_t next_segment_ = kStart + 4 * kSize;
  std::uint32_t thread_ = 9;
  test::Bytes bytes_;
  model::Recording recording_;
  std::unique_ptr<model::TraceHistory> history_;
};

}  // namespace fragscope::course
