// SPDX-License-Identifier: Apache-2.0
#include "analyzer/recording/byte_size.hpp"
#include "analyzer/report/course/growth_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace fragscope::report {
namespace {

using course::Growth;
using course::GrowthKind;
using course::Judged;
using course::LayerCourse;
using course::Repeat;
using course::RepeatBasis;
using course::Trend;
using model::show_bytes;
using model::show_count;

constexpr std::size_t kMaxRows = 24;
constexpr std::size_t kMaxStacks = 8;
constexpr std::size_t kMaxNames = 6;

std::string rounded(double bytes) {
  return shown_change(static_cast<std::int64_t>(std::llround(bytes)));
}

std::string_view basis_word(RepeatBasis basis) {
  switch (basis) {
    case RepeatBasis::kStages:
      return "stages of the program's";
    case RepeatBasis::kMarks:
      return "marks of the program's";
    case RepeatBasis::kAnnotations:
      return "annotations of PyTorch's";
    default:
      return "nothing";
  }
}

Tone tone_of(GrowthKind kind) {
  switch (kind) {
    case GrowthKind::kGrowth:
      return Tone::kBad;
    case GrowthKind::kPlateau:
    case GrowthKind::kFalling:
      return Tone::kGood;
    default:
      return Tone::kDoubt;
  }
}

class TextWriter {
 public:
  TextWriter(const Growth& growth,
             const CourseInput& input,
             const FrameText& frames,
             const Paint& paint)
      : growth_(growth)
      , input_(input)
      , frames_(frames)
      , paint_(paint) {}

  [[nodiscard]] std::string write() {
    out_ += fmt::format("{}: {} on GPU {}{}\n",
                        input_.path,
                        paint_(tone_of(growth_.kind), word()),
                        input_.device,
                        headline());
    say(why());
    write_work();
    write_basis();
    if (!growth_.repeats.all.empty()) {
      write_layers();
      write_stacks();
      write_repeats();
    }
    return out_ + evidence_text(input_, paint_);
  }

 private:
  void say(const std::string& text) { out_ += wrapped(text, kTextWidth, 2); }

  [[nodiscard]] std::string word() const {
    switch (growth_.kind) {
      case GrowthKind::kGrowth:
        return "growth of live allocations";
      case GrowthKind::kCacheGrowth:
        return "growth of the cache only";
      case GrowthKind::kNoRepeats:
        return "no repeats";
      case GrowthKind::kTooFew:
        return "too few repeats";
      default:
        return std::string(course::to_string(growth_.kind));
    }
  }

  [[nodiscard]] std::string headline() const {
    const Judged& low = growth_.low.judged;
    switch (growth_.kind) {
      case GrowthKind::kGrowth:
        return fmt::format(", {} for each of {}", rounded(low.slope.median), repeats_text());
      case GrowthKind::kCacheGrowth:
        return fmt::format(", reserved {} for each of {}",
                           rounded(growth_.reserved.judged.slope.median),
                           repeats_text());
      case GrowthKind::kPlateau:
        if (low.warm_up == 0) return " over " + repeats_text();
        return fmt::format(" after a warm-up of {} of {}", show_count(low.warm_up), repeats_text());
      case GrowthKind::kNoRepeats:
        return "";
      default:
        return ", " + repeats_text();
    }
  }

  [[nodiscard]] std::string repeats_text() const {
    return plural(growth_.whole.size(), "repeat", "repeats");
  }

