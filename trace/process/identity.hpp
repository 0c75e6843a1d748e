// SPDX-License-Identifier: Apache-2.0
// Which process this is, and whether another one is still there. A pid alone comes again; with the
// start of the machine and of the process it does not.
#pragma once

#include "trace/format/header.hpp"

#include <array>
#include <cstdint>
#include <optional>

namespace fragscope::trace {

/// Who this process is, with a fresh random id. Its rank in a distributed job is what its launcher
/// says in the environment: RANK, else LOCAL_RANK; none where neither is a number.
[[nodiscard]] ProcessIdentity this_process();

/// The id of the machine's start; zeros if the system does not tell.
[[nodiscard]] std::array<char, 16> this_boot();

/// When the process with this pid started, in the kernel's ticks since the machine's start; none if
/// there is no such process.
[[nodiscard]] std::optional<std::uint64_t> start_of(std::uint32_t pid);

/// The header with a second moment of its clocks, without which a counter's rate is not known: if
/// its writer left none, and this is the machine's start that it was written in, then now.
[[nodiscard]] Header with_second_moment(Header header);

/// Whether this very process runs, as far as this process's own pids reach: in another container it
/// may, although this says no.
[[nodiscard]] bool is_running(const ProcessIdentity& process);

}  // namespace fragscope::trace
