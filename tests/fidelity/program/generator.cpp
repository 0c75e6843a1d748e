// SPDX-License-Identifier: Apache-2.0
#include "tests/fidelity/program/generator.hpp"

#include "allocator/policy/size_rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <vector>

namespace fragscope::fidelity {
namespace {

using policy::kGiB;
using policy::kKiB;
using policy::kMiB;

/// Draws without the standard library's distributions, whose results differ between libraries.
class Dice {
 public:
  explicit Dice(std::uint64_t seed)
      : engine_(seed) {}
  /// 0 to `count` - 1; `count` > 0.
  std::uint64_t below(std::uint64_t count) { return engine_() % count; }
  bool one_in(std::uint64_t count) { return below(count) == 0; }
  template <class T, std::size_t kCount>
  const T& of(const std::array<T, kCount>& choices) {
    return choices[below(kCount)];
  }

 private:
  std::mt19937_64 engine_;
};

/// What kind of program a seed makes.
struct Regime {
  std::uint64_t slots = 0;
  std::uint64_t streams = 1;
  std::uint64_t sizes = 0;  ///< Which mix of sizes.
  bool has_pools = false;
  bool has_captures = false;
  bool has_faults = false;
  bool has_neighbours = false;
  bool has_limits = false;
  bool changes_settings = false;
  /// 0: none. Then neither it nor expandable segments change while the program runs: PyTorch gives
  /// oversize blocks back without looking whether they are split, which they only are after that.
  std::uint64_t max_split_mb = 0;
  bool is_expandable = false;
};

class Generator {
 public:
  Generator(std::uint64_t seed, const GeneratorOptions& options)
      : dice_(seed * 0x9e3779b97f4a7c15U + 1)
      , options_(options) {
    regime_.slots = 4 + dice_.below(120);
    regime_.has_captures = dice_.one_in(3);
    regime_.streams = regime_.has_captures ? 2 + dice_.below(3) : 1 + dice_.below(4);
    regime_.sizes = dice_.below(5);
    regime_.has_pools = dice_.one_in(2);
    regime_.has_faults = dice_.one_in(4);
    regime_.has_neighbours = dice_.one_in(3);
    regime_.has_limits = dice_.one_in(2);
    regime_.changes_settings = dice_.one_in(2);
    // 2.6 reads blocks that it has just given back, and then crashes now and then.
    if (dice_.one_in(2) && !options.is_old) regime_.max_split_mb = 64 + dice_.below(100);
    regime_.is_expandable = dice_.one_in(3);
  }

  Program run() {
    if (regime_.max_split_mb > 0 || !dice_.one_in(3)) add_settings();
    if (regime_.has_limits) add(OperationKind::kSetFraction, 200'000 + dice_.below(800'001));
    while (program_.size() < options_.operations)
      step();
    return std::move(program_);
  }

 private:
  static constexpr std::uint64_t kPools = 4;

  Operation& add(OperationKind kind,
                 std::uint64_t first = 0,
                 std::uint64_t second = 0,
                 std::uint64_t third = 0) {
    Operation& operation = program_.emplace_back();
    operation.kind = kind;
    operation.first = first;
    operation.second = second;
    operation.third = third;
    return operation;
  }

  void step() {
    const std::uint64_t kind = dice_.below(40);
    if (kind == 0) return add_rare();
    if (kind < 3 && regime_.has_pools) return add_pool_step();
    if (kind < 7 && regime_.has_captures) return add_capture_step();
    if (kind < 12 && regime_.streams > 1) return add_stream_step();
    // By address an oversize block is split like any other, of which PyTorch then gives back parts.
    if (kind == 12 && !options_.is_old && regime_.max_split_mb == 0) {
      const std::uint64_t slot = dice_.below(regime_.slots);
      add(OperationKind::kAllocateAt, slot, dice_.below(16), dice_.one_in(4) ? size() : 0);
      return;
    }
    // Often the slot is taken, or empty: then the other step of the pair is drawn next time.
    if (dice_.one_in(2)) {
      add(OperationKind::kAllocate,
          dice_.below(regime_.slots),
          size(),
          dice_.below(regime_.streams));
    } else {
      add(OperationKind::kFree, dice_.below(regime_.slots));
    }
  }

