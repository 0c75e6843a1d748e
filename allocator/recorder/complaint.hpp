// SPDX-License-Identifier: Apache-2.0
// The one line on standard error that a process's recorders have together. The job must not wait
// for whoever reads it, nor end because nobody does.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

namespace fragscope::recorder {

/// Thread-safety: any thread may say it, the first one does.
class Complaint {
 public:
  /// Says that a device is not recorded. Nothing, if a line was said before or it would have to
  /// wait.
  void say(std::int32_t ordinal, std::string_view reason);

 private:
  std::atomic<bool> is_said_ = false;
};

}  // namespace fragscope::recorder
