// SPDX-License-Identifier: Apache-2.0
#include "analyzer/verdict/ladder.hpp"

#include "analyzer/recording/byte_sums.hpp"
#include "analyzer/recording/outside_memory.hpp"
#include "analyzer/verdict/verdict_text.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace fragscope::verdict {

using model::minus;

namespace {

constexpr std::array<std::string_view, 9> kWhat = {
    "a hole at home, under the allocator's own rules",
    "the driver gives what is needed",
    "pending frees waited for, wholly free segments given back",
    "the memory limit lifted",
    "a hole outside this request's home",
    "blocks at home remapped",
    "blocks of every pool, class and stream remapped",
    "memory outside this allocator freed",
    "nothing more to relax",
};

constexpr std::array<std::pair<Barrier, std::string_view>, 6> kBarrierNames = {{
    {Barrier::kStream, "stream"},
    {Barrier::kClass, "class"},
    {Barrier::kPool, "pool"},
    {Barrier::kPending, "pending"},
    {Barrier::kOversize, "oversize"},
    {Barrier::kExpandable, "expandable"},
}};

Fits compare(Bounds offer, std::uint64_t need) {
  if (offer.low >= need) return Fits::kYes;
  return offer.high < need ? Fits::kNo : Fits::kUnknown;
}

Fits either(Fits left, Fits right) {
  if (left == Fits::kYes || right == Fits::kYes) return Fits::kYes;
  return left == Fits::kUnknown || right == Fits::kUnknown ? Fits::kUnknown : Fits::kNo;
}
Fits both(Fits left, Fits right) {
  if (left == Fits::kNo || right == Fits::kNo) return Fits::kNo;
  return left == Fits::kUnknown || right == Fits::kUnknown ? Fits::kUnknown : Fits::kYes;
}

/// The block that the allocator's best-fit search tries, if any, by one end of the holes' bounds:
/// smallest first; among expandable ones, the first that is not beaten by the one behind it in
/// "size plus what could still be mapped". Only this one is tested against the oversize rules.
bool search_finds(std::vector<HomeHole> holes,
                  bool lower_end,
                  std::uint64_t size,
                  const policy::SizeRules& rules) {
  if (lower_end) {
    std::erase_if(holes, [](const HomeHole& hole) { return hole.pool_assumed; });
    for (HomeHole& hole : holes)
      hole.size_bytes -= hole.slack_bytes;
  }
  std::erase_if(holes, [size](const HomeHole& hole) { return hole.size_bytes < size; });
  if (holes.empty()) return false;
  std::ranges::sort(holes, {}, [](const HomeHole& hole) {
    return std::pair{hole.size_bytes, hole.address};
  });
  const auto effective = [](const HomeHole& hole) {
    return hole.size_bytes + hole.unmapped_behind;
  };
  std::size_t candidate = 0;
  while (holes[candidate].expandable && candidate + 1 < holes.size() &&
         effective(holes[candidate + 1]) < effective(holes[candidate])) {
    ++candidate;
  }
  return policy::oversize_rules_admit(holes[candidate].size_bytes, size, rules);
}

class Judge {
 public:
  Judge(const Question& question,
        const Supply& supply,
        std::optional<std::uint64_t> requested_bytes,
        const DeviceFacts& facts,
        const policy::SizeRules& rules)
      : question_(question)
      , supply_(supply)
      , requested_bytes_(requested_bytes)
      , facts_(facts)
      , rules_(rules) {
    find_free();
  }

  [[nodiscard]] Judgement run() {
    for (std::size_t i = 0; i < out_.ladder.size(); ++i) {
      rung(static_cast<int>(i) + 1).number = static_cast<int>(i) + 1;
      rung(static_cast<int>(i) + 1).what = kWhat[i];
    }
    hole_at_home();
    driver();
    release();
    lift_limit();
    other_homes();
    remap_home();
    remap_all();
    outside();
    nothing_more();
    keep_relaxations();
    choose();
    find_also();
    out_.verdict.text = verdict_text(question_, supply_, facts_, out_);
    return std::move(out_);
  }

