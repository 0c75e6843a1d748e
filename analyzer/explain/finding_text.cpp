// SPDX-License-Identifier: Apache-2.0
#include "analyzer/explain/finding_text.hpp"

#include "analyzer/explain/message/message_format.hpp"
#include "analyzer/recording/byte_size.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace fragscope::explain {
namespace {

using model::show_bytes;
using policy::kGiB;
using policy::kMiB;

std::string shown(const std::optional<Bounds>& bounds) {
  return bounds ? explain::shown(*bounds) : std::string("an unprinted amount");
}

/// A process in its own pid namespace does not recognise itself in NVML's list.
bool is_likely_self(const Figures& f, const ProcessUse& use) {
  return f.reserved && !f.process && use.bytes.low > f.reserved->low &&
         use.bytes.high < f.reserved->high + 3 * kGiB;
}

std::string idle_text(const Figures& f) {
  if (f.free) return fmt::format("{} free and {} held but idle", shown(f.free), shown(f.gap));
  return fmt::format("at most {} free, by what the card has, and {} held but idle",
                     show_bytes(possible_free(f).high),
                     shown(f.gap));
}

/// How far the two may lie apart, whichever is larger.
std::string apart(Bounds left, Bounds right) {
  return show_bytes(std::max((left - right).high, (right - left).high));
}

std::string capacity_text(const Figures& f) {
  const std::uint64_t idle = (possible_free(f) + f.gap.value_or(Bounds{})).high;
  const std::uint64_t smallest = f.tensor->low;
  return fmt::format(
      "Out of memory, not fragmented: {} come to less than the {} asked for, at least "
      "{} short even if every idle byte were usable.",
      idle_text(f),
      shown(f.request),
      show_bytes(smallest > idle ? smallest - idle : 0));
}

/// What this process holds beside its allocator, if that is printed: by its own line, or by the
/// only process in the list where its size fits this one (in a container it does not know itself).
std::optional<Bounds> own_outside(const Figures& f) {
  if (!f.reserved) return std::nullopt;
  if (f.process && f.process->low >= f.reserved->low) return *f.process - *f.reserved;
  if (f.process || f.processes.size() != 1 || !is_likely_self(f, f.processes.front())) {
    return std::nullopt;
  }
  return f.processes.front().bytes - *f.reserved;
}

/// Whether most of the memory outside the allocator is this process's own.
bool outside_is_own(const Figures& f) {
  const auto outside = outside_bytes(f);
  const auto own = own_outside(f);
  return outside && own && own->low >= outside->high / 2;
}

std::string external_text(const Figures& f) {
  std::string text = fmt::format(
      "Memory outside this allocator is decisive: {} of {} are neither free nor held by "
      "it. {} do not reach {}; without the memory outside they would.",
      shown(outside_bytes(f)),
      shown(f.total),
      idle_text(f),
      shown(f.request));
  if (outside_is_own(f)) {
    text += fmt::format(
        " By the processes listed {} of it are this process's own: its context, libraries, or "
        "another allocator in it.",
        shown(own_outside(f)));
  }
  return text;
}

std::string possible_text(const Figures& f, Basis basis) {
  if (basis == Basis::kGap) {
    return fmt::format(
        "Fragmentation or stranding is possible, not proven: {} were asked for, and the "
        "allocator held {} that no live block used (an upper bound of what it could "
        "have used).",
        shown(f.request),
        shown(f.gap));
  }
  return fmt::format(
      "Possible, not proven: neither what was free nor what the allocator held idle "
      "surely reaches {} alone, but together they do ({}).",
      shown(f.request),
      idle_text(f));
}

std::string limit_text(const Message& message) {
  const Figures& f = message.figures;
  if (message.shape == Shape::kRejected) {
    return "Refused by per_process_memory_fraction before the driver was asked.";
  }
  if (message.shape == Shape::kMps) {
    return fmt::format(
        "Over the most that is allowed: {} allocated, {} other allocations and {} asked "
        "for against {}.",
        shown(f.allocated),
        shown(f.other_allocations),
        shown(f.request),
        shown(f.limit));
  }
  return fmt::format(
      "The process's limit refuses it: {} held and {} asked for are more than the {} "
      "allowed, whatever the device has free ({}).",
      shown(f.reserved ? f.reserved : f.allocated),
      shown(f.request),
      shown(f.limit),
      shown(f.free));
}

std::string not_explained_text(const Message& message) {
  const Figures& f = message.figures;
  if (message.shape == Shape::kMps) {
    return fmt::format(
        "The printed figures do not explain it: {} allocated, {} other allocations and {} asked "
        "for are within the {} allowed. One buffer may have a limit of its own, or memory moved "
        "meanwhile.",
        shown(f.allocated),
        shown(f.other_allocations),
        shown(f.request),
        shown(f.limit));
  }
  if (const auto wanted = undecided_limit(f)) {
    return fmt::format(
        "What was free does not explain it: {} were free and {} asked for. The limit may: {} "
        "held and asked for against {} allowed, within {} either way by rounding. Otherwise a "
        "refusal by the driver, a quota, or memory that moved meanwhile; never fragmentation.",
        shown(f.free),
        shown(f.request),
        shown(wanted),
        shown(f.limit),
        apart(*wanted, *f.limit));
  }
  return fmt::format(
      "The allocator's figures do not explain it: {} were free and {} asked for. A {}refusal by "
      "the driver, a quota, or memory that moved meanwhile (free is read after the failure); "
      "never fragmentation.",
      shown(f.free),
      shown(f.request),
      f.limit ? "" : "limit that is not printed, a ");
}

std::string undecidable_mps_text(const Figures& f) {
  return fmt::format(
      "{}: {} allocated, {} other allocations and {} asked for against {}.",
      f.limit ? "Within rounding of the most that is allowed" : "No limit is printed",
      shown(f.allocated),
      shown(f.other_allocations),
      shown(f.request),
      shown(f.limit));
}

/// The pairs of figures of which rounding leaves open which is larger, and by how much.
std::string undecided_pairs(const Figures& f) {
  std::string text;
  const auto add = [&text](const std::string& pair) { text += (text.empty() ? "" : "; ") + pair; };
  if (const auto wanted = undecided_limit(f)) {
    add(fmt::format("{} held and asked for against {} allowed, within {} either way",
                    shown(wanted),
                    shown(f.limit),
                    apart(*wanted, *f.limit)));
  }
  if (f.free->high >= f.request->low && f.free->low < f.request->high) {
    add(fmt::format("{} free against {} asked for, within {} either way",
                    shown(f.free),
                    shown(f.request),
                    apart(*f.free, *f.request)));
  }
  const Bounds idle = *f.free + *f.gap;
  if (idle.high >= f.tensor->low && idle.low < f.request->high) {
    add(fmt::format("{} against {} asked for (tensors from {} on print that), at most {} short",
                    idle_text(f),
                    shown(f.request),
                    show_bytes(f.tensor->low),
                    show_bytes(f.request->high - idle.low)));
  }
  return text;
}

std::string undecidable_text(const Message& message) {
  const Figures& f = message.figures;
  if (message.shape == Shape::kMps) return undecidable_mps_text(f);
  if (message.shape == Shape::kAsync) {
    return fmt::format(
        "This back end prints no reserved memory, so idle memory in its pool cannot be "
        "told from memory outside: {} allocated, {} free, {} asked for.",
        shown(f.allocated),
        shown(f.free),
        shown(f.request));
  }
  if (!f.free) {
    return fmt::format(
        "Not decidable: {} were asked for and {} held idle, but the text does not say "
        "what the device had free.",
        shown(f.request),
        shown(f.gap));
  }
  if (!f.gap) {
    return fmt::format(
        "Not decidable: {} were asked for and {} free, but the text does not say what this "
        "allocator held idle.",
        shown(f.request),
        shown(f.free));
  }
  return "Not decidable from the printed figures: " + undecided_pairs(f) + '.';
}

std::string inconsistent_text(const Figures& f) {
  return fmt::format(
      "The figures contradict each other (total {}, free {}, allocated {}, reserved {}): "
      "a virtualised card, a shared one, or a text that was changed. They prove nothing "
      "about fragmentation.",
      shown(f.total),
      shown(f.free),
      shown(f.allocated),
      shown(f.reserved));
}

std::string no_numbers_text(const Message& message) {
  const Figures& f = message.figures;
  if (message.shape == Shape::kReplaced) {
    return "An allocation failed for want of memory, but an NVML call failed while the message was "
           "composed and its assertion took the message's place: size and cause are not in the "
           "text.";
  }
  if (message.shape == Shape::kDoubtful) {
    return "This error is seen where memory is short, but has other causes, too; the text has no "
           "figures.";
  }
  if (message.shape == Shape::kHost) {
    return fmt::format("An allocation of the host's memory failed, not of a device's; {}.",
                       f.request ? fmt::format("{} were asked for", shown(f.request))
                                 : std::string("the text has no figures"));
  }
  std::string of_card = f.total ? fmt::format(
                                      " Of {} in all, {} are free and {} held by this "
                                      "allocator.",
                                      shown(f.total),
                                      shown(f.free),
                                      shown(f.reserved))
                                : std::string();
  if (!f.request && !message.unreadable.empty()) {
    return fmt::format("A figure cannot be read as it is printed ({}), so there is no verdict.{}",
                       fmt::join(message.unreadable, ", "),
                       of_card);
  }
  if (f.request) {
    return fmt::format(
        "Only what was asked for is printed ({}): no verdict without the device's "
        "figures.",
        shown(f.request));
  }
  if (f.total) return "What was asked for is not in the text." + of_card;
  return "An allocation failed for want of memory; the text has no figures.";
}

std::string check_text(const Message& message) {
  const Figures& f = message.figures;
  if (message.shape == Shape::kAttempt && !f.total) {
    return fmt::format(
        "One attempt of the allocator that found no room ({} asked for); it goes on after it, so "
        "this alone is no failure.",
        shown(f.request));
  }
  if (message.shape == Shape::kAttempt) {
    return fmt::format(
        "One attempt of the allocator that the driver refused ({} free of {}); it goes on "
        "after it, so this alone is no failure.",
        shown(f.free),
        shown(f.total));
  }
  if (!f.request) return "A start-up check, not a failed allocation.";
  return fmt::format("A start-up check, not a failed allocation: {} of {} free, {} wanted.",
                     shown(f.free),
                     shown(f.total),
                     shown(f.request));
}

void add_outside_notes(const Message& message,
                       const Finding& finding,
                       std::vector<std::string>& notes) {
  const Figures& f = message.figures;
  const auto outside = outside_bytes(f);
  if (outside && outside->low >= kGiB + kGiB / 2 && finding.kind != Kind::kExternal &&
      finding.kind != Kind::kOversubscribed && finding.kind != Kind::kInconsistent) {
    notes.push_back(
        fmt::format("{} of {} lie outside this allocator: other processes, the CUDA "
                    "context, libraries",
                    shown(outside),
                    shown(f.total)));
  }
  if (f.process && f.reserved && f.process->low > f.reserved->high + kGiB + kGiB / 2) {
    notes.push_back(
        fmt::format("this process uses {} beyond what its allocator holds (context, "
                    "communication buffers, a second framework)",
                    shown(*f.process - *f.reserved)));
  }
  for (const ProcessUse& use : f.processes) {
    const bool fits = is_likely_self(f, use);
    notes.push_back(
        fmt::format("process {} uses {}{}",
                    use.pid,
                    shown(use.bytes),
                    fits ? ", which fits this very process seen from a container" : ""));
    constexpr std::size_t kMaxListed = 8;
    if (notes.size() >= kMaxListed) break;
  }
}

void add_pressure_note(const Message& message,
                       const Finding& finding,
                       std::vector<std::string>& notes) {
  const Figures& f = message.figures;
  if (!f.allocated || !f.total || finding.kind == Kind::kOversubscribed) return;
  if (f.allocated->low >= f.total->high - f.total->high / 10) {
    notes.push_back(fmt::format("live memory is {} of {}: first of all the card is full",
                                shown(f.allocated),
                                shown(f.total)));
  }
}

void add_limit_note(const Message& message,
                    const Finding& finding,
                    std::vector<std::string>& notes) {
  const Figures& f = message.figures;
  if (!f.limit) return;
  if (f.total && f.limit->low > f.total->high) {
    notes.push_back(fmt::format("the limit of {} is more than the card has, so it adds nothing",
                                shown(f.limit)));
  } else if (f.total && f.limit->high >= f.total->low) {
    notes.push_back("the limit equals the card, so it adds nothing");
  } else if (f.reserved && f.request && (*f.reserved + *f.request).high <= f.limit->low) {
    notes.push_back(fmt::format("the limit of {} does not bind", shown(f.limit)));
  } else if (undecided_limit(f) && finding.kind != Kind::kUndecidable &&
             finding.kind != Kind::kNotExplained) {
    notes.push_back(
        fmt::format("within rounding the limit of {} may have refused it", shown(f.limit)));
  }
}

// Small and large requests have segments of their own.
void add_small_note(const Message& message, std::vector<std::string>& notes) {
  const Figures& f = message.figures;
  const bool is_small = (message.shape == Shape::kOld || message.shape == Shape::kNew) &&
                        f.request && f.tensor && f.request->high > policy::kSmallSize &&
                        f.tensor->high <= policy::kSmallSize;
  if (!is_small || !f.gap || f.gap->low < 16 * kMiB) return;
  notes.push_back(
      "tensors of up to 1 MiB are served from small segments of 2 MiB only; what is idle in larger "
      "segments cannot help");
}

/// How to record what the text does not say; empty if this writer cannot.
std::string recording_step(const Message& message) {
  if (message.format == kForeignFormat) return {};
  // Any program under CUDA may print a bare error.
  const bool is_bare = message.shape == Shape::kBare && !message.format.starts_with("PyTorch");
  std::string_view module;
  std::string_view before = is_bare ? "if PyTorch asked for it: " : "";
  switch (message.backend) {
    case Backend::kAsync:  // it keeps no blocks that a snapshot could show
      before = "backend:native instead of cudaMallocAsync, ";
      [[fallthrough]];
    case Backend::kCuda:
    case Backend::kHip:
      module = "torch.cuda.memory";
      break;
    case Backend::kNpu:
      module = "torch_npu.npu.memory";
      break;
    case Backend::kXpu:
    case Backend::kMps:
    case Backend::kNone:
      return {};
  }
  return fmt::format(
      "{0}{1}._record_memory_history() before the job, {1}._dump_snapshot('oom.pickle') where it "
      "is caught, then fragscope analyze oom.pickle --log THIS_LOG",
      before,
      module);
}

struct StatusTool {
  std::string_view memory;
  std::string_view processes;
};

/// The vendor's commands that show a card's memory, and who uses it.
StatusTool status_tool(Backend backend) {
  switch (backend) {
    case Backend::kCuda:
    case Backend::kAsync:
      return {"nvidia-smi -q -d MEMORY",
              "nvidia-smi --query-compute-apps=pid,used_memory --format=csv"};
    case Backend::kHip:
      return {"rocm-smi --showmeminfo vram", "rocm-smi --showpids"};
    case Backend::kNpu:
      return {"npu-smi info", "npu-smi info"};
    case Backend::kXpu:
      return {"xpu-smi stats -d DEVICE", "xpu-smi ps"};
    case Backend::kMps:
    case Backend::kNone:
      break;
  }
  return {};
}

}  // namespace

