// SPDX-License-Identifier: Apache-2.0
#include "virtual_cuda/timeline/moment.hpp"

#include <algorithm>

namespace fragscope::virtual_cuda {
namespace {

constexpr std::uint64_t kPollNs = 1000;

}  // namespace

void Moment::join(const Moment& other) {
  time_ns = std::max(time_ns, other.time_ns);
  for (const auto& hold : other.holds)
    add_hold(hold);
}

void Moment::add_hold(const std::shared_ptr<Hold>& hold) {
  std::erase_if(holds, [](const auto& known) { return known->released; });
  if (hold->released || std::find(holds.begin(), holds.end(), hold) != holds.end()) return;
  holds.push_back(hold);
}

bool Moment::held() const {
  return std::any_of(holds.begin(), holds.end(), [](const auto& hold) { return !hold->released; });
}

bool Clock::poll(const Moment& moment) {
  if (moment.time_ns <= now_ns_ && !moment.held()) return true;
  now_ns_ += kPollNs;
  return false;
}

void Clock::wait(const Moment& moment) {
  now_ns_ = std::max(now_ns_, moment.time_ns);
  for (const auto& hold : moment.holds)
    hold->released = true;
}

}  // namespace fragscope::virtual_cuda
