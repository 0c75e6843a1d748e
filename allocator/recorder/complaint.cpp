// SPDX-License-Identifier: Apache-2.0
#include "allocator/recorder/complaint.hpp"

#include "trace/process/held_signals.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <span>

namespace fragscope::recorder {

void Complaint::say(std::int32_t ordinal, std::string_view reason) {
  // Relaxed: nothing else is told by it.
  if (is_said_.exchange(true, std::memory_order_relaxed)) return;
  std::array<char, 400> line;
  const int size = std::snprintf(line.data(),
                                 line.size(),
                                 "fragscope: device %d is not recorded: %.*s; the job goes on\n",
                                 ordinal,
                                 static_cast<int>(std::min<std::size_t>(reason.size(), 300)),
                                 reason.data());
  if (size <= 0) return;
  // Whatever a path holds, it stays one line.
  const auto text =
      std::span(line).first(std::min<std::size_t>(static_cast<std::size_t>(size), line.size()) - 1);
  std::ranges::replace_if(
      text.first(text.size() - 1), [](char byte) { return byte >= 0 && byte < ' '; }, ' ');
  const trace::HeldSignals held;
  // A full pipe or a terminal that was stopped.
  pollfd room{STDERR_FILENO, POLLOUT, 0};
  if (::poll(&room, 1, 0) != 1) return;
  // Nobody else's buffers: the job may be anywhere in its own output.
  static_cast<void>(!::write(STDERR_FILENO, line.data(), static_cast<std::size_t>(size)));
}

}  // namespace fragscope::recorder