std::string shown(const Bounds& bounds) {
  // The figure as it was printed lies in the middle of its interval.
  const std::uint64_t middle = bounds.low + (bounds.high - bounds.low) / 2;
  const std::string low = show_bytes(bounds.low);
  const std::string high = show_bytes(bounds.high);
  // A hundredth of a unit apart is one printed figure and its rounding.
  std::uint64_t unit = 1;
  while (bounds.high / 1024 >= unit)
    unit *= 1024;
  const std::uint64_t rounding = std::max(bounds.high / 128, unit / 99);
  if (bounds.low >= policy::kUnlimited - 1) return "over 16 EiB";
  if (low == high || bounds.high - bounds.low <= rounding) return show_bytes(middle);
  return low + " to " + high;
}

std::optional<Bounds> outside_bytes(const Figures& figures) {
  if (!figures.total || !figures.free || !figures.reserved) return std::nullopt;
  // More than the card has: the figures contradict each other, or the driver pages.
  if ((*figures.free + *figures.reserved).low > figures.total->high) return std::nullopt;
  return *figures.total - *figures.free - *figures.reserved;
}

Bounds possible_free(const Figures& figures) {
  if (figures.free) return *figures.free;
  if (!figures.total || !figures.reserved) return {0, policy::kUnlimited};
  return {0, (*figures.total - *figures.reserved).high};
}

