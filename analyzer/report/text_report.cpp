// SPDX-License-Identifier: Apache-2.0
#include "analyzer/report/text_report.hpp"

#include "analyzer/recording/byte_size.hpp"
#include "analyzer/report/report_pieces.hpp"
#include "analyzer/report/servability/moment_report.hpp"
#include "analyzer/verdict/verdict_text.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace fragscope::report {
namespace {

using analysis::Analysis;
using analysis::DeviceReport;
using analysis::Failure;
using model::Bounds;
using model::show_bytes;
using model::show_count;
using model::StateSummary;
using verdict::Fits;
using verdict::VerdictKind;

constexpr std::size_t kMaxHomes = 12;
constexpr std::size_t kMaxPins = 8;
constexpr std::size_t kMaxHolders = 8;
// With more failures than this a table stands for all, and only the last is shown in full.
constexpr std::size_t kMaxFull = 3;
constexpr std::size_t kMaxRows = 40;

std::string exact(std::uint64_t bytes) {
  return show_count(bytes) + " B";
}

Tone tone_of(VerdictKind kind) {
  switch (kind) {
    case VerdictKind::kServable:
      return Tone::kGood;
    case VerdictKind::kNotExplained:
    case VerdictKind::kReleasable:
    case VerdictKind::kUnknown:
      return Tone::kDoubt;
    default:
      return Tone::kBad;
  }
}

/// The number that decides, for the first line.
std::string deciding_number(const Failure& failed) {
  const verdict::Verdict& verdict = failed.judgement.verdict;
  const auto& ladder = failed.judgement.ladder;
  const auto offer = [&ladder](std::size_t rung) {
    const auto& bytes = ladder[rung - 1].bytes;
    return bytes ? shown_bounds(*bytes) : std::string("an unknown amount");
  };
  switch (verdict.kind) {
    case VerdictKind::kServable:
      return ladder[0].fits == Fits::kYes ? "largest hole at home " + offer(1)
                                          : "device free " + offer(2);
    case VerdictKind::kNotExplained:
      return "device free " + offer(2);
    case VerdictKind::kReleasable:
      return fmt::format("{} could be given back", shown_bounds(failed.supply.releasable_bytes));
    case VerdictKind::kStranded:
      return fmt::format(
          "a hole of {} is not for it ({})", offer(5), fmt::join(verdict.stranded_by, ", "));
    case VerdictKind::kFragmented:
      return fmt::format("largest hole at home {}, of {} free there",
                         offer(1),
                         shown_bounds(failed.supply.home_free_bytes));
    case VerdictKind::kScattered:
      return fmt::format("{} free in all, {} at home",
                         shown_bounds(failed.supply.free_bytes),
                         shown_bounds(failed.supply.home_free_bytes));
    case VerdictKind::kUnknown:
      return verdict.missing.empty() ? std::string("a fact is missing")
                                     : verdict::fact_text(verdict.missing.front()) + " is missing";
    case VerdictKind::kLimit:
      if (!verdict.short_by_bytes) {
        return fmt::format(
            "explained if the limit is below {}",
            show_bytes(failed.state.reserved_bytes + failed.supply.limit_need_bytes));
      }
      [[fallthrough]];
    default:
      return "short by " + verdict::shortage_text(verdict);
  }
}

class TextWriter {
 public:
  TextWriter(const Analysis& analysis, const FrameText& frames, const Paint& paint)
      : analysis_(analysis)
      , frames_(frames)
      , recording_(frames.recording())
      , paint_(paint) {}

  [[nodiscard]] std::string write(const std::string& path) {
    const auto& failures = analysis_.failures;
    if (failures.empty()) {
      write_no_failure(path);
    } else {
      headline(path, failures.back());
      if (failures.size() > 1) write_table_of(failures);
      const std::size_t full = failures.size() > kMaxFull ? 1 : failures.size();
      for (std::size_t i = failures.size() - full; i < failures.size(); ++i) {
        write_failure(failures[i], failures.size() > 1);
      }
    }
    write_evidence();
    return std::move(out_);
  }

