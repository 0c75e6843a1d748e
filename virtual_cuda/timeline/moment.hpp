// SPDX-License-Identifier: Apache-2.0
// Virtual time. Kernels take no time unless asked to, so tests are fast and repeat exactly: the
// clock stands still except when a program waits for something, or asks and is told "not ready".
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace fragscope::virtual_cuda {

/// Keeps everything that depends on it unfinished until it is released, however far the clock is.
struct Hold {
  bool released = false;
};

/// When some work is finished: at a time, and not before its holds are released.
struct Moment {
  std::uint64_t time_ns = 0;
  std::vector<std::shared_ptr<Hold>> holds;

  /// Becomes the later of the two.
  void join(const Moment& other);
  void add_hold(const std::shared_ptr<Hold>& hold);
  [[nodiscard]] bool held() const;
};

/// The clock of all devices.
class Clock {
 public:
  [[nodiscard]] std::uint64_t now_ns() const { return now_ns_; }

  /// Whether the moment is reached. A "no" costs the asker a microsecond, so polling ends.
  [[nodiscard]] bool poll(const Moment& moment);

  /// Waits until the moment is reached. Whoever waits for held work ends the hold: nothing else
  /// would, and a test that hangs says less than one that goes on.
  void wait(const Moment& moment);

 private:
  std::uint64_t now_ns_ = 0;
};

}  // namespace fragscope::virtual_cuda