std::optional<Bounds> undecided_limit(const Figures& figures) {
  // What is allocated is reserved at least.
  const auto& held = figures.reserved ? figures.reserved : figures.allocated;
  if (!figures.limit || !figures.request || !held) return std::nullopt;
  const Bounds wanted = *held + *figures.request;
  const bool is_open = wanted.low <= figures.limit->high && wanted.high > figures.limit->low;
  return is_open ? std::optional(wanted) : std::nullopt;
}

std::string finding_text(const Message& message, const Finding& finding) {
  const Figures& f = message.figures;
  switch (finding.kind) {
    case Kind::kInconsistent:
      return inconsistent_text(f);
    case Kind::kOversubscribed:
      return fmt::format(
          "More is held than the card has ({} allocated, {} reserved, on {}): the driver "
          "pages to the host's memory, and \"free\" means nothing. The card was full "
          "long before.",
          shown(f.allocated),
          shown(f.reserved),
          shown(f.total));
    case Kind::kImpossible:
      if (message.shape == Shape::kBeyond) {
        return "More than 1 EiB was asked for: no device can serve it. A wrong shape or an "
               "overflow.";
      }
      return fmt::format(
          "Impossible on this device: {} were asked for, it has {}. No allocator setting "
          "helps.",
          shown(f.request),
          shown(f.total));
    case Kind::kLimit:
      return limit_text(message);
    case Kind::kExternal:
      return external_text(f);
    case Kind::kCapacity:
      return capacity_text(f);
    case Kind::kNotExplained:
      return not_explained_text(message);
    case Kind::kPossibleFragmentation:
      return possible_text(f, finding.basis);
    case Kind::kUndecidable:
      return undecidable_text(message);
    case Kind::kNoNumbers:
      return no_numbers_text(message);
    case Kind::kNotAnOom:
      return check_text(message);
  }
  return {};
}