 private:
  // Each rung keeps all earlier relaxations: what fits once fits on every later rung, and what may
  // fit on one may fit on the later ones.
  void keep_relaxations() {
    for (std::size_t i = 1; i < out_.ladder.size(); ++i) {
      const Rung& before = out_.ladder[i - 1];
      Rung& at = out_.ladder[i];
      const Fits kept = either(before.fits, at.fits);
      if (kept == Fits::kYes) {
        at.missing.clear();
      } else if (kept != at.fits) {
        at.missing = before.missing;
      }
      at.fits = kept;
    }
  }

  Rung& rung(int number) { return out_.ladder[static_cast<std::size_t>(number - 1)]; }

  // F for the rungs. An unknown F is bounded by the card. A recorded failure with a little more
  // free than needed shows that the driver could not give the last of it.
  void find_free() {
    free_ = facts_.free.bytes;
    if (!facts_.free.known() && facts_.total.known()) {
      free_.high = minus(facts_.total.bytes.high, supply_.reserved_bytes);
    }
    const std::uint64_t need = supply_.need_now_bytes;
    // Where the limit refuses, the driver was not asked.
    driver_refused_ = question_.recorded && facts_.free.known() && free_.high >= need &&
                      free_.low < need + kDriverReserveBytes &&
                      limit_allows(model::exactly(supply_.reserved_bytes)) != Fits::kNo;
    if (driver_refused_) {
      free_ = {minus(free_.low, kDriverReserveBytes), minus(std::max<std::uint64_t>(need, 1), 1)};
    }
  }

  /// Why an amount beside F is not known exactly.
  enum class Doubt : std::uint8_t { kPools, kBlocks, kTotal };

  /// A rung on which F and `others` together must give `need`.
  void offer(Rung& at, Bounds others, std::uint64_t need, Doubt doubt) {
    const Bounds sum = free_ + others;
    at.need_bytes = need;
    if (sum.high < kUnlimited) at.bytes = sum;
    at.fits = compare(sum, need);
    if (at.fits == Fits::kUnknown) at.missing.push_back(deciding_fact(others, need, doubt));
  }

  /// What keeps F + others from being known well enough, and from which value on it is enough.
  [[nodiscard]] MissingFact deciding_fact(Bounds others, std::uint64_t need, Doubt doubt) const {
    if (!facts_.free.known()) return {"device_free", minus(need, others.low)};
    if (others.low != others.high) {
      if (doubt == Doubt::kTotal) return {"device_total", total_threshold()};
      const bool is_pools =
          doubt == Doubt::kPools && supply_.releasable_bytes.low != supply_.releasable_bytes.high;
      return {is_pools ? "pool_use_count" : "block_size", minus(need, free_.high)};
    }
    return {driver_refused_ ? "driver_reserve" : "device_free", minus(need, others.low)};
  }

  /// Blocks alone may do as well: remapped, they leave a hole of S without a new segment.
  void offer_blocks(Rung& at, Bounds blocks) {
    const std::uint64_t size = question_.size_bytes;
    const Fits fits = compare(blocks, size);
    if (at.fits == Fits::kYes || fits == Fits::kNo) return;
    if (fits == Fits::kUnknown && at.fits == Fits::kUnknown) return;
    at.fits = fits;
    at.bytes = blocks;
    at.need_bytes = size;
    at.missing.clear();
    if (fits == Fits::kUnknown) at.missing.push_back({"block_size", size});
  }

  void hole_at_home() {
    Rung& at = rung(1);
    at.need_bytes = question_.size_bytes;
    at.bytes = supply_.largest_hole_bytes;
    const bool sure = search_finds(supply_.home_holes, true, question_.size_bytes, rules_);
    const bool perhaps = search_finds(supply_.home_holes, false, question_.size_bytes, rules_);
    at.fits = sure == perhaps ? (sure ? Fits::kYes : Fits::kNo) : Fits::kUnknown;
    if (at.fits != Fits::kUnknown) return;
    const bool by_pool = std::ranges::any_of(supply_.home_holes, &HomeHole::pool_assumed);
    at.missing.push_back({by_pool ? "segment_pool" : "block_size", question_.size_bytes});
  }

  /// Whether the limit lets the allocator ask the driver, when it holds `reserved`.
  [[nodiscard]] Fits limit_allows(Bounds reserved) const {
    if (!facts_.limit.known()) return Fits::kYes;
    const Bounds after = reserved + model::exactly(supply_.limit_need_bytes);
    if (after.high <= facts_.limit.bytes.low) return Fits::kYes;
    return after.low > facts_.limit.bytes.high ? Fits::kNo : Fits::kUnknown;
  }

