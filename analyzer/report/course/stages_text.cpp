// SPDX-License-Identifier: Apache-2.0
#include "analyzer/recording/byte_size.hpp"
#include "analyzer/report/course/stages_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace fragscope::report {
namespace {

using course::StackChange;
using course::StageGroup;
using course::StageMemory;
using course::StageSource;
using model::show_bytes;
using model::show_count;

constexpr std::size_t kMaxRows = 40;
constexpr std::size_t kMaxDetailed = 4;
constexpr std::size_t kMaxStacks = 5;
constexpr std::size_t kMaxPoints = 12;
constexpr std::size_t kMaxFailures = 12;

std::string shown_behind(model::EventIndex event) {
  return event < 0 ? "at the beginning" : fmt::format("behind event {}", event);
}

class TextWriter {
 public:
  TextWriter(const StageMemory& memory,
             const CourseInput& input,
             const FrameText& frames,
             const Paint& paint)
      : memory_(memory)
      , input_(input)
      , frames_(frames)
      , paint_(paint) {}

  [[nodiscard]] std::string write() {
    headline();
    write_table();
    write_stacks();
    write_points();
    write_failures();
    return out_ + evidence_text(input_, paint_);
  }

 private:
  // The names that this program knows say nothing about a job.
  [[nodiscard]] std::string name_of(const StageGroup& group) const {
    if (group.source == StageSource::kNobody) return "(" + group.name + ")";
    if (frames_.redacts() && group.stage) return std::string(stages::to_string(*group.stage));
    return shown_name(group.name, frames_);
  }

  void headline() {
    std::uint64_t stages = 0;
    const StageGroup* highest = nullptr;
    for (const StageGroup& group : memory_.groups) {
      stages += group.source == StageSource::kNobody ? 0 : 1;
      if (!group.highest.extremes.most_allocated) continue;
      // Of stages within each other the inner one says more.
      if (highest == nullptr || peak_of(group) >= peak_of(*highest)) highest = &group;
    }
    out_ += input_.path + ": ";
    out_ += stages == 0 ? paint_(Tone::kDoubt, "no stages")
                        : paint_(Tone::kTitle, plural(stages, "stage", "stages"));
    out_ += fmt::format(" on GPU {}", input_.device);
    if (highest != nullptr) {
      out_ += fmt::format(", most live {} in {}", show_bytes(peak_of(*highest)), name_of(*highest));
      const std::uint64_t temporary = highest->highest.temporary_bytes();
      if (temporary > 0) out_ += fmt::format(", {} of it for a while only", show_bytes(temporary));
    }
    out_ += '\n';
    if (memory_.has_stages) return;
    out_ += wrapped(
        "Nothing in the file says what the program was doing: fragscope.stage(\"...\") and "
        "fragscope.mark(\"...\") in the program do, and record_function of PyTorch's profiler; of "
        "a "
        "snapshot, _record_memory_history(global_record_annotations=True).",
        kTextWidth,
        2);
  }

  static std::uint64_t peak_of(const StageGroup& group) {
    return group.highest.extremes.most_allocated->levels.allocated_bytes.low;
  }

  void write_table() {
    out_ +=
        title(paint_, "STAGES", "by the allocator's books; live: allocated, in blocks handed out");
    out_ +=
        "  of several times the one with the highest peak, and what all together leave behind\n";
    Table table;
    table.add({left("stage", Tone::kFaint),
               right("times", Tone::kFaint),
               right("live before", Tone::kFaint),
               right("peak", Tone::kFaint),
               right("after", Tone::kFaint),
               right("for a while", Tone::kFaint),
               right("stays", Tone::kFaint),
               right("reserved peak", Tone::kFaint),
               right("after", Tone::kFaint),
               left("")});
    for (std::size_t i = 0; i < std::min(memory_.groups.size(), kMaxRows); ++i)
      table.add(row_of(memory_.groups[i]));
    out_ += table.text(paint_);
    if (memory_.groups.size() > kMaxRows) {
      out_ += fmt::format("  and {} more; --json has them\n", memory_.groups.size() - kMaxRows);
    }
  }

  [[nodiscard]] std::vector<Cell> row_of(const StageGroup& group) const {
    std::vector<Cell> row{left(name_of(group)), right(show_count(group.count))};
    const course::StageSpan& span = group.highest;
    if (!span.extremes.most_allocated) {
      row.push_back(right("not known", Tone::kDoubt));
      return row;
    }
    row.push_back(right(shown_bounds(span.begin.levels.allocated_bytes)));
    row.push_back(right(shown_bounds(span.extremes.most_allocated->levels.allocated_bytes)));
    row.push_back(right(shown_bounds(span.end.levels.allocated_bytes)));
    row.push_back(right(show_bytes(span.temporary_bytes())));
    row.push_back(right(shown_change(group.stays_bytes)));
    row.push_back(right(show_bytes(span.extremes.most_reserved_bytes)));
    row.push_back(right(show_bytes(span.end.levels.reserved_bytes)));
    std::string rest;
    const auto add = [&rest](std::string_view word) {
      rest += (rest.empty() ? "" : ", ") + std::string(word);
    };
    if (group.source == StageSource::kAnnotation) add("annotation");
    if (!group.last.has_end) add("no end");
    if (group.unknown_count > 0) add(fmt::format("{} not known", group.unknown_count));
    if (group.failures > 0) add(plural(group.failures, "failed request", "failed requests"));
    row.push_back(left(rest, group.failures > 0 ? Tone::kBad : Tone::kFaint));
    return row;
  }