  [[nodiscard]] std::string summarize(const std::string& path) {
    if (analysis_.failures.empty()) return {};
    const Failure& failed = analysis_.failures.back();
    headline(path, failed);
    out_ += wrapped(failed.judgement.verdict.text, kTextWidth, 2);
    write_also(failed.judgement.verdict);
    return std::move(out_);
  }

 private:
  void title(std::string_view name, std::string_view rest = {}) {
    out_ += report::title(paint_, name, rest);
  }

  void headline(const std::string& path, const Failure& failed) {
    const verdict::Verdict& verdict = failed.judgement.verdict;
    out_ += fmt::format("{}: {}: {} {} on GPU {}, {}\n",
                        printable(path),
                        paint_(tone_of(verdict.kind),
                               fmt::format("{} ({})",
                                           verdict::to_string(verdict.kind),
                                           verdict::to_string(verdict.certainty))),
                        show_bytes(failed.question.size_bytes),
                        failed.question.recorded ? "failed" : "asked",
                        failed.question.device,
                        deciding_number(failed));
  }

  void write_table_of(const std::vector<Failure>& failures) {
    title("FAILURES",
          failures.size() > kMaxFull
              ? "the last one in full below; another by --request SIZE --at oom:N"
              : "");
    Table table;
    const std::size_t first = failures.size() - std::min(failures.size(), kMaxRows);
    if (first > 0)
      out_ += fmt::format("  the last {} of {}\n", kMaxRows, show_count(failures.size()));
    for (const Failure& failed : std::span(failures).subspan(first)) {
      const verdict::Verdict& verdict = failed.judgement.verdict;
      table.add({right(fmt::format("GPU {}", failed.question.device)),
                 right(fmt::format("event {}", failed.question.event)),
                 right(show_bytes(failed.question.size_bytes)),
                 left(fmt::format("{} ({})",
                                  verdict::to_string(verdict.kind),
                                  verdict::to_string(verdict.certainty)),
                      tone_of(verdict.kind)),
                 left(deciding_number(failed))});
    }
    out_ += table.text(paint_);
  }

  void write_failure(const Failure& failed, bool one_of_many) {
    if (one_of_many) {
      out_ += fmt::format(
          "\n{}\n",
          paint_(Tone::kTitle,
                 fmt::format("GPU {}, event {}", failed.question.device, failed.question.event)));
    } else {
      out_ += '\n';
    }
    out_ += wrapped(failed.judgement.verdict.text, kTextWidth, 2);
    write_also(failed.judgement.verdict);
    write_replayed(failed.question);
    write_request(failed);
    write_ladder(failed);
    out_ += moment_text(failed, frames_, paint_);
    write_layers(failed);
    write_stages(failed);
    write_use(failed);
    write_gap(failed.state);
    write_homes(failed.state, &failed.question);
    write_pins(failed);
    write_holders(failed.holders, failed.state.allocated_bytes.low, "live memory by stack");
    write_advice(failed.advice);
  }

  /// Only for what was recorded: what is asked now, nobody has refused yet.
  void write_replayed(const verdict::Question& question) {
    const whatif::Proof* const proof = analysis_.proof_of(question.device);
    if (!question.recorded || proof == nullptr || !proof->reason.empty()) return;
    if (proof->covers(question.event)) {
      out_ += "  replayed: the allocator's rules, asked the same again, refuse it, too\n";
    } else if (question.event < proof->first_event) {
      out_ += fmt::format("  not replayed: only what follows event {} was run again\n",
                          proof->first_event);
    } else {
      out_ += "  not replayed: the rules part from the recording before it (see EVIDENCE)\n";
    }
  }

  void write_proof(const whatif::Proof& proof) {
    const std::string from =
        proof.first_event > 0 ? fmt::format(" from event {}", proof.first_event) : std::string();
    const std::string where = fmt::format("replay of GPU {}{}: ", proof.device, from);
    if (!proof.reason.empty()) {
      out_ += wrapped(where + "none, " + printable(proof.reason), kTextWidth, 2);
      return;
    }
    const std::string what =
        proof.found.first
            ? fmt::format("{} of {} as recorded and part at event {}: {}",
                          show_count(proof.found.agreed),
                          plural(proof.op_count, "operation", "operations"),
                          proof.differs_at,
                          proof.found.first->what)
            : fmt::format("all {} as recorded{}",
                          plural(proof.op_count, "operation", "operations"),
                          proof.found.refusals == 0
                              ? std::string()
                              : fmt::format(", {} among them",
                                            plural(proof.found.refusals, "refusal", "refusals")));
    out_ += wrapped(
        fmt::format("{}the rules of {} decide {}", where, policy::releases_of(proof.version), what),
        kTextWidth,
        2);
  }

