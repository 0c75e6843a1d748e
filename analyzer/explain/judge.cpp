// SPDX-License-Identifier: Apache-2.0
#include "analyzer/explain/judge.hpp"

#include "analyzer/explain/finding_text.hpp"
#include "analyzer/recording/outside_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace fragscope::explain {
namespace {

bool surely_less(Bounds left, Bounds right) {
  return left.high < right.low;
}
bool surely_more(Bounds left, Bounds right) {
  return left.low > right.high;
}
bool surely_at_least(Bounds left, Bounds right) {
  return left.low >= right.high;
}

class Judge {
 public:
  explicit Judge(const Message& message)
      : message_(message)
      , figures_(message.figures) {}

  [[nodiscard]] Finding run() {
    if (message_.shape == Shape::kCheck || message_.shape == Shape::kAttempt) {
      fire(Kind::kNotAnOom);
    } else if (message_.shape == Shape::kBeyond) {
      fire(Kind::kImpossible);
    } else if (message_.shape == Shape::kRejected) {
      fire(Kind::kLimit);
    } else if (!has_figures()) {
      fire(Kind::kNoNumbers);
    } else if (message_.shape == Shape::kMps) {
      judge_mps();
    } else {
      judge_figures();
    }
    return finish();
  }

 private:
  void fire(Kind kind) {
    if (std::ranges::count(fired_, kind) == 0) fired_.push_back(kind);
  }
  [[nodiscard]] bool has_fired(Kind kind) const { return std::ranges::count(fired_, kind) > 0; }

  [[nodiscard]] bool has_figures() const {
    return figures_.request && (figures_.total || figures_.free || figures_.allocated);
  }

  void judge_figures() {
    check_consistency();
    check_card();
    check_limit();
    check_free();
    if (!has_fired(Kind::kNotExplained) && !gap_is_void_) check_reach();
    if (fired_.empty()) fire(Kind::kUndecidable);
  }

  // Rule 1 and 2: figures that contradict each other, or exceed the card.
  void check_consistency() {
    const auto& f = figures_;
    bool contradict = false;
    if (f.reserved && f.allocated && surely_less(*f.reserved, *f.allocated)) {
      gap_is_void_ = contradict = true;
    }
    const bool over = f.total && ((f.reserved && surely_more(*f.reserved, *f.total)) ||
                                  (f.allocated && surely_more(*f.allocated, *f.total)));
    contradict |= f.free && f.total && surely_more(*f.free, *f.total);
    contradict |= f.process && f.reserved && surely_less(*f.process, *f.reserved);
    contradict |=
        !over && f.free && f.total && f.reserved && surely_more(*f.free + *f.reserved, *f.total);
    if (contradict) fire(Kind::kInconsistent);
    if (over) fire(Kind::kOversubscribed);
  }

  // Rule 4.
  void check_card() {
    if (figures_.total && surely_more(*figures_.request, *figures_.total)) fire(Kind::kImpossible);
  }

  // Rule 3: reserved + request against the limit. What is allocated is reserved at least.
  void check_limit() {
    if (!figures_.limit) return;
    const auto& held = figures_.reserved ? figures_.reserved : figures_.allocated;
    if (!held) return;
    const Bounds wanted = *held + *figures_.request;
    if (surely_more(wanted, *figures_.limit)) {
      fire(Kind::kLimit);
    } else if (undecided_limit(figures_)) {
      fire(Kind::kUndecidable);
    }
  }

  // Rule 6.
  void check_free() {
    if (figures_.free && surely_at_least(*figures_.free, *figures_.request)) {
      fire(Kind::kNotExplained);
    }
  }

  // Rules 5 and 7: could what is idle have reached the request at all?
  void check_reach() {
    if (!figures_.gap) return fire(Kind::kUndecidable);
    const Bounds free = possible_free(figures_);
    const Bounds idle = free + *figures_.gap;
    if (surely_less(idle, {figures_.tensor->low, figures_.tensor->low})) {
      fire(outside_decides(idle) ? Kind::kExternal : Kind::kCapacity);
    } else if (surely_less(free, *figures_.request) && surely_at_least(idle, *figures_.request)) {
      fire(Kind::kPossibleFragmentation);
      basis_ = surely_at_least(*figures_.gap, *figures_.request) ? Basis::kGap : Basis::kGapAndFree;
    } else {
      fire(Kind::kUndecidable);
    }
  }

  /// Memory outside this allocator is decisive: more than a context, and enough to have served it.
  [[nodiscard]] bool outside_decides(Bounds idle) const {
    const auto outside = outside_bytes(figures_);
    if (!outside) return false;
    if (outside->low < model::outside_counts_from(figures_.total->low)) return false;
    const Bounds context = model::exactly(model::kAssumedContextBytes);
    return (idle + (*outside - context)).low >= figures_.request->high;
  }

  // MPS: allocated + other + request against the most it allows.
  void judge_mps() {
    const auto& f = figures_;
    if (!f.allocated || !f.other_allocations || !f.limit) return fire(Kind::kUndecidable);
    const Bounds sum = *f.allocated + *f.other_allocations + *f.request;
    if (surely_more(sum, *f.limit)) return fire(Kind::kLimit);
    fire(surely_at_least(*f.limit, sum) ? Kind::kNotExplained : Kind::kUndecidable);
  }

  [[nodiscard]] Finding finish() {
    std::ranges::sort(fired_);
    Finding finding;
    finding.kind = fired_.front();
    finding.also.assign(fired_.begin() + 1, fired_.end());
    if (has_fired(Kind::kPossibleFragmentation)) finding.basis = basis_;
    finding.certain = finding.kind != Kind::kPossibleFragmentation &&
                      finding.kind != Kind::kUndecidable && finding.kind != Kind::kNoNumbers &&
                      finding.kind != Kind::kNotExplained;
    finding.text = finding_text(message_, finding);
    finding.notes = finding_notes(message_, finding);
    finding.next = next_steps(message_, finding);
    return finding;
  }

  const Message& message_;
  const Figures& figures_;
  std::vector<Kind> fired_;
  Basis basis_ = Basis::kNone;
  bool gap_is_void_ = false;
};

}  // namespace

std::string_view to_string(Kind kind) {
  static constexpr std::array<std::string_view, 11> kNames = {
      "inconsistent",
      "oversubscribed",
      "impossible",
      "limit",
      "external",
      "capacity",
      "not-explained",
      "possible-fragmentation",
      "undecidable",
      "no-numbers",
      "not-an-oom",
  };
  return kNames[static_cast<std::size_t>(kind)];
}

std::string_view to_string(Basis basis) {
  switch (basis) {
    case Basis::kGap:
      return "gap";
    case Basis::kGapAndFree:
      return "gap+free";
    case Basis::kNone:
      break;
  }
  return "";
}

Finding judge_message(const Message& message) {
  return Judge(message).run();
}

}  // namespace fragscope::explain