  void apply_limit(Rung& at, Bounds reserved) {
    const Fits limit = limit_allows(reserved);
    at.fits = both(at.fits, limit);
    if (at.fits == Fits::kNo) at.missing.clear();
    if (limit == Fits::kNo) {
      at.note = "the limit refuses it before the driver is asked";
    } else if (limit == Fits::kUnknown && at.fits == Fits::kUnknown) {
      at.missing.push_back({"limit", reserved.low + supply_.limit_need_bytes});
    }
  }

  void driver() {
    Rung& at = rung(2);
    if (driver_refused_) {
      at.bytes = facts_.free.bytes;
      at.need_bytes = supply_.need_now_bytes;
      at.fits = Fits::kNo;
      at.note = "the driver may refuse the last 32 MiB, and did";
    } else {
      // A failure with less to spare than the driver may keep back shows nothing.
      const std::uint64_t reserve = question_.recorded ? kDriverReserveBytes : 0;
      offer(at, {}, supply_.need_now_bytes + reserve, Doubt::kBlocks);
      at.need_bytes = supply_.need_now_bytes;
    }
    apply_limit(at, model::exactly(supply_.reserved_bytes));
  }

  void release() {
    Rung& at = rung(3);
    offer(at, supply_.releasable_bytes, supply_.need_released_bytes, Doubt::kPools);
    apply_limit(at, model::exactly(supply_.reserved_bytes) - supply_.releasable_bytes);
  }

  void lift_limit() {
    Rung& at = rung(4);
    offer(at, supply_.releasable_bytes, supply_.need_released_bytes, Doubt::kPools);
    // Without a limit the driver may also give it as things stand.
    const Fits now = driver_refused_ ? Fits::kNo : compare(free_, supply_.need_now_bytes);
    at.fits = either(at.fits, now);
    if (at.fits != Fits::kUnknown) at.missing.clear();
    if (at.fits == Fits::kUnknown && at.missing.empty()) {
      at.missing.push_back(deciding_fact({}, supply_.need_now_bytes, Doubt::kBlocks));
    }
  }

  void other_homes() {
    Rung& at = rung(5);
    at.need_bytes = question_.size_bytes;
    Bounds largest;
    Fits best = Fits::kNo;
    int fewest = 64;
    BarrierSet behind = 0;
    for (std::size_t set = 1; set < kBarrierSets; ++set) {
      const Bounds hole = supply_.behind_barriers[set];
      if (hole.high == 0) continue;
      largest.low = std::max(largest.low, hole.low);
      largest.high = std::max(largest.high, hole.high);
      const Fits fits = compare(hole, question_.size_bytes);
      const int barriers = std::popcount(set);
      if (fits != Fits::kYes) {
        best = either(best, fits);
      } else if (best != Fits::kYes || barriers < fewest) {
        best = Fits::kYes;
        fewest = barriers;
        behind = static_cast<BarrierSet>(set);
      } else if (barriers == 1 && fewest == 1) {
        behind |= static_cast<BarrierSet>(set);  // several holes, each behind one barrier
      }
    }
    at.bytes = largest;
    at.fits = best;
    if (best == Fits::kUnknown) at.missing.push_back({"block_size", question_.size_bytes});
    barriers_are_joint_ = best == Fits::kYes && fewest > 1;
    for (const auto& [barrier, name] : kBarrierNames) {
      if ((behind & static_cast<BarrierSet>(barrier)) != 0) stranded_by_.push_back(name);
    }
  }

  void remap_home() {
    const Bounds elsewhere =
        supply_.releasable_bytes - model::exactly(supply_.home_releasable_bytes);
    const Bounds home = supply_.home_free_bytes + supply_.home_pending_bytes;
    offer(rung(6), elsewhere + home, supply_.need_whole_bytes, Doubt::kPools);
    offer_blocks(rung(6), home);
  }

  [[nodiscard]] Bounds everything() const { return supply_.free_bytes + supply_.pending_bytes; }

  void remap_all() {
    offer(rung(7), everything(), supply_.need_whole_bytes, Doubt::kBlocks);
    offer_blocks(rung(7), everything());
  }

