// SPDX-License-Identifier: Apache-2.0
#include "analyzer/course/growth/growth.hpp"

#include "analyzer/verdict/evidence.hpp"

#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <functional>
#include <utility>

namespace fragscope::course {
namespace {

using model::EventIndex;

/// States that are looked at for stacks.
constexpr std::size_t kMostStates = 64;

GrowthKind kind_of(Trend low, Trend reserved) {
  switch (low) {
    case Trend::kTooFew:
      return GrowthKind::kTooFew;
    case Trend::kGrowth:
      return GrowthKind::kGrowth;
    case Trend::kUndecided:
      return GrowthKind::kUndecided;
    case Trend::kPlateau:
      return reserved == Trend::kGrowth ? GrowthKind::kCacheGrowth : GrowthKind::kPlateau;
    case Trend::kFall:
      return reserved == Trend::kGrowth ? GrowthKind::kCacheGrowth : GrowthKind::kFalling;
  }
  return GrowthKind::kUndecided;
}

/// Live bytes by stack at some of the low points, evenly chosen.
class StackSeries {
 public:
  StackSeries(const model::History& history, const Growth& growth)
      : history_(history) {
    const std::size_t first = std::min(growth.low.judged.warm_up, growth.whole.size());
    const std::size_t count = growth.whole.size() - first;
    const std::size_t states = std::min(count, kMostStates);
    for (std::size_t i = 0; i < states; ++i) {
      const std::size_t place = first + (states > 1 ? i * (count - 1) / (states - 1) : 0);
      const Repeat& repeat = growth.repeats.all[growth.whole[place]];
      const EventIndex target = std::clamp(
          repeat.extremes.least_allocated->event + 1, history.first_event(), history.end_event());
      const bool is_new = targets_.empty() || target > targets_.back();
      if (is_new && history.is_known_before(target)) targets_.push_back(target);
    }
    if (states > 1) {
      stride_ = static_cast<double>(count - 1) / static_cast<double>(states - 1);
    }
  }

  [[nodiscard]] std::vector<StackGrowth> growing() {
    if (targets_.size() < kFewestValues) return {};
    std::size_t at = 0;
    history_.visit_states_until(targets_, [&](EventIndex, model::HeapState& heap) {
      for (const verdict::Holder& holder : verdict::find_holders(heap)) {
        auto& values = series_[holder.stack];
        values.resize(targets_.size(), 0);
        values[at] += static_cast<double>(holder.bytes);
      }
      ++at;
      return true;
    });
    std::vector<StackGrowth> found;
    for (const auto& [stack, values] : series_) {
      if (values.back() <= values.front()) continue;
      const Slope slope = theil_sen(values);
      if (slope.low <= 0) continue;
      found.push_back({stack,
                       static_cast<std::uint64_t>(values.front()),
                       static_cast<std::uint64_t>(values.back()),
                       {slope.median / stride_, slope.low / stride_, slope.high / stride_}});
    }
    std::ranges::sort(found, {}, [](const StackGrowth& each) {
      return std::pair{-each.slope.median, model::index_of(each.stack)};
    });
    return found;
  }

 private:
  const model::History& history_;
  std::vector<EventIndex> targets_;
  double stride_ = 1;
  absl::flat_hash_map<model::StackId, std::vector<double>> series_;
};

std::uint64_t median_of(std::vector<std::uint64_t> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// Where a layer stands behind the warm-up, and by how much it varies there.
struct Standing {
  std::uint64_t median = 0;
  std::uint64_t range = 0;
};

Standing standing_of(const LayerCourse& layer) {
  const std::vector<std::uint64_t> tail(
      layer.values.begin() + static_cast<std::ptrdiff_t>(layer.judged.warm_up), layer.values.end());
  const auto [least, most] = std::ranges::minmax(tail);
  return {median_of(tail), most - least};
}

std::uint64_t apart(std::uint64_t left, std::uint64_t right) {
  return left > right ? left - right : right - left;
}

}  // namespace

std::string_view to_string(GrowthKind kind) {
  switch (kind) {
    case GrowthKind::kNoRepeats:
      return "no-repeats";
    case GrowthKind::kTooFew:
      return "too-few";
    case GrowthKind::kPlateau:
      return "plateau";
    case GrowthKind::kGrowth:
      return "growth";
    case GrowthKind::kCacheGrowth:
      return "cache-growth";
    case GrowthKind::kFalling:
      return "falling";
    case GrowthKind::kUndecided:
      break;
  }
  return "undecided";
}

Growth find_growth(const model::History& history, const RepeatChoice& choice) {
  Growth growth;
  growth.repeats = find_repeats(history, choice);
  if (growth.repeats.all.empty()) return growth;
  for (std::size_t i = 0; i < growth.repeats.all.size(); ++i) {
    const Repeat& repeat = growth.repeats.all[i];
    if (!repeat.is_whole()) continue;
    growth.whole.push_back(i);
    growth.low.values.push_back(repeat.extremes.least_allocated->levels.allocated_bytes.low);
    growth.peak.values.push_back(repeat.extremes.most_allocated->levels.allocated_bytes.low);
    growth.reserved.values.push_back(repeat.extremes.most_reserved_bytes);
  }
  for (LayerCourse* layer : {&growth.low, &growth.peak, &growth.reserved})
    layer->judged = judge(layer->values);
  growth.kind = kind_of(growth.low.judged.trend, growth.reserved.judged.trend);
  if (growth.kind != GrowthKind::kGrowth) return growth;
  growth.stacks = StackSeries(history, growth).growing();
  growth.growing_stacks = growth.stacks.size();
  growth.stacks.resize(std::min(growth.stacks.size(), kKeptGrowingStacks));
  return growth;
}

std::vector<Control> compare_with_control(std::span<const Growth> runs) {
  if (runs.size() != 3) return {};
  for (const Growth& run : runs)
    if (run.low.judged.trend == Trend::kTooFew) return {};
  std::vector<Control> layers;
  const auto add = [&](std::string_view name, LayerCourse Growth::*layer) {
    const Standing first = standing_of(runs[0].*layer);
    const Standing other = standing_of(runs[1].*layer);
    const Standing again = standing_of(runs[2].*layer);
    Control control{name, first.median, other.median, again.median, 0, false, false};
    constexpr std::uint64_t kLeastNoise = 1 << 20;
    // What the quieter A varies by: one that drifts must not hide its drift as noise.
    control.noise_bytes =
        std::max({kLeastNoise, first.median / 100, std::min(first.range, again.range)});
    control.comes_back = apart(first.median, again.median) <= control.noise_bytes;
    const std::uint64_t nearest =
        std::min(apart(other.median, first.median), apart(other.median, again.median));
    control.differs = nearest > control.noise_bytes && nearest > apart(first.median, again.median);
    layers.push_back(control);
  };
  add("low point", &Growth::low);
  add("peak", &Growth::peak);
  add("reserved", &Growth::reserved);
  return layers;
}

}  // namespace fragscope::course