  void write_stages(const Failure& failed) {
    if (failed.stages.empty()) return;
    title("STAGES", "that the program was in at the failure, as it said; the earliest first");
    Table table;
    for (const model::Stage& stage : failed.stages) {
      const std::string name = stage.name.empty()  ? "(no name)"
                               : frames_.redacts() ? "(masked)"
                                                   : printable(stage.name);
      table.add({left(name),
                 left(stage.is_annotation ? "annotation" : ""),
                 left(stage.thread == failed.thread ? "" : "on another thread")});
    }
    out_ += table.text(paint_);
  }

  void write_use(const Failure& failed) {
    if (!failed.use) return;
    title("ON THE DEVICE", "by NVML, at the failure; process ids as it counts");
    if (!failed.use->refused.empty()) {
      out_ += wrapped("not known: " + printable(failed.use->refused), kTextWidth, 2);
    }
    Table table;
    for (const model::DeviceProcess& process : failed.use->processes) {
      const std::string name =
          frames_.redacts() && !process.name.empty() ? "(masked)" : process.name;
      table.add({left(fmt::format("process {}", process.pid)),
                 right(process.used_bytes ? show_bytes(*process.used_bytes) : "not known"),
                 left(process.is_this ? "this one" : printable(name))});
    }
    out_ += table.text(paint_);
  }

  void write_also(const verdict::Verdict& verdict) {
    if (verdict.also.limit) out_ += "  also: the memory limit would refuse it\n";
    if (verdict.also.rounding) {
      out_ += "  also: the rounding of requests to blocks alone would have covered what is short\n";
    }
    if (verdict.also.capacity_pressure) {
      out_ += "  also: capacity pressure, live blocks take 90 % or more of the memory there is\n";
    }
    if (verdict.certainty == verdict::Certainty::kProven) return;
    // The text of an unknown verdict names the first.
    const std::size_t named = verdict.kind == VerdictKind::kUnknown ? 1 : 0;
    for (const verdict::MissingFact& fact :
         std::span(verdict.missing).subspan(std::min(named, verdict.missing.size()))) {
      out_ += wrapped("missing: " + verdict::fact_text(fact), kTextWidth, 2);
    }
  }

  [[nodiscard]] std::string pool_text(model::PoolIndex index) const {
    const model::PoolId& id = recording_.pools[model::index_of(index)];
    return fmt::format("({},{})", id.first, id.second);
  }

  void write_request(const Failure& failed) {
    const verdict::Question& question = failed.question;
    title("REQUEST",
          question.recorded
              ? fmt::format("event {} of GPU {}", question.event, question.device)
              : fmt::format("asked before event {} of GPU {}", question.event, question.device));
    Table table;
    table.add({left("size"),
               right(show_bytes(question.size_bytes)),
               right(exact(question.size_bytes)),
               left(fmt::format("rounded; class {}, stream {}, pool {}",
                                policy::to_string(question.size_class()),
                                question.stream,
                                pool_text(question.pool)))});
    table.add({left("need"),
               right(show_bytes(failed.supply.need_now_bytes)),
               right(exact(failed.supply.need_now_bytes)),
               left("what the driver must give for it")});
    out_ += table.text(paint_);
    if (question.recorded) out_ += fmt::format("  at    {}\n", frames_.place(question.stack));
  }

  static std::string offer_text(const verdict::Rung& rung) {
    if (!rung.bytes) return "unknown";
    if (rung.number == 5 && rung.bytes->high == 0) return "none";
    return shown_bounds(*rung.bytes);
  }

