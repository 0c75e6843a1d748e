// SPDX-License-Identifier: Apache-2.0
#include "analyzer/verdict/verdict_text.hpp"

#include "analyzer/recording/byte_size.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace fragscope::verdict {
namespace {

using model::show_bytes;

const Rung& rung(const Judgement& judgement, int number) {
  return judgement.ladder[static_cast<std::size_t>(number - 1)];
}

std::string offered(const Rung& at) {
  return at.bytes ? show_bytes(at.bytes->low) : std::string("an unknown amount");
}

std::string joined(const std::vector<std::string_view>& words) {
  std::string text;
  for (const std::string_view word : words)
    text += (text.empty() ? "" : ", ") + std::string(word);
  return text;
}

std::string servable_text(const Question& question, const Judgement& judgement) {
  const Rung& hole = rung(judgement, 1);
  if (hole.fits == Fits::kYes) {
    const std::string found =
        fmt::format("A free block at home serves {} as things stand (largest {})",
                    show_bytes(question.size_bytes),
                    offered(hole));
    if (!question.recorded) return found + ".";
    return found + ": a retry succeeds, or the file shows a later state than the failure.";
  }
  const Rung& driver = rung(judgement, 2);
  return fmt::format(
      "No free block at home is large enough, but the driver has {} free and {} is "
      "needed.",
      offered(driver),
      show_bytes(driver.need_bytes));
}

std::string released_text(const Question& question, const Judgement& judgement) {
  const Rung& at = rung(judgement, 3);
  const std::string sum =
      fmt::format("device free and what can be given back come to {}, {} is needed",
                  offered(at),
                  show_bytes(at.need_bytes));
  if (!question.recorded) return "It would be served after an automatic release: " + sum + ".";
  return "A gap between reserved and allocated, not fragmentation: " + sum +
         ". The allocator gives this back before it fails, so the release was skipped (graph "
         "capture, or an older version inside a MemPool).";
}

std::string capacity_text(const Supply& supply,
                          const DeviceFacts& facts,
                          const Judgement& judgement) {
  const Rung& at = rung(judgement, 7);
  std::string text = fmt::format(
      "Not enough memory, however it were arranged: with all device free and every free byte that "
      "this "
      "allocator holds, {} of the {} needed are there; short by {}. Live blocks hold {}.",
      offered(at),
      show_bytes(at.need_bytes),
      shortage_text(judgement.verdict),
      show_bytes(supply.live_bytes.low));
  if (!facts.total.known()) {
    text +=
        " What others hold on the device is not in the file (--device-total, or --log, shows it).";
  }
  return text;
}

std::string limit_text(const Supply& supply, const DeviceFacts& facts, const Judgement& judgement) {
  const std::string asked = fmt::format(
      "{} reserved + {}", show_bytes(supply.reserved_bytes), show_bytes(supply.limit_need_bytes));
  if (!judgement.verdict.short_by_bytes) {
    return fmt::format(
        "A memory limit is set ({}), and would explain it if it is below {}; the driver "
        "could give the memory.",
        facts.limit.source,
        asked);
  }
  return fmt::format(
      "The memory limit refuses it: {} is {} over the limit of {}; the driver could "
      "give it.",
      asked,
      shortage_text(judgement.verdict),
      show_bytes(facts.limit.bytes.low));
}

std::string fragmented_text(const Question& question,
                            const Supply& supply,
                            const Judgement& judgement) {
  const bool home_alone = supply.home_free_bytes.low >= question.size_bytes;
  return fmt::format(
      "{} would do, but it lies in pieces: the largest hole is {}, {} is asked for; remapped, "
      "device "
      "free and home offer {}.",
      home_alone ? "The free memory at home"
                 : "The free memory at home, together with device free,",
      offered(rung(judgement, 1)),
      show_bytes(question.size_bytes),
      offered(rung(judgement, 6)));
}

std::string main_text(const Question& question,
                      const Supply& supply,
                      const DeviceFacts& facts,
                      const Judgement& judgement) {
  const std::string size = show_bytes(question.size_bytes);
  switch (judgement.verdict.kind) {
    case VerdictKind::kServable:
      return servable_text(question, judgement);
    case VerdictKind::kNotExplained:
      return fmt::format(
          "The allocator's numbers do not explain it: {} was free and {} needed. A "
          "limit or quota that the file does not show, a refusal by the driver, or a "
          "race remain.",
          offered(rung(judgement, 2)),
          show_bytes(rung(judgement, 2).need_bytes));
    case VerdictKind::kReleasable:
      return released_text(question, judgement);
    case VerdictKind::kLimit:
      return limit_text(supply, facts, judgement);
    case VerdictKind::kStranded:
      return fmt::format("A hole of {} could hold {}, but it is not for this request: {}.",
                         offered(rung(judgement, 5)),
                         size,
                         joined(judgement.verdict.stranded_by));
    case VerdictKind::kFragmented:
      return fragmented_text(question, supply, judgement);
    case VerdictKind::kScattered:
      return fmt::format(
          "The free memory lies in other pools, classes or streams too: home and device "
          "free offer {}, all together {}, and {} is needed.",
          offered(rung(judgement, 6)),
          offered(rung(judgement, 7)),
          show_bytes(rung(judgement, 7).need_bytes));
    case VerdictKind::kExternal:
      return fmt::format(
          "Memory outside this allocator is decisive: without it {} are on offer, short "
          "by {}; with it {}.",
          offered(rung(judgement, 7)),
          shortage_text(judgement.verdict),
          offered(rung(judgement, 8)));
    case VerdictKind::kCapacity:
      return capacity_text(supply, facts, judgement);
    case VerdictKind::kImpossible:
      return fmt::format("It cannot fit on this device at all: {} is needed, the device has {}.",
                         show_bytes(supply.need_whole_bytes),
                         show_bytes(facts.total.bytes.high));
    case VerdictKind::kUnknown:
      return judgement.verdict.missing.empty()
                 ? std::string("What the file holds does not decide it.")
                 : fmt::format("What the file holds does not decide it. First of all it lacks {}.",
                               fact_text(judgement.verdict.missing.front()));
  }
  return {};
}

}  // namespace

