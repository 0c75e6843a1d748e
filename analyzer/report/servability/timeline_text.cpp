// SPDX-License-Identifier: Apache-2.0
#include "analyzer/recording/byte_size.hpp"
#include "analyzer/report/servability/moment_report.hpp"
#include "analyzer/report/servability/timeline_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace fragscope::report {
namespace {

using model::show_bytes;
using model::show_count;
using servability::AskedCurves;
using servability::Curve;
using servability::HomeCurve;
using servability::Means;
using servability::Server;
using servability::SizeMap;
using servability::Timeline;
using servability::Turn;

constexpr std::size_t kMostHomes = 12;
constexpr std::string_view kAtLeast = "each column at its least";
/// From nothing to the most.
constexpr std::string_view kLevels = "_.:-=+*#";

std::uint64_t most_of(const Curve& curve) {
  std::uint64_t most = 0;
  for (const auto& column : curve)
    if (column) most = std::max(most, column->most_bytes);
  return most;
}

std::uint64_t least_of(const Curve& curve) {
  std::uint64_t least = ~std::uint64_t{0};
  for (const auto& column : curve)
    if (column) least = std::min(least, column->least_bytes);
  return least == ~std::uint64_t{0} ? 0 : least;
}

/// Each column at its least: what a request could rely on there. A blank: not known.
std::string sparkline(const Curve& curve, std::uint64_t scale) {
  std::string line;
  line.reserve(curve.size());
  for (const auto& column : curve) {
    if (!column) {
      line += ' ';
      continue;
    }
    const double share = static_cast<double>(column->least_bytes) /
                         static_cast<double>(std::max<std::uint64_t>(scale, 1));
    // The lowest level is nothing at all, the highest is the most.
    const auto steps = static_cast<double>(kLevels.size() - 1);
    auto level = static_cast<std::size_t>(share * steps);
    if (column->least_bytes > 0) level = std::max<std::size_t>(level, 1);
    line += kLevels[std::min(level, kLevels.size() - 1)];
  }
  return line;
}

class TimelineWriter {
 public:
  TimelineWriter(const analysis::TimelineAnalysis& analysis,
                 const CourseInput& input,
                 const FrameText& frames,
                 const Paint& paint)
      : analysis_(analysis)
      , timeline_(analysis.timeline)
      , input_(input)
      , frames_(frames)
      , paint_(paint) {}

  [[nodiscard]] std::string write() {
    out_ += fmt::format("{}: the largest request that would have been served, GPU {}, {}\n",
                        input_.path,
                        input_.device,
                        events_text());
    if (timeline_.asked) {
      write_asked(*timeline_.asked);
    } else {
      out_ += fmt::format("  {}; --request SIZE asks about one\n",
                          no_failure(input_.recording.unjudged_failures, paint_));
    }
    if (analysis_.size_map) write_sizes(*analysis_.size_map);
    write_homes();
    if (timeline_.asked) write_turns(*timeline_.asked);
    out_ += evidence_text(input_, paint_);
    return std::move(out_);
  }

 private:
  [[nodiscard]] std::string events_text() const {
    if (timeline_.column_count == 0) return "which has no events";
    return fmt::format("events {} to {}, {} to a column",
                       timeline_.first_event,
                       timeline_.end_event - 1,
                       shown_width());
  }

  [[nodiscard]] std::string shown_width() const {
    const auto events = static_cast<std::uint64_t>(timeline_.end_event - timeline_.first_event);
    const std::uint64_t width = events / timeline_.column_count;
    return events % timeline_.column_count == 0
               ? show_count(width)
               : fmt::format("{} or {}", show_count(width), show_count(width + 1));
  }

  void write_curves(const std::vector<std::pair<std::string, const Curve*>>& curves,
                    std::string_view of,
                    std::string_view what) {
    std::uint64_t scale = 0;
    std::size_t width = 0;
    for (const auto& [name, curve] : curves) {
      scale = std::max(scale, most_of(*curve));
      width = std::max(width, name.size());
    }
    out_ += title(paint_, of, fmt::format("{}; _ is nothing, # is {}", what, show_bytes(scale)));
    for (const auto& [name, curve] : curves) {
      out_ += fmt::format("  {:<{}}  {}  {} to {}\n",
                          name,
                          width,
                          sparkline(*curve, scale),
                          show_bytes(least_of(*curve)),
                          show_bytes(most_of(*curve)));
    }
  }

  void write_asked(const AskedCurves& asked) {
    const servability::Request& request = asked.watch.request;
    const bool expandable = input_.recording.settings.rules.expandable_segments;
    out_ += fmt::format(
        "  asked: {}, at {}; {}\n",
        show_bytes(request.size_bytes),
        home_text(request.home(expandable), input_.recording),
        analysis_.asked->question.recorded
            ? fmt::format("what failed last, at event {}", analysis_.asked->question.event)
            : std::string("as named with --request"));
    write_curves(
        {{"would be served", &asked.largest_served}, {"free in pieces", &asked.free_at_home}},
        "SERVED",
        kAtLeast);
    out_ += wrapped("would be served: " + what_is_counted(analysis_.asked->facts), kTextWidth, 2);
  }

  static std::string what_is_counted(const verdict::DeviceFacts& facts) {
    std::string counted =
        facts.free.known()
            ? "by a hole at home, or by the driver once pending frees were waited for and the "
              "cache went back; what others hold of the device is taken not to have changed"
            : "by a hole at home, or by the cache given back; what the device had free is not "
              "known and not counted";
    const model::Bounds limit = facts.limit.bytes;
    if (facts.limit.known() && limit.low != limit.high) {
      counted += fmt::format("; the limit ({}) is known only to be at least {}, and not counted",
                             facts.limit.source,
                             show_bytes(limit.low));
    }
    return counted;
  }

