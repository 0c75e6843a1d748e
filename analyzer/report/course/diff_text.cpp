// SPDX-License-Identifier: Apache-2.0
#include "analyzer/recording/byte_size.hpp"
#include "analyzer/report/course/diff_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace fragscope::report {
namespace {

using difference::ComparedFact;
using difference::Difference;
using difference::HolderPair;
using difference::Likeness;
using difference::Moment;
using difference::SettingsLikeness;
using model::show_bytes;
using model::show_count;
using model::StateSummary;

constexpr std::size_t kMaxHolders = 12;

std::string_view moment_text(Moment moment) {
  switch (moment) {
    case Moment::kFailure:
      return "before the last failed request of each";
    case Moment::kPeak:
      return "at the peak of live bytes of each";
    case Moment::kEnd:
      break;
  }
  return "at the end of each";
}

std::int64_t change(std::uint64_t first, std::uint64_t second) {
  return static_cast<std::int64_t>(second) - static_cast<std::int64_t>(first);
}

class TextWriter {
 public:
  TextWriter(const Difference& found, const DiffInput& input, const Paint& paint)
      : found_(found)
      , input_(input)
      , paint_(paint) {}

  [[nodiscard]] std::string write() {
    headline();
    write_layers();
    write_holders();
    write_segments();
    write_facts();
    return out_ + evidence_text(input_.first, paint_, "EVIDENCE A") +
           evidence_text(input_.second, paint_, "EVIDENCE B");
  }

 private:
  void say(const std::string& text) { out_ += wrapped(text, kTextWidth, 2); }

  void headline() {
    const std::int64_t live =
        change(found_.first.summary.allocated_bytes.low, found_.second.summary.allocated_bytes.low);
    const std::int64_t reserved =
        change(found_.first.summary.reserved_bytes, found_.second.summary.reserved_bytes);
    out_ += fmt::format("{} -> {}: {}; live {}, reserved {}, {}\n",
                        input_.first.path,
                        input_.second.path,
                        paint_(Tone::kTitle, relation_text()),
                        shown_change(live),
                        shown_change(reserved),
                        moment_text(found_.moment));
    say(fmt::format("program: {}: {}.", program_word(), found_.program.basis));
    say("settings: " + settings_text());
    if (found_.program.likeness == Likeness::kOther &&
        found_.settings == SettingsLikeness::kOther) {
      say("Both differ: which of them makes the difference cannot be told from these two.");
    }
  }

  [[nodiscard]] std::string relation_text() const {
    std::string word(relation_word(found_));
    std::ranges::replace(word, '-', ' ');
    return word;
  }

  [[nodiscard]] std::string_view program_word() const {
    switch (found_.program.likeness) {
      case Likeness::kSame:
        return "the same";
      case Likeness::kOther:
        return "another one";
      case Likeness::kSimilar:
        return "cannot be told, nearly the same requests in another order";
      case Likeness::kUnknown:
        break;
    }
    return "cannot be told";
  }

  [[nodiscard]] std::string settings_text() const {
    std::string names;
    for (const ComparedFact& fact : found_.facts) {
      if (!fact.is_setting || !fact.differs()) continue;
      names += (names.empty() ? "" : ", ") + fact.name;
    }
    switch (found_.settings) {
      case SettingsLikeness::kSame:
        return "the same, as far as both record them.";
      case SettingsLikeness::kOther:
        return "they differ: " + names + ".";
      case SettingsLikeness::kUnknown:
        break;
    }
    return "cannot be told; one of the files has none.";
  }

  void add_layer(Table& table,
                 std::string_view name,
                 std::optional<std::uint64_t> first,
                 std::optional<std::uint64_t> second,
                 std::string_view what) const {
    const auto shown = [](const std::optional<std::uint64_t>& bytes) {
      return right(bytes ? show_bytes(*bytes) : "not known");
    };
    table.add({left(std::string(name)),
               shown(first),
               shown(second),
               right(first && second ? shown_change(change(*first, *second)) : ""),
               left(std::string(what), Tone::kFaint)});
  }