std::string shortage_text(const Verdict& verdict) {
  const std::string_view bound =
      verdict.short_by_is_most ? "at most " : (verdict.short_by_is_least ? "at least " : "");
  return fmt::format("{}{}", bound, show_bytes(verdict.short_by_bytes.value_or(0)));
}

std::string fact_text(const MissingFact& fact) {
  const std::string from = show_bytes(fact.threshold_bytes);
  if (fact.fact == "device_free") {
    return "the device's free memory, --device-free (fits from " + from + " on)";
  }
  if (fact.fact == "device_total") {
    return "the device's total, --device-total (memory outside decides from " + from + " on)";
  }
  if (fact.fact == "limit") return "the exact limit, --limit (fits from " + from + " on)";
  if (fact.fact == "pool_use_count") {
    return "whether anybody holds the private pools with free segments";
  }
  if (fact.fact == "segment_pool") {
    return "the pool of segments that were gone by the end (traces name pools from PyTorch 2.12 "
           "on)";
  }
  if (fact.fact == "driver_reserve") {
    return "how much of the last 32 MiB the driver can give (fits from " + from + " on)";
  }
  return "the exact size of blocks freed inside the recording (fits from " + from + " on)";
}

std::string verdict_text(const Question& question,
                         const Supply& supply,
                         const DeviceFacts& facts,
                         const Judgement& judgement) {
  std::string text = main_text(question, supply, facts, judgement);
  const Verdict& verdict = judgement.verdict;
  if (!rung(judgement, 2).note.empty() && facts.free.bytes.high >= supply.need_now_bytes &&
      verdict.kind != VerdictKind::kLimit) {
    text += fmt::format(
        " Device free was {}: {}.", show_bytes(facts.free.bytes.low), rung(judgement, 2).note);
  }
  if (verdict.also.capacity_pressure && verdict.kind != VerdictKind::kCapacity &&
      verdict.kind != VerdictKind::kImpossible) {
    text += " First of all the card is full: live blocks take 90 % or more of it.";
  }
  return text;
}

}  // namespace fragscope::verdict
