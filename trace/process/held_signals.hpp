// SPDX-License-Identifier: Apache-2.0
// Keeps signals away from a thread while it does something for the recorder inside the user's job:
// no handler of the job runs in between, no call ends early, and what the kernel sends for a pipe
// without a reader or a file beyond the job's limit does not kill it.
#pragma once

#include <csignal>

namespace fragscope::trace {

/// As long as this lives, this thread gets no signals but those of its own faults. SIGPIPE and
/// SIGXFSZ that came meanwhile are taken away; all others come afterwards.
class HeldSignals {
 public:
  HeldSignals();
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;
  ~HeldSignals();

 private:
  sigset_t mask_before_{};
  sigset_t pending_before_{};
};

}  // namespace fragscope::trace
