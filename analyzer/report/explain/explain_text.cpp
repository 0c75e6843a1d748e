// SPDX-License-Identifier: Apache-2.0
#include "analyzer/report/explain/explain_text.hpp"

#include "analyzer/explain/finding_text.hpp"
#include "analyzer/recording/byte_size.hpp"
#include "analyzer/recording/plural.hpp"
#include "analyzer/report/explain/figure_labels.hpp"
#include "analyzer/report/frame_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

namespace fragscope::report {
namespace {

using explain::Bounds;
using explain::Explanation;
using explain::Figures;
using explain::Kind;
using explain::Message;
using explain::Report;
using model::plural;
using model::show_count;

// With more messages than this a table stands for all, and only the last is shown in full.
constexpr std::size_t kMaxFull = 3;
constexpr std::size_t kMaxListed = 40;

std::string headline(const Report& report) {
  std::string text(explain::to_string(report.finding.kind));
  for (const Kind kind : report.finding.also)
    text += fmt::format(", {}", explain::to_string(kind));
  return text;
}

Tone tone_of(Kind kind) {
  switch (kind) {
    case Kind::kNotAnOom:
      return Tone::kFaint;
    case Kind::kPossibleFragmentation:
    case Kind::kUndecidable:
    case Kind::kNoNumbers:
    case Kind::kNotExplained:
    case Kind::kInconsistent:
      return Tone::kDoubt;
    default:
      return Tone::kBad;
  }
}

std::string device_text(const Message& message) {
  return message.device ? fmt::format("GPU {}", *message.device) : std::string("GPU not named");
}

std::string times_text(const Message& message) {
  return message.count > 1 ? fmt::format(", {} times", show_count(message.count)) : std::string();
}

void add_figure(Table& table,
                std::string_view name,
                const std::optional<Bounds>& bounds,
                std::string_view what) {
  if (!bounds) return;
  table.add({left(std::string(name)),
             right(explain::shown(*bounds)),
             left(std::string(what), Tone::kFaint)});
}

std::string figures_text(const Message& message, const Paint& paint) {
  const Figures& figures = message.figures;
  const FigureLabels labels = figure_labels(message);
  Table table;
  add_figure(table, "request", figures.request, labels.request);
  add_figure(table, "device total", figures.total, labels.total);
  add_figure(table, "device free", figures.free, labels.free);
  add_figure(table, "allocated", figures.allocated, labels.allocated);
  add_figure(table, "gap", figures.gap, "allocator: held, not live");
  add_figure(table, "in private pools", figures.private_pools, "part of the gap");
  add_figure(table, "reserved", figures.reserved, "allocated and gap");
  add_figure(
      table, "other allocations", figures.other_allocations, "outside this allocator, as printed");
  add_figure(table, "limit", figures.limit, labels.limit);
  add_figure(table, "this process", figures.process, "NVML");
  add_figure(table,
             "outside",
             explain::outside_bytes(figures),
             "total - free - reserved: contexts, libraries, other processes");
  return table.text(paint);
}

class ExplainWriter {
 public:
  ExplainWriter(const Explanation& explanation, const Paint& paint)
      : explanation_(explanation)
      , paint_(paint) {}

  [[nodiscard]] std::string write(const std::string& path) {
    const auto& reports = explanation_.reports;
    out_ += fmt::format("{}: {}\n", printable(path), summary());
    if (const auto encoding = explanation_.totals.encoding; !encoding.empty()) {
      out_ += wrapped(fmt::format("note: the log was read as {}", encoding), kTextWidth, 2);
    }
    if (reports.size() > 1) write_table();
    const std::size_t full = reports.size() > kMaxFull ? 1 : reports.size();
    for (std::size_t i = reports.size() - full; i < reports.size(); ++i)
      write_report(reports[i]);
    if (explanation_.dropped_count > 0) {
      out_ += fmt::format("\n  {} further distinct messages are not listed\n",
                          show_count(explanation_.dropped_count));
    }
    for (const stages::Timeline& timeline : explanation_.timelines)
      write_timeline(timeline);
    return std::move(out_);
  }

 private:
  [[nodiscard]] std::string summary() const {
    const auto& reports = explanation_.reports;
    if (reports.empty()) {
      return fmt::format("no out-of-memory message in {}",
                         plural(explanation_.totals.lines, "line", "lines"));
    }
    const Report& last = reports.back();
    return fmt::format("{}: {} on {} (line {}{})",
                       paint_(tone_of(last.finding.kind), headline(last)),
                       last.message.figures.request ? explain::shown(*last.message.figures.request)
                                                    : std::string("a request"),
                       device_text(last.message),
                       last.message.line,
                       times_text(last.message));
  }

  void write_table() {
    Table table;
    const auto& reports = explanation_.reports;
    const std::size_t first = reports.size() - std::min(reports.size(), kMaxListed);
    for (std::size_t i = first; i < reports.size(); ++i) {
      const Message& message = reports[i].message;
      table.add({right(fmt::format("line {}", message.line)),
                 left(device_text(message)),
                 right(message.figures.request ? explain::shown(*message.figures.request) : "-"),
                 left(headline(reports[i]) + times_text(message), tone_of(reports[i].finding.kind)),
                 left(printable(message.process), Tone::kFaint)});
    }
    out_ +=
        "\n" + paint_(Tone::kTitle, fmt::format("MESSAGES  {} distinct", reports.size())) + "\n";
    if (first > 0) out_ += fmt::format("  the last {} of them\n", kMaxListed);
    out_ += table.text(paint_);
  }