  [[nodiscard]] std::string why() const {
    const Judged& low = growth_.low.judged;
    const std::size_t tail = growth_.whole.size() - std::min(low.warm_up, growth_.whole.size());
    switch (growth_.kind) {
      case GrowthKind::kNoRepeats:
        if (growth_.repeats.was_period_wanted) {
          return "No kind of allocation comes evenly, as one would that each repeat makes once.";
        }
        return "Nothing in the file says where the same work begins again. "
               "fragscope.stage(\"request "
               "1\") in the program does, fragscope.mark(\"request 1\") at each begin, or --period "
               "auto, which looks for an allocation that comes once in each.";
      case GrowthKind::kTooFew:
        return fmt::format(
            "A slope with an interval takes {} whole repeats behind one for warm-up; there are {}. "
            "The usual experiment is ten equal requests, then short and long ones in turn.",
            course::kFewestValues,
            growth_.whole.size());
      case GrowthKind::kPlateau:
        return fmt::format(
            "At its low point each of the last {} repeats has as much live as the others: the "
            "slope "
            "is {} for each, and with 95 % confidence no more than {}. That is no leak, as far as "
            "these repeats go.{}",
            tail,
            rounded(low.slope.median),
            rounded(std::max(low.slope.high, -low.slope.low)),
            reserved_note());
      case GrowthKind::kGrowth:
        return fmt::format(
            "At its low point each repeat has more live than the one before: {} for each, with 95 "
            "% "
            "confidence {} to {}, over the last {}. What stays when the work is done is held by "
            "somebody: a leak, or a cache of the program's that is still filling.",
            rounded(low.slope.median),
            rounded(low.slope.low),
            rounded(low.slope.high),
            tail);
      case GrowthKind::kCacheGrowth:
        return fmt::format(
            "Live allocations do not grow, but what the allocator holds from the driver does: {} "
            "for each repeat, with 95 % confidence {} to {}. That is cache: requests that no hole "
            "served, by their size or their place. It is no leak of the program's.",
            rounded(growth_.reserved.judged.slope.median),
            rounded(growth_.reserved.judged.slope.low),
            rounded(growth_.reserved.judged.slope.high));
      case GrowthKind::kFalling:
        return fmt::format("At its low point each repeat has less live than the one before: {}.",
                           rounded(low.slope.median));
      case GrowthKind::kUndecided:
        return undecided_text(low);
    }
    return {};
  }

  // Where the work grows, more memory for it is no news.
  void write_work() {
    const Judged& peak = growth_.peak.judged;
    const Judged& low = growth_.low.judged;
    if (peak.trend != Trend::kGrowth || peak.slope.low <= std::max(low.slope.high, 0.0)) return;
    say(fmt::format(
        "The repeats are not equal: their peak of live bytes rises, too, by {} for each.",
        rounded(peak.slope.median)));
  }

  [[nodiscard]] std::string reserved_note() const {
    if (growth_.reserved.judged.trend != Trend::kUndecided) return {};
    return " Whether the cache still grows is not decided by them.";
  }

  [[nodiscard]] static std::string undecided_text(const Judged& low) {
    std::string text = fmt::format(
        "The low points neither show growth nor rule it out: {} for each repeat, with "
        "95 % confidence {} to {}.",
        rounded(low.slope.median),
        rounded(low.slope.low),
        rounded(low.slope.high));
    if (low.steps > 1) {
      text += fmt::format(
          " They rise in steps ({}), and the last stretch is not longer than those "
          "before it.",
          low.steps);
    } else if (low.has_stopped) {
      text += " They rose, but not in the second half.";
    }
    return text + " More repeats would tell.";
  }

  void write_basis() {
    const course::Repeats& repeats = growth_.repeats;
    if (repeats.period) {
      const course::Period& period = *repeats.period;
      const std::string what = period.stack == model::kNoStack
                                   ? "of " + show_bytes(period.requested_bytes)
                                   : "at " + frames_.place(period.stack);
      say(
          fmt::format("Repeats are by period: an allocation {} on stream {} comes every {:.1f} "
                      "allocations (deviation {:.1f}), and {} as often. A guess; marks are better.",
                      what,
                      period.stream,
                      period.allocations,
                      period.deviation,
                      plural(period.alike, "kind comes", "kinds come")));
    } else if (repeats.basis != RepeatBasis::kNone) {
      say(fmt::format("Repeats are by {}: \"{}\".",
                      basis_word(repeats.basis),
                      shown_name(repeats.name, frames_)));
    }
    const std::size_t left_out = repeats.all.size() - growth_.whole.size();
    if (left_out > 0) {
      say(fmt::format("{} not judged: without an end, or where the heap is not known.",
                      plural(left_out, "repeat is", "repeats are")));
    }
    if (repeats.overlapping > 0) {
      say(fmt::format("{} before the one in front ended: each also sees the others' memory.",
                      plural(repeats.overlapping, "repeat began", "repeats began")));
    }
    if (repeats.is_out_of_order) say("Their numbers do not ascend; they are taken as they came.");
    if (repeats.not_kept > 0) {
      say(fmt::format("The first {} are kept, {} are not.",
                      show_count(repeats.all.size()),
                      show_count(repeats.not_kept)));
    }
    write_names();
  }