  void write_layers() {
    const StateSummary& a = found_.first.summary;
    const StateSummary& b = found_.second.summary;
    out_ += title(paint_,
                  "LAYERS",
                  fmt::format("allocator's books, {}: A before event {}, B before event {}; they "
                              "overlap",
                              moment_text(found_.moment),
                              found_.first.event,
                              found_.second.event));
    Table table;
    table.add({left(""),
               right("A", Tone::kFaint),
               right("B", Tone::kFaint),
               right("B less A", Tone::kFaint),
               left("")});
    add_layer(table, "requested", a.requested_bytes, b.requested_bytes, "by the program, live");
    add_layer(table, "allocated", a.allocated_bytes.low, b.allocated_bytes.low, "live blocks");
    add_layer(table, "reserved", a.reserved_bytes, b.reserved_bytes, "held from the driver");
    add_layer(table, "free in it", a.free_bytes.low, b.free_bytes.low, "holes");
    add_layer(table,
              "largest hole",
              a.largest_hole_bytes.low,
              b.largest_hole_bytes.low,
              "of any pool, class and stream");
    out_ += table.text(paint_);
    out_ += title(paint_, "GAP", "reserved less requested, four ways");
    Table gap;
    add_layer(gap, "rounding", a.gap.rounding_bytes, b.gap.rounding_bytes, "of requests to blocks");
    add_layer(gap, "pending", a.gap.pending_bytes, b.gap.pending_bytes, "waits for other streams");
    add_layer(gap,
              "releasable",
              a.gap.releasable_bytes,
              b.gap.releasable_bytes,
              "wholly free segments or pages");
    add_layer(gap, "stuck", a.gap.stuck_bytes, b.gap.stuck_bytes, "the other free bytes");
    out_ += gap.text(paint_);
  }

  [[nodiscard]] std::string place_of(const HolderPair& pair) const {
    return pair.is_in_second ? input_.second_frames.place(pair.second_stack)
                             : input_.first_frames.place(pair.first_stack);
  }

  void write_holders() {
    out_ += title(paint_,
                  "WHO HOLDS LIVE MEMORY",
                  "by the line that allocated it, the greatest change first");
    Table table;
    for (std::size_t i = 0; i < std::min(found_.holders.size(), kMaxHolders); ++i) {
      const HolderPair& pair = found_.holders[i];
      table.add({right(show_bytes(pair.first_bytes)),
                 right(show_bytes(pair.second_bytes)),
                 right(shown_change(change(pair.first_bytes, pair.second_bytes))),
                 left(place_of(pair)),
                 left(!pair.is_in_first    ? "only in B"
                      : !pair.is_in_second ? "only in A"
                                           : "",
                      Tone::kFaint)});
    }
    if (table.empty()) out_ += "  nothing is live\n";
    out_ += table.text(paint_);
    if (found_.holder_count > kMaxHolders)
      out_ += fmt::format("  and {} more\n", show_count(found_.holder_count - kMaxHolders));
  }

  void write_segments() {
    if (found_.segments.empty()) return;
    out_ += title(paint_, "SEGMENTS", "what is held from the driver, by kind");
    Table table;
    for (const difference::SegmentPair& pair : found_.segments) {
      table.add({left(fmt::format("{}{}{}",
                                  policy::to_string(pair.size_class),
                                  pair.expandable ? ", expandable" : "",
                                  pair.is_private ? ", private pools" : "")),
                 right(show_bytes(pair.first_bytes)),
                 right("in " + show_count(pair.first_count)),
                 right(show_bytes(pair.second_bytes)),
                 right("in " + show_count(pair.second_count)),
                 right(shown_change(change(pair.first_bytes, pair.second_bytes)))});
    }
    out_ += table.text(paint_);
  }

  void write_facts() {
    out_ += title(paint_, "SETTINGS AND VERSIONS", "as recorded; what is not is left open");
    Table table;
    for (const ComparedFact& fact : found_.facts) {
      const auto shown = [](const std::optional<std::string>& text) {
        return text ? printable(*text) : std::string("not recorded");
      };
      std::vector<Cell> row{left(fact.name), left(shown(fact.first))};
      const bool is_same = fact.is_known() && !fact.differs();
      row.push_back(left(is_same ? "same" : shown(fact.second),
                         fact.differs() ? Tone::kDoubt : Tone::kFaint));
      table.add(std::move(row));
    }
    out_ += table.text(paint_);
  }

  const Difference& found_;
  const DiffInput& input_;
  const Paint& paint_;
  std::string out_;
};

}  // namespace

std::string_view relation_word(const Difference& found) {
  const bool is_settled =
      found.program.likeness == Likeness::kSame || found.program.likeness == Likeness::kOther;
  if (!is_settled || found.settings == SettingsLikeness::kUnknown) return "cannot-be-told";
  const bool is_same_program = found.program.likeness == Likeness::kSame;
  const bool are_same_settings = found.settings == SettingsLikeness::kSame;
  if (is_same_program) {
    return are_same_settings ? "same-program-same-settings" : "same-program-other-settings";
  }
  return are_same_settings ? "other-program-same-settings" : "other-program-other-settings";
}

std::string diff_text(const Difference& found, const DiffInput& input, const Paint& paint) {
  return TextWriter(found, input, paint).write();
}

}  // namespace fragscope::report
