// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/stages/open_stages.hpp"

#include "trace/ring/clock.hpp"

#include <algorithm>
#include <iterator>

namespace fragscope::model {
namespace {

constexpr std::uint64_t kBegin = 1;
constexpr std::uint64_t kEnd = 2;
constexpr std::uint64_t kOfAnnotation = 1;

}  // namespace

void OpenStages::take(const trace::Record& mark) {
  if (mark.size == kBegin && open_.size() < kMost) open_.push_back(mark);
  if (mark.size != kEnd) return;
  const auto is_its_begin = [&mark](const trace::Record& begin) {
    return begin.address == mark.address && begin.other == mark.other &&
           begin.thread == mark.thread;
  };
  const auto found = std::find_if(open_.rbegin(), open_.rend(), is_its_begin);
  if (found != open_.rend()) open_.erase(std::next(found).base());
}

std::vector<Stage> OpenStages::list(const trace::Header& header, const trace::Table& table) const {
  std::vector<Stage> stages;
  stages.reserve(open_.size());
  for (const trace::Record& begin : open_) {
    Stage& stage = stages.emplace_back();
    stage.name = table.text(begin.address);
    stage.is_annotation = begin.other == kOfAnnotation;
    stage.thread = begin.thread;
    stage.begin_us = static_cast<std::int64_t>(trace::unix_ns_at(header, begin.ticks) / 1000);
  }
  return stages;
}

}  // namespace fragscope::model