  void add_rare() {
    switch (dice_.below(12)) {
      case 0:
      case 1:
        add(OperationKind::kEmptyCache);
        break;
      case 2:
        add(OperationKind::kResetPeaks);
        break;
      case 3:
        add(OperationKind::kResetAccumulated);
        break;
      case 4:
      case 5:
        if (regime_.changes_settings) add_settings();
        break;
      case 6:
        if (regime_.has_limits) add(OperationKind::kSetFraction, dice_.below(1'000'001));
        break;
      case 7:
        if (regime_.has_neighbours)
          add(OperationKind::kSetNeighbour, dice_.below(options_.device_bytes / kMiB) * kMiB);
        break;
      case 8:
        add(OperationKind::kDeviceAllocate,
            dice_.below(4),
            1 + dice_.below(options_.device_bytes / 4));
        break;
      case 9:
        add(OperationKind::kDeviceFree, dice_.below(4));
        break;
      case 10:
        if (regime_.has_faults) {
          add(dice_.one_in(2) ? OperationKind::kFailMalloc : OperationKind::kFailCreate,
              1 + dice_.below(4),
              dice_.below(2));
        }
        break;
      default:
        add(OperationKind::kClearFaults);
        break;
    }
  }

  void add_stream_step() {
    const std::uint64_t stream = dice_.below(regime_.streams);
    static constexpr auto kClasses = std::to_array<std::string_view>(
        {"tiny", "tiny", "tiny", "absolute", "whole", "unknown", ""});
    switch (dice_.below(options_.is_old ? 7 : 8)) {
      case 7:
        add(OperationKind::kTagStream, stream).text = dice_.of(kClasses);
        break;
      case 0:
        add(OperationKind::kHoldStream, stream);
        break;
      case 3:
        add(OperationKind::kUseStream, stream);
        break;
      case 1:
      case 2:
        add(OperationKind::kReleaseStream, stream);
        break;
      default:
        add(OperationKind::kRecordStream, dice_.below(regime_.slots), stream);
        break;
    }
  }

  void add_pool_step() {
    const std::uint64_t pool = dice_.below(kPools);
    switch (dice_.below(options_.is_old ? 5 : 7)) {
      case 0:
        add(OperationKind::kCreatePool, pool, options_.is_old ? 0 : dice_.below(2));
        break;
      case 1:
        add(OperationKind::kBeginPool,
            pool,
            dice_.one_in(2) ? kAnyStream : dice_.below(regime_.streams));
        break;
      case 2:
        add(OperationKind::kEndPool, pool);
        break;
      case 3:
      case 4:
        add(OperationKind::kReleasePool, pool);
        break;
      case 5:
        add(OperationKind::kUseOnOom, pool, dice_.below(2));
        break;
      default:
        add(OperationKind::kNoSplit, pool);
        break;
    }
  }

  void add_capture_step() {
    const std::uint64_t stream = dice_.below(regime_.streams);
    if (dice_.one_in(2)) return add_shared_use(stream);
    switch (dice_.below(12)) {
      case 0:
      case 1:
        add(OperationKind::kBeginCapture, dice_.below(kPools), stream);
        break;
      case 2:
      case 3:
      case 4:
        add(OperationKind::kJoinCapture, stream, dice_.below(regime_.streams));
        break;
      case 5:
      case 6:
        add(OperationKind::kUseStream, stream);
        break;
      case 7:
        add(OperationKind::kEndCapture);
        break;
      default:
        add(OperationKind::kCaptureWork, stream);
        break;
    }
  }

  /// A tensor that two streams of a capture use, freed before or after they meet again.
  void add_shared_use(std::uint64_t stream) {
    const std::uint64_t slot = dice_.below(regime_.slots);
    const std::uint64_t other = dice_.below(regime_.streams);
    add(OperationKind::kBeginCapture, dice_.below(kPools), stream);
    add(OperationKind::kFree, slot);
    add(OperationKind::kAllocate, slot, size(), stream);
    add(OperationKind::kCaptureWork, stream);
    add(OperationKind::kJoinCapture, stream, other);
    if (dice_.one_in(2)) add(OperationKind::kUseStream, other);
    add(OperationKind::kRecordStream, slot, other);
    add(OperationKind::kCaptureWork, other);
    if (dice_.one_in(2)) add(OperationKind::kJoinCapture, other, stream);
    add(OperationKind::kFree, slot);
    if (dice_.one_in(2)) add(OperationKind::kJoinCapture, other, stream);
    add(OperationKind::kAllocate, slot, size(), stream);
    if (dice_.one_in(4)) add(OperationKind::kEmptyCache);
  }