  void write_sizes(const SizeMap& map) {
    out_ +=
        title(paint_, "SIZES", "what would have served them, behind the last event of a column");
    Table table;
    for (std::size_t size = 0; size < map.sizes.size(); ++size) {
      std::string row(timeline_.column_count, ' ');  // a blank: not known
      for (std::size_t column = 0; column < row.size(); ++column) {
        const auto moment = moment_of(map, column);
        if (moment) row[column] = mark_of(map.means_for(size, *moment));
      }
      table.add({right(show_bytes(map.sizes[size])), left(std::move(row))});
    }
    out_ += table.text(paint_);
    out_ += "  # a hole, + the driver, ~ only with blocks moved together, _ nothing\n";
    write_moves(map);
    out_ += wrapped("scanned on " + map.ran.reason, kTextWidth, 2);
  }

  void write_moves(const SizeMap& map) {
    Curve curve(timeline_.column_count);
    bool has_move = false;
    for (std::size_t column = 0; column < curve.size(); ++column) {
      const auto moment = moment_of(map, column);
      if (!moment || !map.moments[*moment].move_bytes) continue;
      const std::uint64_t bytes = *map.moments[*moment].move_bytes;
      curve[column] = {bytes, bytes};
      has_move = true;
    }
    const std::string size = show_bytes(timeline_.asked->watch.request.size_bytes);
    if (!has_move) {
      out_ += fmt::format("  no segment at home could have held {} then\n", size);
      return;
    }
    write_curves({{size, &curve}},
                 "MOVES",
                 "live bytes in the cheapest range for it; a blank: no segment could hold it");
  }

  /// Which moment a column ends with; none: the heap is not known there.
  [[nodiscard]] std::optional<std::size_t> moment_of(const SizeMap& map, std::size_t column) const {
    const std::optional<model::EventIndex>& behind = timeline_.asked_behind[column];
    if (!behind) return std::nullopt;
    const auto found =
        std::ranges::lower_bound(map.moments, *behind, {}, &servability::MapMoment::behind);
    if (found == map.moments.end() || found->behind != *behind) return std::nullopt;
    return static_cast<std::size_t>(found - map.moments.begin());
  }

  static char mark_of(Means means) {
    switch (means) {
      case Means::kHole:
        return '#';
      case Means::kDriver:
        return '+';
      case Means::kCompaction:
        return '~';
      case Means::kNothing:
        break;
    }
    return '_';
  }

  void write_homes() {
    std::vector<const HomeCurve*> homes;
    homes.reserve(timeline_.homes.size());
    for (const HomeCurve& home : timeline_.homes)
      homes.push_back(&home);
    std::ranges::stable_sort(homes, [](const auto* left, const auto* right) {
      return left->most_bytes > right->most_bytes;
    });
    const std::size_t shown = std::min(homes.size(), kMostHomes);
    std::vector<std::pair<std::string, const Curve*>> curves;
    curves.reserve(shown);
    for (const HomeCurve* home : std::span(homes).first(shown))
      curves.emplace_back(home_text(home->home, input_.recording), &home->largest_run);
    if (curves.empty()) return;
    write_curves(curves, "HOLES", kAtLeast);
    if (homes.size() > shown) {
      out_ += fmt::format("  and {} more\n", plural(homes.size() - shown, "home", "homes"));
    }
  }

  void write_turns(const AskedCurves& asked) {
    const std::string size = show_bytes(asked.watch.request.size_bytes);
    out_ += title(paint_, "TURNS", fmt::format("whether {} would have been served", size));
    Table table;
    table.add({right(fmt::format("event {}", asked.known_from + 1)),
               left(answer_text(asked.first)),
               left(asked.turn_count == 0 ? "all the time" : "")});
    for (std::size_t i = 0; i < asked.turns.size(); ++i) {
      const std::uint64_t left_out = asked.turn_count - asked.turns.size();
      if (left_out > 0 && i == servability::kKeptTurns) {
        table.add({right("..."), left(""), left(plural(left_out, "turn", "turns") + " left out")});
      }
      table.add(turn_row(asked.turns[i]));
    }
    out_ += table.text(paint_);
    if (asked.last != Server::kNobody || asked.turns.empty() || !asked.turns.back().is_to_no())
      return;
    out_ += fmt::format("  impossible from event {} on\n", asked.turns.back().cause.event);
  }

  static std::string answer_text(Server server) {
    return server == Server::kNobody ? "no" : fmt::format("yes, {}", to_string(server));
  }

  [[nodiscard]] std::vector<Cell> turn_row(const Turn& turn) const {
    std::string why = cause_text(turn.cause);
    if (turn.cause.stack != model::kNoStack) why += " at " + frames_.place(turn.cause.stack);
    std::string answer = answer_text(turn.after);
    const analysis::JudgedTurn* const judged = analysis_.judgement_at(turn.cause.event);
    if (turn.is_to_no() && judged != nullptr) {
      answer += fmt::format(", {}", verdict::to_string(judged->kind));
    }
    return {right(fmt::format("event {}", turn.cause.event)),
            left(answer, turn.is_to_no() ? Tone::kBad : Tone::kGood),
            left(why)};
  }

  const analysis::TimelineAnalysis& analysis_;
  const Timeline& timeline_;
  const CourseInput& input_;
  const FrameText& frames_;
  const Paint& paint_;
  std::string out_;
};

}  // namespace

std::string timeline_text(const analysis::TimelineAnalysis& analysis,
                          const CourseInput& input,
                          const FrameText& frames,
                          const Paint& paint) {
  return TimelineWriter(analysis, input, frames, paint).write();
}

}  // namespace fragscope::report