  void write_names() {
    const auto& names = growth_.repeats.names;
    std::string others;
    std::size_t count = 0;
    for (const course::MarkName& name : names) {
      const bool is_chosen =
          name.name == growth_.repeats.name && name.basis == growth_.repeats.basis;
      if (is_chosen || name.count < 2 || count++ >= kMaxNames) continue;
      others += fmt::format("{}\"{}\" ({})",
                            others.empty() ? "" : ", ",
                            shown_name(name.name, frames_),
                            show_count(name.count));
    }
    if (!others.empty()) say("Other names that came more than once, for --marks: " + others + ".");
  }

  static std::string_view trend_word(Trend trend) {
    switch (trend) {
      case Trend::kPlateau:
        return "plateau";
      case Trend::kGrowth:
        return "growth";
      case Trend::kFall:
        return "falls";
      case Trend::kTooFew:
        return "too few";
      case Trend::kUndecided:
        break;
    }
    return "undecided";
  }

  static void add_layer(Table& table,
                        std::string_view name,
                        const LayerCourse& layer,
                        std::string_view what) {
    std::vector<Cell> row{left(std::string(name)),
                          right(show_bytes(layer.values.front())),
                          right(show_bytes(layer.values.back()))};
    const Judged& judged = layer.judged;
    if (judged.trend != Trend::kTooFew) {
      row.push_back(right(rounded(judged.slope.median)));
      row.push_back(right(rounded(judged.slope.low)));
      row.push_back(right(rounded(judged.slope.high)));
      row.push_back(right(show_count(judged.warm_up)));
    } else {
      row.insert(row.end(), 4, right("-"));
    }
    row.push_back(left(std::string(trend_word(judged.trend))));
    row.push_back(left(std::string(what), Tone::kFaint));
    table.add(std::move(row));
  }

  void write_layers() {
    if (growth_.whole.empty()) return;
    out_ += title(paint_,
                  "LAYERS",
                  "over the repeats; slope for each behind the warm-up (Theil-Sen, 95 %); they "
                  "overlap");
    Table table;
    table.add({left(""),
               right("first", Tone::kFaint),
               right("last", Tone::kFaint),
               right("slope", Tone::kFaint),
               right("from", Tone::kFaint),
               right("to", Tone::kFaint),
               right("warm-up", Tone::kFaint),
               left("")});
    add_layer(table, "low point", growth_.low, "allocated, the least in each");
    add_layer(table, "peak", growth_.peak, "allocated, the most in each");
    add_layer(table, "reserved", growth_.reserved, "held from the driver, the most in each");
    out_ += table.text(paint_);
  }

  void write_stacks() {
    if (growth_.kind != GrowthKind::kGrowth) return;
    out_ += title(paint_, "WHAT GROWS", "live bytes at the low points, by stack");
    if (growth_.stacks.empty()) {
      out_ += "  no stack grows by itself so that its slope is above 0 for certain\n";
      return;
    }
    Table table;
    double sum = 0;
    for (std::size_t i = 0; i < growth_.stacks.size(); ++i) {
      const course::StackGrowth& stack = growth_.stacks[i];
      sum += stack.slope.median;
      if (i >= kMaxStacks) continue;
      table.add({right(rounded(stack.slope.median)),
                 left("each,"),
                 right(show_bytes(stack.first_bytes)),
                 left("to"),
                 right(show_bytes(stack.last_bytes)),
                 left(frames_.place(stack.stack))});
    }
    out_ += table.text(paint_);
    if (growth_.growing_stacks > kMaxStacks)
      out_ += fmt::format("  and {} more\n", growth_.growing_stacks - kMaxStacks);
    out_ += fmt::format("  together {} of {} for each repeat\n",
                        rounded(sum),
                        rounded(growth_.low.judged.slope.median));
  }