std::vector<std::string> finding_notes(const Message& message, const Finding& finding) {
  const Figures& f = message.figures;
  std::vector<std::string> notes;
  if (message.cut_short)
    notes.push_back("the message is cut short; figures behind the cut are missing");
  if (!message.unreadable.empty() && f.request) {
    notes.push_back(
        fmt::format("not readable as printed: {}", fmt::join(message.unreadable, ", ")));
  }
  add_limit_note(message, finding, notes);
  add_small_note(message, notes);
  add_pressure_note(message, finding, notes);
  add_outside_notes(message, finding, notes);
  if (f.private_pools && f.private_pools->high > 0) {
    notes.push_back(
        fmt::format("{} lie idle in private pools (CUDA graphs, MemPool); only requests "
                    "inside those pools can use them",
                    shown(f.private_pools)));
  }
  if (f.tensor && f.request && f.tensor->high != f.request->high) {
    notes.push_back(
        fmt::format("the printed request is what the driver was asked for; the tensor has {} "
                    "to {}",
                    show_bytes(f.tensor->low),
                    show_bytes(f.tensor->high)));
  } else if (f.tensor && f.tensor != f.request && f.tensor->low + 4 * kMiB < f.tensor->high) {
    notes.push_back(
        fmt::format("tensors from {} on make it print this", show_bytes(f.tensor->low)));
  }
  if (message.format == kXpuExtensionFormat) {
    notes.emplace_back("this version refuses any single block over 4 GB, whatever is free");
  }
  if (message.shape == Shape::kMps && f.other_allocations && f.allocated &&
      f.other_allocations->low > f.allocated->high) {
    notes.push_back("other allocations outweigh this allocator's");
  }
  if (message.backend == Backend::kNone && message.shape == Shape::kBare) {
    notes.push_back("this names no GPU allocator; it may be host memory");
  }
  return notes;
}

