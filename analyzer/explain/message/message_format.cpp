// SPDX-License-Identifier: Apache-2.0
#include "analyzer/explain/message/message_format.hpp"

#include <algorithm>

namespace fragscope::explain {
namespace {

using policy::kKiB;
using policy::kMiB;

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// "PyTorch 2.2 to 2.8"; minor versions count from 1.0 = 100, 2.0 = 200.
struct Versions {
  int low = 100;
  int high = 299;

  void at_least(int version) { low = std::max(low, version); }
  void at_most(int version) { high = std::min(high, version); }

  [[nodiscard]] std::string text() const {
    const auto name = [](int version) {
      return std::to_string(version / 100) + "." + std::to_string(version % 100);
    };
    if (low > high) return "PyTorch, of no single version (a fork, or an edited text)";
    if (high == 299) return "PyTorch " + name(low) + " or later";
    return low == high ? "PyTorch " + name(low) : "PyTorch " + name(low) + " to " + name(high);
  }
};

Versions versions_of_old(const Message& message, std::string_view text) {
  Versions versions{100, 200};
  if (has(text, "reservedintotal")) {
    versions.at_least(104);
  } else if (has(text, "cached")) {
    versions.at_most(103);
  }
  if (message.figures.limit) versions.at_least(108);
  if (has(text, "max_split_size_mb")) versions.at_least(110);
  return versions;
}

Versions versions_of_new(const Message& message, std::string_view text) {
  Versions versions{201, 299};
  if (has(text, "totalcapacty")) {
    versions.at_most(201);
  } else {
    versions.at_least(202);
  }
  if (message.figures.private_pools) versions.at_least(204);
  if (message.figures.limit) versions.at_least(205);
  if (has(text, "PYTORCH_ALLOC_CONF=expandable")) {
    versions.at_least(209);
    versions.at_most(210);
  } else if (has(text, "docs.pytorch.org")) {
    versions.at_least(211);
  } else if (has(text, "CUDA_ALLOC_CONF=expandable") || has(text, "HIP_ALLOC_CONF=expandable")) {
    versions.at_most(208);
  }
  return versions;
}

}  // namespace

std::string format_of(const Message& message, std::string_view text) {
  // These two keep the old form whatever the version of PyTorch they extend.
  if (message.backend == Backend::kNpu && message.shape == Shape::kOld) return "torch_npu";
  if (message.backend == Backend::kXpu && has(text, "canNOTallocate")) {
    return std::string(kXpuExtensionFormat);
  }
  Versions versions;
  switch (message.shape) {
    case Shape::kOld:
      versions = versions_of_old(message, text);
      break;
    case Shape::kNew:
      versions = versions_of_new(message, text);
      break;
    case Shape::kAsync:
      versions.at_least(200);
      break;
    case Shape::kMps:
      versions.at_least(112);
      break;
    case Shape::kBeyond:
      versions.at_least(109);
      break;
    case Shape::kRejected:
      versions.at_least(212);
      break;
    case Shape::kReplaced:
      versions.at_least(201);
      break;
    case Shape::kRequest:
      if (message.backend == Backend::kMps) {
        versions.at_least(112);
      } else if (!has(text, "Triedtoallocate")) {
        return std::string(kForeignFormat);
      }
      break;
    case Shape::kHost:
      if (has(text, "DefaultCPUAllocator")) break;
      return "operating system or library; host memory";
    case Shape::kDoubtful:
      return "driver, runtime or library; no figures";
    case Shape::kBare:
      if (has(text, "ggml") || has(text, "OOMwhenallocating")) return std::string(kForeignFormat);
      if (!has(text, "OutOfMemoryError")) return "driver, runtime or library; no figures";
      break;
    case Shape::kCheck:
      return "a start-up check";
    case Shape::kAttempt:
      return "an allocator's log line";
  }
  // Only the text's own exception class can say more; it stands in front of the message.
  if (has(text, "torch.cuda.OutOfMemoryError")) {
    versions.at_least(113);
    versions.at_most(204);
  } else if (has(text, "torch.OutOfMemoryError")) {
    versions.at_least(204);
  }
  return versions.text();
}

Bounds tensor_behind(Bounds request) {
  constexpr std::uint64_t kOldStep = 128 * kKiB;
  constexpr std::uint64_t kMost = policy::kUnlimited / 2;  // beyond it nothing is rounded up
  const bool is_figure = request.low <= request.high && request.high <= kMost;
  if (!is_figure) return request;
  const auto contains = [request](std::uint64_t bytes) {
    return request.low <= bytes && bytes <= request.high;
  };
  // The multiples of 2 MiB that print as this figure.
  const std::uint64_t first = policy::round_up(request.low, policy::kRoundLarge);
  const std::uint64_t last = request.high / policy::kRoundLarge * policy::kRoundLarge;
  const bool is_driver_size =
      first <= last && (last == policy::kSmallBuffer || last >= policy::kMinLargeAlloc);
  if (!is_driver_size) {
    const std::uint64_t step = request.low <= kMiB ? policy::kMinBlockSize : kOldStep;
    return {request.low > step ? request.low - step + 1 : 1, request.high};
  }
  Bounds tensor{first > policy::kRoundLarge ? first - policy::kRoundLarge + 1 : 1, last};
  if (contains(policy::kSmallBuffer)) tensor = {1, std::max(policy::kSmallSize, tensor.high)};
  if (contains(policy::kSmallBuffer) && last == policy::kSmallBuffer)
    tensor.high = policy::kSmallSize;
  // Of up to 10 MiB only the exact size is asked for as it is; what is less takes 20 MiB.
  if (last == policy::kMinLargeAlloc) tensor.low = last - policy::kMinBlockSize + 1;
  if (contains(policy::kLargeBuffer)) tensor.low = policy::kSmallSize + 1;
  return tensor;
}

}  // namespace fragscope::explain
