// SPDX-License-Identifier: Apache-2.0
#include "analyzer/difference/program_likeness.hpp"

#include <absl/container/flat_hash_map.h>
#include <absl/hash/hash.h>
#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace fragscope::difference {
namespace {

using whatif::Op;
using whatif::OpKind;

/// From this share of sizes on two programs may be the same in another order.
constexpr double kSimilarShare = 0.95;

constexpr std::uint64_t kRequest = 1;
constexpr std::uint64_t kFree = 2;

}  // namespace

Requests requests_of(const whatif::Program& program) {
  Requests requests;
  requests.from_the_start = program.start.segments.empty();
  absl::flat_hash_map<std::uint32_t, std::uint64_t> streams;  // by their first request
  absl::flat_hash_map<std::uint32_t, std::uint64_t> holders;  // the request that has the slot
  for (const Op& op : program.ops) {
    if (op.kind == OpKind::kAllocate) {
      const std::uint64_t stream = streams.try_emplace(op.stream, streams.size()).first->second;
      if (!op.failed) holders[op.slot] = requests.sizes.size();
      requests.refused += op.failed ? 1U : 0U;
      requests.step_of_request.push_back(requests.steps.size());
      requests.sizes.push_back(op.bytes);
      requests.steps.push_back(absl::HashOf(std::tuple{kRequest, op.bytes, stream, op.pool == 0}));
    } else if (op.kind == OpKind::kFree) {
      const auto holder = holders.find(op.slot);
      // What was there before the first request has no number.
      const std::uint64_t request = holder == holders.end() ? ~std::uint64_t{0} : holder->second;
      requests.steps.push_back(absl::HashOf(std::tuple{kFree, request, std::uint64_t{0}, true}));
    }
  }
  std::ranges::sort(requests.sizes);
  return requests;
}

namespace {

std::uint64_t paired(const std::vector<std::uint64_t>& first,
                     const std::vector<std::uint64_t>& second) {
  std::uint64_t count = 0;
  auto left = first.begin();
  auto right = second.begin();
  while (left != first.end() && right != second.end()) {
    if (*left == *right) {
      ++count;
      ++left;
      ++right;
    } else if (*left < *right) {
      ++left;
    } else {
      ++right;
    }
  }
  return count;
}

std::uint64_t requests_before(const Requests& requests, std::size_t step) {
  return static_cast<std::uint64_t>(std::ranges::lower_bound(requests.step_of_request, step) -
                                    requests.step_of_request.begin());
}

}  // namespace

ProgramLikeness compare(const Requests& first, const Requests& second) {
  ProgramLikeness found;
  found.first_requests = first.sizes.size();
  found.second_requests = second.sizes.size();
  found.paired_requests = paired(first.sizes, second.sizes);
  const std::uint64_t fewer = std::min(found.first_requests, found.second_requests);
  if (fewer == 0) {
    found.basis = "one of them asks for nothing";
    return found;
  }
  if (!first.from_the_start || !second.from_the_start) {
    found.basis = fmt::format(
        "the history of {} does not reach back to the begin, so that requests cannot be compared "
        "in "
        "order; {} of {} have one of the same size in the other",
        first.from_the_start ? "B" : "A",
        found.paired_requests,
        fewer);
    return found;
  }
  const auto ends = std::ranges::mismatch(first.steps, second.steps);
  const auto step = static_cast<std::size_t>(ends.in1 - first.steps.begin());
  found.common_requests = requests_before(first, step);
  // Behind the last request a program only gives back, when and as it ends.
  if (found.common_requests == fewer) {
    found.likeness = Likeness::kSame;
    found.basis =
        found.first_requests == found.second_requests
            ? fmt::format("all {} requests, in order, and what is given back between them", fewer)
            : fmt::format(
                  "all {} requests of the shorter one, in order, and what is "
                  "given back between them; the other goes on with {}",
                  fewer,
                  std::max(found.first_requests, found.second_requests) - fewer);
    return found;
  }
  const auto more = std::max(found.first_requests, found.second_requests);
  const double share = static_cast<double>(found.paired_requests) / static_cast<double>(more);
  found.likeness = share >= kSimilarShare ? Likeness::kSimilar : Likeness::kOther;
  found.basis = fmt::format(
      "the first {} requests are the same, then they differ; of {} in A and {} in B {} have one of "
      "the same size in the other",
      found.common_requests,
      found.first_requests,
      found.second_requests,
      found.paired_requests);
  return found;
}

}  // namespace fragscope::difference