  void write_repeats() {
    out_ += title(paint_, "REPEATS", "live: allocated bytes in blocks handed out");
    const auto& all = growth_.repeats.all;
    Table table;
    table.add({left(""),
               right("low point", Tone::kFaint),
               right("peak", Tone::kFaint),
               right("live at end", Tone::kFaint),
               right("reserved peak", Tone::kFaint),
               left("")});
    // Of many, both ends.
    const std::size_t head = all.size() > kMaxRows ? kMaxRows / 2 : all.size();
    const std::size_t tail = all.size() > kMaxRows ? all.size() - kMaxRows / 2 : all.size();
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (i == head && head < tail) {
        table.add({left(fmt::format("... {} more", tail - head), Tone::kFaint)});
        i = tail;
      }
      table.add(row_of(all[i], i));
    }
    out_ += table.text(paint_);
  }

  [[nodiscard]] std::vector<Cell> row_of(const Repeat& repeat, std::size_t place) const {
    const std::string name = repeat.name.empty() ? fmt::format("{}", place + 1)
                             : frames_.redacts() ? fmt::format("(masked) {}", place + 1)
                                                 : printable(repeat.name);
    if (!repeat.extremes.most_allocated) {
      return {left(name), right("not known", Tone::kDoubt)};
    }
    std::string rest = repeat.is_whole() ? "" : repeat.has_end ? "not known throughout" : "no end";
    if (repeat.failures > 0) {
      rest +=
          (rest.empty() ? "" : ", ") + plural(repeat.failures, "failed request", "failed requests");
    }
    return {left(name),
            right(shown_bounds(repeat.extremes.least_allocated->levels.allocated_bytes)),
            right(shown_bounds(repeat.extremes.most_allocated->levels.allocated_bytes)),
            right(shown_bounds(repeat.end.levels.allocated_bytes)),
            right(show_bytes(repeat.extremes.most_reserved_bytes)),
            left(rest, Tone::kFaint)};
  }

  const Growth& growth_;
  const CourseInput& input_;
  const FrameText& frames_;
  const Paint& paint_;
  std::string out_;
};

}  // namespace

std::string growth_text(const Growth& growth,
                        const CourseInput& input,
                        const FrameText& frames,
                        const Paint& paint) {
  return TextWriter(growth, input, frames, paint).write();
}

std::string control_text(std::span<const Growth> runs, const Paint& paint) {
  const std::vector<course::Control> layers = course::compare_with_control(runs);
  std::string text = title(paint, "A, B, A AGAIN", "medians behind the warm-up, by layer");
  if (layers.empty()) {
    return text + wrapped(runs.size() == 3
                              ? "Not compared: one of the three has too few repeats."
                              : "Not compared: three files are, A, B and A again, so that the "
                                "second A shows whether the difference is B's.",
                          kTextWidth,
                          2);
  }
  Table table;
  for (const course::Control& layer : layers) {
    const std::string_view word = !layer.comes_back ? "the control does not come back"
                                  : layer.differs   ? "differs, and the control comes back"
                                                    : "no difference beyond the noise";
    table.add({left(std::string(layer.layer)),
               right("A " + show_bytes(layer.first_bytes)),
               right("B " + show_bytes(layer.other_bytes)),
               right("A " + show_bytes(layer.again_bytes)),
               right("noise " + show_bytes(layer.noise_bytes)),
               left(std::string(word), layer.comes_back ? Tone::kPlain : Tone::kDoubt)});
  }
  text += table.text(paint);
  const bool is_in_doubt =
      std::ranges::any_of(layers, [](const auto& layer) { return !layer.comes_back; });
  if (is_in_doubt) {
    text += wrapped(
        "Where the second A is not where the first was, something else than B changed between "
        "the runs, and a difference of B proves nothing.",
        kTextWidth,
        2);
  }
  return text;
}

}  // namespace fragscope::report