std::vector<std::string> next_steps(const Message& message, const Finding& finding) {
  // What one attempt led to stands further down in the same log.
  if (message.shape == Shape::kAttempt) return {};
  if (finding.kind == Kind::kNotAnOom) {
    return {"nvidia-smi  (who holds the memory before the start)"};
  }
  std::vector<std::string> steps;
  const bool open = !finding.certain || finding.kind == Kind::kInconsistent;
  const std::string recording = open ? recording_step(message) : "";
  if (!recording.empty()) steps.push_back(recording);
  const StatusTool tool = status_tool(message.backend);
  if (tool.memory.empty()) return steps;
  if (finding.kind == Kind::kNotExplained || finding.kind == Kind::kInconsistent) {
    steps.push_back(
        fmt::format("{}, and the limits of the container, the card's slice or vGPU", tool.memory));
  } else if (finding.kind == Kind::kExternal) {
    steps.push_back(
        outside_is_own(message.figures)
            ? std::string("what else in this process takes device memory: its libraries' own "
                          "figures, or a profile of its driver allocations")
            : fmt::format("{} at the failure", tool.processes));
  } else if (open && recording.empty()) {
    steps.push_back(fmt::format("{} just before the failure", tool.memory));
  }
  return steps;
}

}  // namespace fragscope::explain