  void write_report(const Report& report) {
    const Message& message = report.message;
    out_ += "\n" + paint_(Tone::kTitle, fmt::format("LINE {}  {}", message.line, message.format));
    if (!message.process.empty()) out_ += "  " + printable(message.process);
    out_ += "\n" + wrapped(printable(report.finding.text), kTextWidth, 2);
    out_ += figures_text(message, paint_);
    if (report.before) {
      out_ += wrapped("before: " + printable(before_text(*report.before)), kTextWidth, 2);
    }
    for (const std::string& note : report.finding.notes) {
      out_ += wrapped("note: " + printable(note), kTextWidth, 2);
    }
    for (const std::string& step : report.finding.next) {
      out_ += wrapped("to decide: " + printable(step), kTextWidth, 2);
    }
  }

  void write_timeline(const stages::Timeline& timeline) {
    std::string title = "START OF " + timeline.engine;
    if (!timeline.version.empty()) title += " " + timeline.version;
    out_ += "\n" + paint_(Tone::kTitle, printable(title));
    if (!timeline.process.empty()) out_ += "  " + printable(timeline.process);
    out_ += '\n';
    Table table;
    for (const stages::StageRecord& stage : timeline.stages) {
      const bool failed = timeline.failing == stage.stage;
      std::string facts;
      for (const stages::StageFact& fact : stage.facts)
        facts += (facts.empty() ? "" : "; ") + to_string(fact);
      table.add({left(std::string(stages::to_string(stage.stage))),
                 right(fmt::format("lines {}-{}", stage.first_line, stage.last_line)),
                 right(stage.seconds ? fmt::format("{:.1f} s", *stage.seconds) : ""),
                 left(failed            ? "failed"
                      : stage.completed ? "done"
                                        : "not finished",
                      failed            ? Tone::kBad
                      : stage.completed ? Tone::kGood
                                        : Tone::kDoubt),
                 left(printable(facts), Tone::kFaint)});
    }
    out_ += table.text(paint_);
    std::string outcome = timeline.ready ? "it became ready" : "it did not become ready";
    for (const stages::Stage stage : timeline.recovered)
      outcome += fmt::format("; it survived a failure in {}", stages::to_string(stage));
    out_ += "  " + outcome + "\n";
  }

  const Explanation& explanation_;
  const Paint& paint_;
  std::string out_;
};

}  // namespace

std::vector<std::string> cards_text(const stages::WeightBound& bound,
                                    std::uint32_t devices,
                                    const Explanation& explanation) {
  // Each card is held against its own share; a sum over cards would answer nothing.
  std::map<std::int32_t, std::uint64_t> cards;
  for (const Report& report : explanation.reports) {
    const Message& message = report.message;
    if (message.device && message.figures.total) {
      cards[*message.device] = message.figures.total->high;
    }
  }
  std::vector<std::string> lines;
  for (const auto& [device, total_bytes] : cards) {
    const auto why = stages::why_it_cannot_fit(bound, devices, total_bytes);
    lines.push_back(fmt::format(
        "GPU {}: {}",
        device,
        why ? *why
            : fmt::format("{} {} are not more than the {} of the card; whatever else is "
                          "needed comes on top",
                          model::show_bytes(stages::even_share(bound, devices)),
                          stages::assumption(devices),
                          model::show_bytes(total_bytes))));
  }
  return lines;
}

std::string explain_text(const Explanation& explanation,
                         const std::string& path,
                         const Paint& paint) {
  return ExplainWriter(explanation, paint).write(path);
}

std::string weights_text(const stages::WeightBound& bound,
                         std::uint32_t devices,
                         const Explanation& explanation,
                         const Paint& paint) {
  std::string text =
      "\n" + paint(Tone::kTitle, "WEIGHTS") + "  at least; loading only adds to it\n";
  Table table;
  table.add({left("whole model"),
             right(model::show_bytes(bound.bytes)),
             right(show_count(bound.bytes) + " B"),
             left(bound.sources.size() == 1 ? printable(bound.sources.front().source) : "",
                  Tone::kFaint)});
  for (const stages::WeightSource& source : bound.sources) {
    if (bound.sources.size() == 1) break;
    table.add({left(printable(source.source)),
               right(model::show_bytes(source.bytes)),
               right(show_count(source.bytes) + " B")});
  }
  const std::uint64_t share = stages::even_share(bound, devices);
  if (devices > 1) {
    table.add({left(fmt::format("each of {} devices", devices)),
               right(model::show_bytes(share)),
               right(show_count(share) + " B"),
               left("if they are split evenly", Tone::kFaint)});
  }
  text += table.text(paint);
  for (const std::string& note : bound.notes)
    text += wrapped("note: " + printable(note), kTextWidth, 2);
  for (const std::string& line : cards_text(bound, devices, explanation))
    text += wrapped(line, kTextWidth, 2);
  return text;
}

}  // namespace fragscope::report
