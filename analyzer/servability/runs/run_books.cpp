// SPDX-License-Identifier: Apache-2.0
#include "analyzer/servability/runs/run_books.hpp"

#include "analyzer/recording/byte_sums.hpp"

namespace fragscope::servability {

using model::Home;
using model::minus;

void HomeRuns::remove(std::uint64_t bytes) {
  const auto found = lengths_.find(bytes);
  if (found == lengths_.end()) return;
  if (--found->second == 0) lengths_.erase(found);
  free_bytes_ -= bytes;
}

std::uint64_t HomeRuns::best_fit(std::uint64_t bytes) const {
  const auto found = lengths_.lower_bound(bytes);
  return found == lengths_.end() ? 0 : found->first;
}

void RunBooks::clear() {
  homes_.clear();
  last_ = nullptr;
  changed_.clear();
  releasable_bytes_ = 0;
}

std::uint64_t RunBooks::releasable_of(const SegmentRange& segment, Range run) const {
  if (segment.home.pool != model::kDefaultPool) return 0;
  if (!segment.home.expandable) {
    return run.size_bytes() == segment.range.size_bytes() ? run.size_bytes() : 0;
  }
  const std::uint64_t page = policy::page_size(segment.home.size_class, *rules_);
  const std::uint64_t begin = segment.range.begin;
  const std::uint64_t first = policy::round_up(run.begin - begin, page);
  return minus((run.end - begin) / page * page, first);
}

HomeRuns& RunBooks::change(const Home& home) {
  if (last_ == nullptr || last_->first != home) last_ = &*homes_.try_emplace(home).first;
  if (!last_->second.set_listed(true)) changed_.push_back(home);
  return last_->second;
}

void RunBooks::forget_changes() {
  for (const Home& home : changed_)
    homes_[home].set_listed(false);
  changed_.clear();
}

void RunBooks::run_comes(const SegmentRange& segment, Range run) {
  change(segment.home).add(run.size_bytes());
  releasable_bytes_ += releasable_of(segment, run);
}

void RunBooks::run_goes(const SegmentRange& segment, Range run) {
  change(segment.home).remove(run.size_bytes());
  releasable_bytes_ = minus(releasable_bytes_, releasable_of(segment, run));
}

const HomeRuns* RunBooks::find(const Home& home) const {
  const auto found = homes_.find(home);
  return found == homes_.end() ? nullptr : &found->second;
}

}  // namespace fragscope::servability
