// SPDX-License-Identifier: Apache-2.0
// The primitives that the algorithms are written over, as plain loops. Used by tests, so that all
// but the primitives themselves is proven without a GPU; `cuda_form.cuh` has the same ones on CUB.
// What follows is the contract of both.
//
// - `allocate`: memory for the form's code, its contents undefined.
// - `for_tiles`: cuts items into tiles. Of each tile: `body.open` once; for each thread
//   `body.summarise` its items; the summaries are scanned by `Body::Join`, in order, within the
//   tile; each thread goes on with what is in front of it, by `body.finish`, which returns a part
//   with a key; parts of neighbours with the same key may be joined by `Body::Add`; `body.commit`
//   takes what comes of them; `body.close` takes the summary of the tile. Keys never fall from
//   thread to thread.
// - `scan`: for each index what is in front of it, joined in order. The operator is associative.
// - `for_each`: calls a function for each index, in no order.
// - `reduce_segments`: joins what each segment's indexes give. The operator is associative and
//   commutative, since CUB asks for that.
//
// The host form joins in order where order is promised, and backwards where it is not: an operator
// that leans on more than the contract shows in tests.
#pragma once

#include "trace/result.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace fragscope::kernels {

class HostForm {
 public:
  template <class T>
  using Array = std::vector<T>;

  template <class T>
  [[nodiscard]] Result<void> allocate(std::uint64_t count, Array<T>& array) {
    array.resize(count);
    return {};
  }

  template <class Shape, class Body>
  [[nodiscard]] Result<void> for_tiles(const Body& body,
                                       const typename Body::Item* items,
                                       std::uint64_t count) {
    constexpr std::uint64_t kTile = Shape::kTile;
    for (std::uint64_t first = 0; first < count; first += kTile)
      run_tile<Shape>(body, items, first, std::min(count, first + kTile));
    return {};
  }

  template <class Input, class Operator, class T>
  [[nodiscard]] Result<void> scan(
      const Input& input, std::uint64_t count, Operator join, T before, T* output) {
    for (std::uint64_t i = 0; i < count; ++i) {
      const T next = join(before, input(i));
      output[i] = before;
      before = next;
    }
    return {};
  }

  template <class Function>
  [[nodiscard]] Result<void> for_each(std::uint64_t count, const Function& function) {
    for (std::uint64_t i = count; i-- > 0;)
      function(i);
    return {};
  }

  /// Segment s has the indexes from `begins[s]` up to, not including, `begins[s + 1]`, counted from
  /// `begins[0]`; `identity` is the answer for one without any.
  template <class Input, class Operator, class T>
  [[nodiscard]] Result<void> reduce_segments(const Input& input,
                                             const std::uint64_t* begins,
                                             std::uint64_t segments,
                                             Operator join,
                                             T identity,
                                             T* output) {
    for (std::uint64_t segment = 0; segment < segments; ++segment) {
      T joined = identity;
      for (std::uint64_t i = begins[segment + 1] - begins[0]; i-- > begins[segment] - begins[0];)
        joined = join(joined, input(i));
      output[segment] = joined;
    }
    return {};
  }

 private:
  template <class Shape, class Body>
  static void run_tile(const Body& body,
                       const typename Body::Item* items,
                       std::uint64_t first,
                       std::uint64_t last) {
    using Part = typename Body::Part;
    const typename Body::Context context = body.open(first, last);
    std::array<Part, Shape::kThreads> parts;
    typename Body::Summary before{};
    for (int thread = 0; thread < Shape::kThreads; ++thread) {
      const std::uint64_t begin =
          std::min(last, first + static_cast<std::uint64_t>(thread * Shape::kItems));
      const int have = static_cast<int>(std::min<std::uint64_t>(Shape::kItems, last - begin));
      const typename Body::Summary own = body.summarise(items + begin, have);
      parts[static_cast<std::size_t>(thread)] =
          body.finish(context, begin, items + begin, have, before);
      before = typename Body::Join{}(before, own);
    }
    for (std::size_t end = parts.size(); end > 0;) {
      Part joined = parts[--end];
      while (end > 0 && parts[end - 1].key == joined.key)
        joined.value = typename Body::Add{}(joined.value, parts[--end].value);
      body.commit(joined);
    }
    body.close(first / Shape::kTile, before);
  }
};

}  // namespace fragscope::kernels
