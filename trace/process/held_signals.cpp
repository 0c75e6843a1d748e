// SPDX-License-Identifier: Apache-2.0
#include "trace/process/held_signals.hpp"

#include <cerrno>
#include <ctime>
#include <initializer_list>

namespace fragscope::trace {

HeldSignals::HeldSignals() {
  sigset_t most;
  sigfillset(&most);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT})
    sigdelset(&most, fault);
  sigpending(&pending_before_);
  pthread_sigmask(SIG_BLOCK, &most, &mask_before_);
}

HeldSignals::~HeldSignals() {
  const int error = errno;
  for (const int ours : {SIGPIPE, SIGXFSZ}) {
    if (sigismember(&pending_before_, ours) != 0) continue;
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, ours);
    const timespec at_once{};
    sigtimedwait(&one, nullptr, &at_once);
  }
  pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
  errno = error;
}

}  // namespace fragscope::trace