  void write_ladder(const Failure& failed) {
    title("LADDER",
          "one rule relaxed after the other; home is the request's own pool, class and stream");
    Table table;
    table.add({left(""),
               left("rung", Tone::kFaint),
               right("on offer", Tone::kFaint),
               right("needed", Tone::kFaint),
               left("fits", Tone::kFaint)});
    const std::string arrow =
        fmt::format("  <- {}", verdict::to_string(failed.judgement.verdict.kind));
    bool decided = false;
    for (const verdict::Rung& rung : failed.judgement.ladder) {
      std::string fits = "no";
      Tone tone = Tone::kPlain;
      const bool is_last = rung.number == 9;
      if (rung.fits == Fits::kUnknown) {
        fits = "unknown";
        tone = Tone::kDoubt;
      } else if (rung.fits == Fits::kYes) {
        fits = decided ? "as above" : "yes" + arrow;
        tone = decided ? Tone::kFaint : Tone::kGood;
        decided = true;
      }
      if (is_last && !decided) fits += arrow;
      if (!rung.note.empty()) fits += "  (" + rung.note + ")";
      table.add({right(std::to_string(rung.number)),
                 left(std::string(rung.what)),
                 right(offer_text(rung)),
                 right(show_bytes(rung.need_bytes)),
                 left(fits, tone)});
    }
    out_ += table.text(paint_);
  }

  static void add_layer(Table& table, std::string_view name, Bounds bounds, std::string_view what) {
    table.add({left(std::string(name)),
               right(shown_bounds(bounds)),
               right(bounds.low == bounds.high ? exact(bounds.low) : "a bound"),
               left(std::string(what), Tone::kFaint)});
  }

  static void add_state_layers(Table& table, const StateSummary& state) {
    if (state.requested_bytes) {
      add_layer(table,
                "requested",
                model::exactly(*state.requested_bytes),
                "asked for by the program, in live blocks");
    } else {
      table.add({left("requested"),
                 right("unknown"),
                 right(""),
                 left("not in this format", Tone::kFaint)});
    }
    add_layer(table, "allocated", state.allocated_bytes, "live blocks, rounded");
    add_layer(table, "active", state.active_bytes, "live and pending blocks");
    add_layer(table,
              "reserved",
              model::exactly(state.reserved_bytes),
              "held from the driver: live, pending and free");
  }

  static void add_fact(Table& table, std::string_view name, const verdict::Fact& fact) {
    if (fact.known() && fact.bytes.high == verdict::kUnlimited) {
      table.add({left(std::string(name)),
                 right(">= " + show_bytes(fact.bytes.low)),
                 right("a bound"),
                 left(fact.source, Tone::kFaint)});
    } else if (fact.known()) {
      add_layer(table, name, fact.bytes, fact.source);
    } else {
      table.add({left(std::string(name)),
                 right("unknown"),
                 right(""),
                 left("not in the file", Tone::kFaint)});
    }
  }

  void write_layers(const Failure& failed) {
    title("MEMORY", "layers overlap and are never added; from the file unless said otherwise");
    Table table;
    add_state_layers(table, failed.state);
    add_fact(table, "device free", failed.facts.free);
    add_fact(table, "device total", failed.facts.total);
    add_fact(table, "limit", failed.facts.limit);
    out_ += table.text(paint_);
  }

  void write_gap(const StateSummary& state) {
    const model::Gap& gap = state.gap;
    const std::uint64_t whole =
        state.requested_bytes
            ? state.reserved_bytes - std::min(state.reserved_bytes, *state.requested_bytes)
            : 0;
    title("GAP",
          state.requested_bytes
              ? fmt::format("reserved - requested = {}", show_bytes(whole))
              : std::string("reserved - requested is not known; its known parts:"));
    Table table;
    const auto part = [&table](std::string_view name, std::uint64_t bytes, std::string_view what) {
      table.add({left(std::string(name)),
                 right(show_bytes(bytes)),
                 right(exact(bytes)),
                 left(std::string(what), Tone::kFaint)});
    };
    if (gap.rounding_bytes)
      part("rounding", *gap.rounding_bytes, "blocks larger than what was asked");
    part("pending", gap.pending_bytes, "freed, waiting for an event on another stream");
    part("releasable", gap.releasable_bytes, "wholly free segments or pages of the default pool");
    part("stuck", gap.stuck_bytes, "free, but in segments that something else holds");
    out_ += table.text(paint_);
  }