  template <class Size>
  void write_changes(const std::vector<StackChange>& changes, Size size) {
    Table table;
    for (std::size_t i = 0; i < std::min(changes.size(), kMaxStacks); ++i)
      table.add({right(show_bytes(size(changes[i]))), left(frames_.place(changes[i].stack))});
    out_ += table.text(paint_);
  }

  // What was there for a while, apart from what stays; for the stages that moved most.
  void write_stacks() {
    std::vector<const StageGroup*> groups;
    for (const StageGroup& group : memory_.groups)
      if (!group.temporary.empty() || !group.stays.empty()) groups.push_back(&group);
    std::ranges::stable_sort(groups, std::greater<>{}, [](const StageGroup* group) {
      const auto stays = std::max<std::int64_t>(group->highest.stays_bytes(), 0);
      return std::max(group->highest.temporary_bytes(), static_cast<std::uint64_t>(stays));
    });
    groups.resize(std::min(groups.size(), kMaxDetailed));
    for (const StageGroup* group : groups) {
      const course::StageSpan& span = group->highest;
      if (!group->temporary.empty()) {
        out_ += title(paint_,
                      "FOR A WHILE",
                      fmt::format("in {}: live {} and neither before nor after it, by stack",
                                  name_of(*group),
                                  shown_behind(span.extremes.most_allocated->event)));
        write_changes(group->temporary, [](const StackChange& change) {
          return change.peak_bytes - std::max(change.begin_bytes, change.end_bytes);
        });
      }
      if (group->stays.empty()) continue;
      out_ += title(paint_,
                    "STAYS",
                    fmt::format("behind {}: more live {} than {}, by stack",
                                name_of(*group),
                                shown_behind(span.end.event),
                                shown_behind(span.begin.event)));
      write_changes(group->stays, [](const StackChange& change) {
        return change.end_bytes - change.begin_bytes;
      });
    }
  }

  void write_points() {
    if (memory_.points.empty()) return;
    out_ += title(paint_, "MARKS", "moments that the program named");
    Table table;
    for (std::size_t i = 0; i < std::min(memory_.points.size(), kMaxPoints); ++i) {
      const course::PointMark& point = memory_.points[i];
      std::vector<Cell> row{left(shown_name(point.name, frames_))};
      if (point.at) {
        row.push_back(right(fmt::format("event {}", point.at->event)));
        row.push_back(right("live " + shown_bounds(point.at->levels.allocated_bytes)));
        row.push_back(right("reserved " + show_bytes(point.at->levels.reserved_bytes)));
      } else {
        row.push_back(left("the heap is not known there", Tone::kDoubt));
      }
      table.add(std::move(row));
    }
    out_ += table.text(paint_);
    if (memory_.point_count > kMaxPoints)
      out_ += fmt::format("  and {} more\n", show_count(memory_.point_count - kMaxPoints));
  }

  void write_failures() {
    if (memory_.failures.empty()) return;
    out_ += title(paint_, "FAILED REQUESTS", "and the innermost stage that each came in");
    Table table;
    for (std::size_t i = 0; i < std::min(memory_.failures.size(), kMaxFailures); ++i) {
      const course::StageFailure& failure = memory_.failures[i];
      const StageGroup& group = memory_.groups[failure.group];
      const bool is_elsewhere = group.source != StageSource::kNobody &&
                                group.source != StageSource::kPoint && !failure.is_of_thread;
      table.add({right(fmt::format("event {}", failure.event)),
                 right(show_bytes(failure.requested_bytes)),
                 left(name_of(group)),
                 left(is_elsewhere ? "of another thread" : "", Tone::kFaint)});
    }
    out_ += table.text(paint_);
    if (memory_.failure_count > kMaxFailures)
      out_ += fmt::format("  and {} more\n", show_count(memory_.failure_count - kMaxFailures));
    out_ += "  why each failed: fragscope analyze\n";
  }

  const StageMemory& memory_;
  const CourseInput& input_;
  const FrameText& frames_;
  const Paint& paint_;
  std::string out_;
};

}  // namespace

std::string stages_text(const StageMemory& memory,
                        const CourseInput& input,
                        const FrameText& frames,
                        const Paint& paint) {
  return TextWriter(memory, input, frames, paint).write();
}

}  // namespace fragscope::report