  // What this process holds beside the allocator is its context only up to what a context can be;
  // where it is more, other allocators and libraries are in it, and count as memory outside.
  [[nodiscard]] Bounds context_bytes() const {
    const bool is_context =
        facts_.context.known() &&
        facts_.context.bytes.high < model::outside_counts_from(facts_.total.bytes.low);
    return is_context ? facts_.context.bytes : model::exactly(model::kAssumedContextBytes);
  }

  // X, the memory outside this allocator: what is neither free nor reserved here. It counts only
  // where it is more than a context can explain.
  void outside() {
    Rung& at = rung(8);
    at.need_bytes = supply_.need_whole_bytes;
    const Bounds reserved = model::exactly(supply_.reserved_bytes);
    if (!facts_.total.known()) {
      at.fits = compare(free_ + everything(), at.need_bytes);
      if (at.fits == Fits::kYes) return;
      at.fits = Fits::kUnknown;
      at.missing.push_back({"device_total", total_threshold()});
      return;
    }
    if (!facts_.free.known()) {
      // F and X together are what is not reserved here, whatever F is.
      const Bounds most = everything() + (facts_.total.bytes - reserved);
      at.fits = compare({free_.low + everything().low, most.high}, at.need_bytes);
      if (at.fits == Fits::kUnknown) {
        at.missing.push_back({"device_free", minus(at.need_bytes, everything().low)});
      }
      return;
    }
    const Bounds x = facts_.total.bytes - facts_.free.bytes - reserved;
    const std::uint64_t counts_from = model::outside_counts_from(facts_.total.bytes.low);
    Bounds gain = x - context_bytes();
    if (x.low < counts_from) gain.low = 0;
    if (x.high < counts_from) gain.high = 0;
    offer(at, everything() + gain, supply_.need_whole_bytes, Doubt::kTotal);
  }

  /// The card size from which memory outside would have decided: X must cover what is lacking and
  /// the context, and count at all (X >= a quarter of F + reserved + X from a third of F + reserved
  /// on).
  [[nodiscard]] std::uint64_t total_threshold() const {
    const std::uint64_t known = free_.low + supply_.reserved_bytes;
    const std::uint64_t lacking =
        minus(supply_.need_whole_bytes, free_.low + everything().low) + context_bytes().high;
    return known + std::max(lacking, std::min(model::kOutsideCountsBytes, known / 3 + 1));
  }

  void nothing_more() {
    Rung& at = rung(9);
    offer(at, everything(), supply_.need_whole_bytes, Doubt::kBlocks);
    at.missing.clear();
    if (rung(8).fits == Fits::kYes) at.fits = Fits::kYes;
  }

  void choose() {
    static constexpr std::array<VerdictKind, 8> kKinds = {
        VerdictKind::kServable,
        VerdictKind::kServable,
        VerdictKind::kReleasable,
        VerdictKind::kLimit,
        VerdictKind::kStranded,
        VerdictKind::kFragmented,
        VerdictKind::kScattered,
        VerdictKind::kExternal,
    };
    Verdict& verdict = out_.verdict;
    std::size_t first_yes = 0;
    verdict.certainty = Certainty::kProven;
    verdict.barriers_are_joint = barriers_are_joint_;
    while (first_yes < kKinds.size() && out_.ladder[first_yes].fits != Fits::kYes) {
      const Rung& passed = out_.ladder[first_yes++];
      if (passed.fits == Fits::kUnknown) verdict.certainty = Certainty::kPossible;
      for (const MissingFact& fact : passed.missing)
        add_missing(fact);
    }
    if (first_yes < kKinds.size()) {
      verdict.kind = kKinds[first_yes];
      if (first_yes == 1 && question_.recorded) verdict.kind = VerdictKind::kNotExplained;
      if (verdict.kind == VerdictKind::kStranded) verdict.stranded_by = stranded_by_;
      find_shortage();
      return;
    }
    if (facts_.total.known() && supply_.need_whole_bytes > facts_.total.bytes.high) {
      verdict.kind = VerdictKind::kImpossible;
      verdict.short_by_bytes = supply_.need_whole_bytes - facts_.total.bytes.high;
      verdict.short_by_is_least = facts_.total.bytes.low != facts_.total.bytes.high;
      verdict.certainty = Certainty::kProven;
      verdict.missing.clear();
      return;
    }
    // Rung 8 asks about others; what this allocator could give is known without it.
    const bool only_outside_unknown =
        std::ranges::none_of(out_.ladder.begin(), out_.ladder.begin() + 7, [](const Rung& at) {
          return at.fits == Fits::kUnknown;
        });
    verdict.kind = only_outside_unknown ? VerdictKind::kCapacity : VerdictKind::kUnknown;
    if (only_outside_unknown) verdict.certainty = Certainty::kProven;
    find_shortage();
  }