  void write_homes(const StateSummary& state, const verdict::Question* question) {
    if (state.homes.empty()) return;
    title("HOMES", "only holes of its own pool, class and stream can serve a request");
    std::vector<model::HomeSummary> homes = state.homes;
    std::ranges::stable_sort(homes, std::greater<>{}, [](const model::HomeSummary& home) {
      return home.free_bytes.high;
    });
    Table table;
    table.add({left("pool", Tone::kFaint),
               left("class", Tone::kFaint),
               left("stream", Tone::kFaint),
               left("segments", Tone::kFaint),
               right("free", Tone::kFaint),
               right("largest hole", Tone::kFaint),
               right("holes", Tone::kFaint),
               left("")});
    for (std::size_t i = 0; i < std::min(homes.size(), kMaxHomes); ++i) {
      const model::HomeSummary& entry = homes[i];
      const bool is_home = question != nullptr && entry.home.pool == question->pool &&
                           entry.home.stream == question->stream &&
                           entry.home.size_class == question->size_class();
      table.add({left(pool_text(entry.home.pool)),
                 left(std::string(policy::to_string(entry.home.size_class))),
                 left(std::to_string(entry.home.stream)),
                 left(entry.home.expandable ? "expandable" : "plain"),
                 right(shown_bounds(entry.free_bytes)),
                 right(shown_bounds(entry.largest_hole_bytes)),
                 right(show_count(entry.holes)),
                 left(is_home ? "<- this request" : "")});
    }
    out_ += table.text(paint_);
    if (homes.size() > kMaxHomes) out_ += fmt::format("  and {} more\n", homes.size() - kMaxHomes);
  }

  void write_pins(const Failure& failed) {
    if (!failed.pins) return;
    const verdict::Pins& pins = *failed.pins;
    title("PINS", "the cheapest way to make room at home, by live bytes that would have to move");
    const std::string where =
        pins.whole_segments
            ? fmt::format("{} of {} would have to go back to the driver",
                          plural(pins.segments, "segment", "segments"),
                          show_bytes(pins.window_bytes))
            : fmt::format("a window of {} at {:#x}", show_bytes(pins.window_bytes), pins.address);
    out_ += wrapped(fmt::format("{}, pinned by {} in {}; {} of it has a place to go at home",
                                where,
                                show_bytes(pins.live_bytes),
                                plural(pins.block_count, "block", "blocks"),
                                show_bytes(pins.placeable_bytes)),
                    kTextWidth,
                    2);
    Table table;
    for (std::size_t i = 0; i < std::min(pins.blocks.size(), kMaxPins); ++i) {
      const verdict::PinnedBlock& block = pins.blocks[i];
      table.add({right(show_bytes(block.size_bytes)),
                 left(fmt::format("{:#x}", block.address)),
                 left(frames_.place(block.stack) + (block.pending ? "  (pending)" : ""))});
    }
    out_ += table.text(paint_);
    if (pins.block_count > kMaxPins) {
      out_ += fmt::format("  and {} more\n", pins.block_count - kMaxPins);
    }
  }

  void write_holders(const analysis::HolderList& holders,
                     std::uint64_t allocated_bytes,
                     std::string_view what) {
    if (holders.largest.empty()) return;
    title("HOLDERS", what);
    // Stacks that differ only inside PyTorch show as one place.
    std::vector<std::pair<std::string, verdict::Holder>> places;
    for (const verdict::Holder& holder : holders.largest) {
      const std::string place = frames_.place(holder.stack);
      const auto same =
          std::ranges::find(places, place, &std::pair<std::string, verdict::Holder>::first);
      if (same == places.end()) {
        places.emplace_back(place, holder);
      } else {
        same->second.bytes += holder.bytes;
        same->second.blocks += holder.blocks;
      }
    }
    std::ranges::stable_sort(
        places, std::greater<>{}, [](const auto& each) { return each.second.bytes; });
    Table table;
    for (std::size_t i = 0; i < std::min(places.size(), kMaxHolders); ++i) {
      const auto& [place, holder] = places[i];
      const double share = allocated_bytes == 0 ? 0.0
                                                : 100.0 * static_cast<double>(holder.bytes) /
                                                      static_cast<double>(allocated_bytes);
      table.add({right(show_bytes(holder.bytes)),
                 right(fmt::format("{:.1f} %", share)),
                 right(plural(holder.blocks, "block", "blocks")),
                 left(place)});
    }
    out_ += table.text(paint_);
    if (places.size() > kMaxHolders || holders.count > holders.largest.size()) {
      out_ += fmt::format("  and smaller ones; {} stacks in all\n", show_count(holders.count));
    }
  }