  /// Bytes of a request: around the borders of the rules, or anything.
  std::uint64_t size() {
    static constexpr auto kBorders = std::to_array<std::uint64_t>(
        {512, kMiB, 2 * kMiB, 10 * kMiB, 20 * kMiB, 19 * kMiB, 64 * kMiB});
    if (dice_.one_in(8)) return dice_.of(kBorders) + dice_.below(3) - 1;
    if (regime_.max_split_mb > 0 && dice_.one_in(4)) {
      return (regime_.max_split_mb + dice_.below(60)) * kMiB - dice_.below(3);
    }
    if (dice_.one_in(100))
      return options_.device_bytes / 8 * (1 + dice_.below(10)) + dice_.below(3) - 1;
    if (dice_.one_in(60)) return dice_.one_in(2) ? 0 : std::uint64_t{1} << (58 + dice_.below(4));
    static constexpr auto kReach = std::to_array<std::uint64_t>(
        {2 * kKiB, 64 * kKiB, kMiB, 4 * kMiB, 10 * kMiB, 30 * kMiB, 100 * kMiB, 200 * kMiB});
    switch (regime_.sizes) {
      case 0:
        return 1 + dice_.below(kReach[dice_.below(3)]);
      case 1:
        return 1 + dice_.below(kReach[3 + dice_.below(3)]);
      case 2:
        return 1 + dice_.below(kReach[5 + dice_.below(3)]);
      case 3:
        return (1 + dice_.below(6)) * 2 * kMiB * (1 + dice_.below(4));
      default:
        return 1 + dice_.below(dice_.of(kReach));
    }
  }

  void add_settings() {
    std::string text;
    const auto maybe = [&](std::string_view setting) {
      if (!dice_.one_in(3)) return;
      if (!text.empty()) text += ',';
      text += setting;
    };
    static constexpr auto kSegments = std::to_array<std::uint64_t>({12, 16, 20, 32, 64});
    const std::uint64_t segment = options_.is_old ? 20 : dice_.of(kSegments);
    if (!options_.is_old) maybe(fmt::format("large_segment_size_mb:{}", segment));
    if (regime_.max_split_mb > 0) {
      text += fmt::format("{}max_split_size_mb:{}", text.empty() ? "" : ",", regime_.max_split_mb);
    }
    maybe(fmt::format("max_non_split_rounding_mb:{}", 64 + dice_.below(100)));
    maybe(fmt::format("garbage_collection_threshold:0.{}", 1 + dice_.below(9)));
    maybe(fmt::format("roundup_power2_divisions:{}", 1 << dice_.below(5)));
    maybe(fmt::format("roundup_power2_divisions:[1:{},4:{},16:{},>:{}]",
                      1 << dice_.below(4),
                      1 << dice_.below(4),
                      1 << dice_.below(4),
                      1 << dice_.below(4)));
    if (regime_.max_split_mb == 0) {
      maybe(dice_.one_in(2) ? "expandable_segments:True" : "expandable_segments:False");
    } else if (regime_.is_expandable) {
      text += ",expandable_segments:True";
    }
    maybe("release_lock_on_cudamalloc:True");
    if (!options_.is_old) {
      maybe(fmt::format("throw_on_cudamalloc_oom:{},per_process_memory_fraction:0.{}",
                        dice_.one_in(2) ? "True" : "False",
                        3 + dice_.below(7)));
      maybe(fmt::format("expandable_segments_reserve:0.{}", 1 + dice_.below(9)));
      maybe("expandable_segments_reserve_by_class:[tiny:0.05,absolute:1G,whole:2.0]");
      if (regime_.has_captures && dice_.one_in(2)) {
        text += std::string(text.empty() ? "" : ",") + "graph_capture_record_stream_reuse:True";
      }
      maybe(dice_.one_in(3) ? "graph_capture_record_stream_reuse:False"
                            : "graph_capture_record_stream_reuse:True");
    }
    add(OperationKind::kApplyConf).text = text;
  }

  Dice dice_;
  GeneratorOptions options_;
  Regime regime_;
  Program program_;
};

}  // namespace

Program generate(std::uint64_t seed, const GeneratorOptions& options) {
  return Generator(seed, options).run();
}

}  // namespace fragscope::fidelity