  void add_missing(const MissingFact& fact) {
    auto& missing = out_.verdict.missing;
    const auto same = std::ranges::find(missing, fact.fact, &MissingFact::fact);
    // The earliest rung that a fact would decide is the one that matters; it was added first.
    if (same == missing.end()) missing.push_back(fact);
  }

  void find_shortage() {
    Verdict& verdict = out_.verdict;
    const Bounds here = free_ + everything();
    const std::uint64_t asked_in_all = supply_.reserved_bytes + supply_.limit_need_bytes;
    switch (verdict.kind) {
      case VerdictKind::kCapacity:
      case VerdictKind::kExternal:
        // Where the driver kept some back, how much is not known: the most it can be is said.
        verdict.short_by_is_most = driver_refused_;
        verdict.short_by_is_least = !driver_refused_ && here.low != here.high;
        verdict.short_by_bytes =
            minus(supply_.need_whole_bytes, driver_refused_ ? here.low : here.high);
        break;
      case VerdictKind::kLimit:
        if (facts_.limit.bytes.high < kUnlimited) {
          verdict.short_by_bytes = minus(asked_in_all, facts_.limit.bytes.high);
          verdict.short_by_is_least = facts_.limit.bytes.low != facts_.limit.bytes.high;
        }
        break;
      default:
        break;
    }
  }

  void find_also() {
    Also& also = out_.verdict.also;
    const VerdictKind kind = out_.verdict.kind;
    also.limit = kind != VerdictKind::kLimit &&
                 limit_allows(model::exactly(supply_.reserved_bytes)) == Fits::kNo;
    const bool fits_now = kind == VerdictKind::kServable || kind == VerdictKind::kNotExplained;
    if (requested_bytes_ && !fits_now && (facts_.free.known() || out_.verdict.short_by_bytes)) {
      const std::uint64_t lacking =
          out_.verdict.short_by_bytes.value_or(minus(supply_.need_now_bytes, free_.high));
      also.rounding = lacking > 0 && minus(supply_.live_bytes.low, *requested_bytes_) >= lacking;
    }
    std::optional<std::uint64_t> there_is;
    if (facts_.total.known()) {
      there_is = facts_.total.bytes.high;
    } else if (facts_.free.known()) {
      there_is = supply_.reserved_bytes + facts_.free.bytes.high;
    }
    also.capacity_pressure =
        there_is && *there_is > 0 && supply_.live_bytes.low >= *there_is - *there_is / 10;
  }

  const Question& question_;
  const Supply& supply_;
  std::optional<std::uint64_t> requested_bytes_;
  const DeviceFacts& facts_;
  const policy::SizeRules& rules_;
  Judgement out_;
  Bounds free_;
  bool driver_refused_ = false;
  std::vector<std::string_view> stranded_by_;
  bool barriers_are_joint_ = false;
};

}  // namespace

std::string_view to_string(VerdictKind kind) {
  static constexpr std::array<std::string_view, 11> kNames = {
      "servable",
      "not-explained",
      "releasable",
      "limit",
      "stranded",
      "fragmented",
      "scattered",
      "external",
      "capacity",
      "impossible",
      "unknown",
  };
  return kNames[static_cast<std::size_t>(kind)];
}

std::string_view to_string(Certainty certainty) {
  return certainty == Certainty::kProven ? "proven" : "possible";
}

Judgement judge(const Question& question,
                const Supply& supply,
                std::optional<std::uint64_t> requested_bytes,
                const DeviceFacts& facts,
                const policy::SizeRules& rules) {
  return Judge(question, supply, requested_bytes, facts, rules).run();
}

}  // namespace fragscope::verdict
