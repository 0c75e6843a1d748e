// SPDX-License-Identifier: Apache-2.0
#include "analyzer/explain/message/forms/pytorch_forms.hpp"

#include "analyzer/explain/message/forms/other_forms.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace fragscope::explain {
namespace {

// How far behind a message's start its parts may lie; a list of many processes is the longest.
constexpr std::size_t kReach = 4000;

constexpr std::string_view kExceeds = "would exceed allowed memory";
constexpr stages::MemoryWords kOutOfMemory = {"out of memory", stages::Wording::kWords};

// "A already allocated; [C current active;] F free; [L allowed;] C cached)", or "V reserved in
// total by PyTorch)".
bool read_old_rest(Reading& reading) {
  Figures& figures = reading.message.figures;
  std::optional<Bounds> ignored;
  if (!reading.figure(figures.allocated, " already allocated; ")) return reading.cut();
  static_cast<void>(reading.figure(ignored, " current active; "));
  static_cast<void>(reading.figure(figures.free, " free; "));  // XPU leaves it out
  static_cast<void>(reading.figure(figures.limit, " allowed; "));
  if (reading.figure(figures.gap, " cached")) return true;
  if (!reading.figure(figures.reserved, " reserved in total by PyTorch")) return reading.cut();
  return true;
}

// "(GPU 0; T total capacity; ..."
bool read_old(Reading& reading) {
  static_cast<void>(reading.cursor.pass(" "));
  reading.device();
  if (!reading.cursor.pass("; ")) return true;
  reading.message.shape = Shape::kOld;
  if (!reading.figure(reading.message.figures.total, " total capacity; ")) return reading.cut();
  return read_old_rest(reading);
}

/// "process N has S memory in use", or "this process has ..."; where it stands in between.
bool read_process(Reading& reading, std::size_t within) {
  JoinedCursor probe = reading.cursor;
  if (!reading.pass_through(probe, "process ", within)) return false;
  const bool own = probe.pass("has ");
  std::string pid;
  if (!own) {
    const auto number = probe.count();
    pid = number ? std::to_string(*number) : probe.word();
    if (!probe.pass(" has ")) return false;
  }
  const auto bytes = probe.size();
  if (!bytes || !probe.pass(" memory in use")) return false;
  static_cast<void>(probe.pass("."));
  reading.cursor = probe;
  Figures& figures = reading.message.figures;
  if (own) {
    figures.process = if_available(bytes);
  } else if (if_available(bytes)) {
    figures.processes.push_back({std::move(pid), *bytes});
  }
  return true;
}

// Sentences between "is free." and "Of the allocated memory": uses by process, then the limit.
void read_processes(Reading& reading) {
  constexpr std::size_t kMaxProcesses = 64;
  JoinedCursor end = reading.cursor;
  const bool has_end = reading.pass_through(end, "Of the allocated memory ", kReach);
  for (std::size_t i = 0; i < kMaxProcesses; ++i) {
    const std::size_t within = has_end ? end.at() - reading.cursor.at() : kReach;
    if (!read_process(reading, within)) break;
  }
  static_cast<void>(reading.cursor.pass("."));
  static_cast<void>(reading.cursor.pass(" "));
  static_cast<void>(reading.figure(reading.message.figures.limit, " allowed;"));
}

// "0 has a total capacity of T of which F is free. {processes} [L allowed; ] Of the allocated
// memory A is allocated by PyTorch, [with P allocated in private pools (...), ] and G is reserved
// ..."
bool read_new(Reading& reading) {
  Figures& figures = reading.message.figures;
  JoinedCursor& cursor = reading.cursor;
  reading.device();
  // 2.3 prints the device's number as a control character, which is a blank by now.
  if (!cursor.pass(" has a total capac") && !cursor.pass("has a total capac")) return reading.cut();
  static_cast<void>(cursor.pass("i"));  // 2.1 left it out
  if (!cursor.pass("ty of ")) return reading.cut();
  reading.message.shape = Shape::kNew;
  static_cast<void>(reading.figure(figures.total, ""));
  if (cursor.pass(" of which ") && !reading.figure(figures.free, " is free")) return reading.cut();
  read_processes(reading);
  if (!reading.pass_through(cursor, "Of the allocated memory ", kReach)) return reading.cut();
  if (!reading.figure(figures.allocated, " is allocated by PyTorch, ")) return reading.cut();
  if (cursor.pass("with ")) {
    static_cast<void>(reading.figure(figures.private_pools, " allocated in private pools"));
    if (!reading.pass_through(cursor, "and ", 80)) return reading.cut();
  } else if (!cursor.pass("and ")) {
    return reading.cut();
  }
  if (!reading.figure(figures.gap, " is reserved by PyTorch but unallocated")) return reading.cut();
  return true;
}

bool read_device_part(Reading& reading) {
  JoinedCursor& cursor = reading.cursor;
  if (cursor.pass(" (GPU ") || cursor.pass(" (NPU ")) return read_old(reading);
  if (cursor.pass(". GPU ") || cursor.pass(". NPU ")) return read_new(reading);
  // PyTorch 2.3 printed the device's number as a character, which ended the text.
  reading.message.cut_short = cursor.pass(". GPU") || cursor.at_end();
  return true;
}

// "CUDA out of memory", of an allocator of PyTorch.
bool read_pytorch(Reading& reading, Backend backend) {
  JoinedCursor& cursor = reading.cursor;
  if (!reading.tells_of_failure(kOutOfMemory)) return false;
  reading.is_driver_request = true;
  static_cast<void>(reading.be(Shape::kBare, backend));
  if (cursor.pass(". Allocation was preemptively rejected because it would exceed "
                  "per_process_memory_fraction limit. Requested size: ")) {
    reading.is_driver_request = false;
    reading.request_in_bytes();
    return reading.be(Shape::kRejected, backend);
  }
  if (!cursor.pass(". Tried to allocate ") && !cursor.pass("! Tried to allocate ") &&
      !cursor.pass(" Tried to allocate ")) {
    return true;
  }
  if (cursor.pass("more than 1EB memory")) return reading.be(Shape::kBeyond, backend);
  reading.message.shape = Shape::kRequest;
  reading.request();
  return read_device_part(reading);
}

// "MPS backend out of memory (MPS allocated: A, other allocations: O, max allowed: L). Tried ..."
bool read_mps(Reading& reading) {
  static_cast<void>(reading.be(Shape::kMps, Backend::kMps));
  Figures& figures = reading.message.figures;
  JoinedCursor& cursor = reading.cursor;
  if (!cursor.pass(" (MPS allocated: ") ||
      !reading.figure(figures.allocated, ", other allocations: ") ||
      !reading.figure(figures.other_allocations, ", max allowed: ") ||
      !reading.figure(figures.limit, "). ")) {
    return reading.cut();
  }
  if (!cursor.pass("Tried to allocate ")) return reading.cut();
  reading.request();
  static_cast<void>(cursor.pass(" on private pool") || cursor.pass(" on shared pool"));
  return true;
}

// "Allocation on device 0 would exceed allowed memory. (out of memory)" and a list of figures.
bool read_async(Reading& reading) {
  static_cast<void>(reading.be(Shape::kAsync, Backend::kAsync));
  Figures& figures = reading.message.figures;
  if (auto number = reading.behind_last("device ", 40)) reading.device(*number);
  static_cast<void>(reading.cursor.pass(". (out of memory)"));
  const auto labelled = [&reading](std::string_view label, std::optional<Bounds>& into) {
    const JoinedCursor start = reading.cursor;
    JoinedCursor& cursor = reading.cursor;
    if (reading.pass_through(cursor, label, 200) && (cursor.pass(" : ") || cursor.pass(": ")) &&
        reading.figure(into, "")) {
      return;
    }
    cursor = start;
  };
  labelled("Currently allocated", figures.allocated);
  labelled("Requested", figures.request);
  labelled("Device limit", figures.total);
  labelled("Free (according to CUDA)", figures.free);
  labelled("PyTorch limit (set by user-supplied memory fraction)", figures.limit);
  reading.message.cut_short = !figures.request && reading.message.unreadable.empty();
  return true;
}

// "would exceed allowed memory. (out of memory)", the first words broken by a line end.
bool read_async_from_its_start(Reading& reading) {
  constexpr std::size_t kFarthest = 80;
  const std::size_t first = reading.at - std::min(reading.at, kFarthest);
  for (std::size_t start = reading.at; start-- > first;) {
    JoinedCursor probe(reading.window, start);
    if (!probe.pass(kExceeds)) continue;
    reading.at = start;
    reading.cursor = probe;
    return read_async(reading);
  }
  return false;
}

// Whose it is stands in front of it.
bool read_out_of_memory(Reading& reading) {
  const std::string_view front = reading.before(120);
  if (stages::without_end(front, "MPS backend ")) return read_mps(reading);
  static constexpr std::array<std::pair<std::string_view, Backend>, 4> kNames = {
      {{"CUDA ", Backend::kCuda},
       {"HIP ", Backend::kHip},
       {"XPU ", Backend::kXpu},
       {"NPU ", Backend::kNpu}}};
  for (const auto& [name, backend] : kNames) {
    if (stages::without_end(front, name)) return read_pytorch(reading, backend);
  }
  if (stages::without_end(front, "would exceed allowed memory. ("))
    return read_async_from_its_start(reading);
  return read_bare(reading);
}

// The figures of an old message whose first words are lost: "(GPU 0; T total capacity; ...".
bool read_partial(Reading& reading) {
  const std::string_view front = reading.before(60);
  const auto start = front.rfind("(GPU");
  if (start == std::string_view::npos) return false;
  static_cast<void>(reading.be(Shape::kOld, Backend::kCuda));
  reading.cursor = JoinedCursor(reading.window, reading.at - (front.size() - start));
  if (!reading.cursor.pass("(GPU ")) return false;
  static_cast<void>(reading.cursor.pass(" "));
  reading.device();
  if (!reading.cursor.pass("; ") ||
      !reading.figure(reading.message.figures.total, " total capacity; ")) {
    return false;
  }
  reading.message.cut_short = true;
  return read_old_rest(reading);
}

// "... larger than 4GB! Tried to allocate R (GPU  0; T total capacity; ..." (XPU).
bool read_large_block(Reading& reading) {
  static_cast<void>(reading.be(Shape::kRequest, Backend::kXpu));
  reading.is_driver_request = true;
  if (!reading.pass_through(reading.cursor, "Tried to allocate ", 40)) return reading.cut();
  reading.request();
  return read_device_part(reading);
}

bool read_invalid_buffer(Reading& reading) {
  static_cast<void>(reading.be(Shape::kRequest, Backend::kMps));
  return reading.figure(reading.message.figures.request, "");
}

// "0 while trying to allocate N bytes (free: N, total: N).": 2.13 and the expandable segments of
// earlier versions. Exact, and also printed where a later attempt succeeds. A mapping names the
// page.
bool read_attempt(Reading& reading, std::string_view what, bool is_request) {
  Figures& figures = reading.message.figures;
  JoinedCursor& cursor = reading.cursor;
  reading.device();
  if (!reading.message.device || !cursor.pass(what)) return false;
  const auto asked = cursor.count();
  if (!asked || !cursor.pass(" bytes (free: ")) return false;
  const auto free = cursor.count();
  if (!free || !cursor.pass(", total: ")) return false;
  const auto total = cursor.count();
  if (!total) return false;
  figures.free = model::exactly(*free);
  figures.total = model::exactly(*total);
  if (is_request) figures.request = model::exactly(*asked);
  reading.is_driver_request = false;
  return reading.be(Shape::kAttempt, Backend::kCuda);
}

bool read_mapping_attempt(Reading& reading) {
  return read_attempt(reading, " while trying to map ", /*is_request=*/false);
}
bool read_allocation_attempt(Reading& reading) {
  return read_attempt(reading, " while trying to allocate ", /*is_request=*/true);
}

constexpr Form kForms[] = {
    {"out of memory", read_out_of_memory},
    {kExceeds, read_async},
    {"total capacity;", read_partial},
    {"can NOT allocate memory block with size larger than", read_large_block},
    {"Invalid buffer size: ", read_invalid_buffer},
    {"memory mapping failed with OOM on device ", read_mapping_attempt},
    {"memory allocation failed with OOM on device ", read_allocation_attempt},
};

}  // namespace

std::span<const Form> pytorch_forms() {
  return kForms;
}

}  // namespace fragscope::explain