  void write_advice(const std::vector<verdict::Advice>& advice) {
    if (advice.empty()) return;
    title("ADVICE", "only what these numbers show to help");
    for (const verdict::Advice& each : advice) {
      out_ += wrapped(fmt::format("{} [{}]", each.text, each.shown_by), kTextWidth, 2);
    }
  }

  void write_no_failure(const std::string& path) {
    out_ += fmt::format("{}: {}", printable(path), no_failure(analysis_.unjudged_failures, paint_));
    if (analysis_.devices.empty()) {
      out_ += ": the recording has no segments and no events\n";
      return;
    }
    const auto busiest =
        std::ranges::max_element(analysis_.devices, {}, [](const DeviceReport& device) {
          return device.peak ? device.peak->state.allocated_bytes.low
                             : device.end.allocated_bytes.low;
        });
    const StateSummary& state = busiest->peak ? busiest->peak->state : busiest->end;
    out_ += fmt::format(": {} {} allocated of {} reserved on GPU {}\n",
                        busiest->peak ? "peak" : "at the end",
                        shown_bounds(state.allocated_bytes),
                        show_bytes(state.reserved_bytes),
                        busiest->device);
    for (const DeviceReport& device : analysis_.devices)
      write_device(device);
  }

  void write_device(const DeviceReport& device) {
    if (device.peak) {
      title(fmt::format("GPU {} PEAK", device.device),
            device.peak->event < 0
                ? std::string("before the first event")
                : fmt::format("after event {} of {}", device.peak->event, device.event_count));
      Table table;
      add_state_layers(table, device.peak->state);
      out_ += table.text(paint_);
    }
    title(fmt::format("GPU {} END", device.device), "layers overlap and are never added");
    Table table;
    add_state_layers(table, device.end);
    out_ += table.text(paint_);
    write_gap(device.end);
    write_homes(device.end, nullptr);
    const StateSummary& state = device.peak ? device.peak->state : device.end;
    write_holders(
        device.holders,
        state.allocated_bytes.low,
        device.peak ? "live memory by stack, at the peak" : "live memory by stack, at the end");
  }

  void write_evidence() {
    title("EVIDENCE",
          fmt::format("{}, written by {}; {}",
                      recording_.kind,
                      recording_.writer,
                      plural(recording_.event_count, "event", "events")));
    out_ += wrapped(fmt::format("rounding of requests to blocks: {}",
                                model::to_string(analysis_.rounding_rule)),
                    kTextWidth,
                    2);
    for (const model::RecordedFact& fact : recording_.facts) {
      out_ += wrapped(
          fmt::format("{}: {}", printable(fact.name), printable(fact.value)), kTextWidth, 2);
    }
    for (const whatif::Proof& proof : analysis_.proofs)
      write_proof(proof);
    for (const model::TrustSignal& signal : analysis_.trust) {
      out_ +=
          wrapped(fmt::format("{}: {}", signal.signal, printable(signal.effect)), kTextWidth, 2);
    }
    if (analysis_.trust.empty()) out_ += "  nothing in the file weakens it\n";
  }

  const Analysis& analysis_;
  const FrameText& frames_;
  const model::Recording& recording_;
  const Paint& paint_;
  std::string out_;
};

}  // namespace

std::string text_report(const Analysis& analysis,
                        const FrameText& frames,
                        const std::string& path,
                        const Paint& paint) {
  return TextWriter(analysis, frames, paint).write(path);
}

std::string verdict_summary(const Analysis& analysis,
                            const FrameText& frames,
                            const std::string& path,
                            const Paint& paint) {
  return TextWriter(analysis, frames, paint).summarize(path);
}

}  // namespace fragscope::report
