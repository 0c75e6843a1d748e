// SPDX-License-Identifier: Apache-2.0
// What both forms of the primitives must do, checked against plain loops. The bicyclic monoid shows
// any reordering: brackets, of which a join cancels those that match, so no two of them commute.
// Used by the tests of the host form, and by those of the CUDA form on machines with a GPU.
#pragma once

#include "kernels/primitives/atomics.hpp"
#include "kernels/primitives/host_device.hpp"
#include "kernels/primitives/host_form.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

namespace fragscope::kernels {

/// `closing` brackets that found no partner, then `opening` ones.
struct Bicyclic {
  std::uint64_t closing = 0;
  std::uint64_t opening = 0;
  friend bool operator==(const Bicyclic&, const Bicyclic&) = default;
};

struct JoinBicyclic {
  FRAGSCOPE_HOST_DEVICE Bicyclic operator()(const Bicyclic& a, const Bicyclic& b) const {
    const std::uint64_t most = a.opening > b.closing ? a.opening : b.closing;
    return {a.closing - a.opening + most, b.opening - b.closing + most};
  }
};

/// The least of some numbers, and at which index; the first of equal ones.
struct Least {
  std::uint64_t value = ~std::uint64_t{0};
  std::uint64_t index = ~std::uint64_t{0};
  friend bool operator==(const Least&, const Least&) = default;
};

struct JoinLeast {
  FRAGSCOPE_HOST_DEVICE Least operator()(const Least& a, const Least& b) const {
    if (a.value != b.value) return a.value < b.value ? a : b;
    return a.index <= b.index ? a : b;
  }
};

template <class T>
struct ElementOf {
  const T* elements = nullptr;
  FRAGSCOPE_HOST_DEVICE T operator()(std::uint64_t i) const { return elements[i]; }
};

/// Notes what is in front of each item inside its tile, and counts items by key.
template <class Shape>
struct ScanBrackets {
  using Item = Bicyclic;
  using Summary = Bicyclic;
  using Join = JoinBicyclic;
  struct Context {
    std::uint64_t first;
    std::uint64_t last;
  };
  struct Part {
    std::uint64_t key;
    std::uint64_t value;
  };
  struct Add {
    FRAGSCOPE_HOST_DEVICE std::uint64_t operator()(std::uint64_t a, std::uint64_t b) const {
      return a + b;
    }
  };

  Bicyclic* before_item = nullptr;
  Bicyclic* of_tile = nullptr;
  std::uint64_t* items_by_key = nullptr;
  std::uint64_t items_of_key = 1;

  [[nodiscard]] FRAGSCOPE_HOST_DEVICE Context open(std::uint64_t first, std::uint64_t last) const {
    return {first, last};
  }
  [[nodiscard]] FRAGSCOPE_HOST_DEVICE Bicyclic summarise(const Bicyclic* items, int count) const {
    Bicyclic joined;
    for (int i = 0; i < Shape::kItems; ++i) {
      if (i < count) joined = JoinBicyclic{}(joined, items[i]);
    }
    return joined;
  }
  [[nodiscard]] FRAGSCOPE_HOST_DEVICE Part finish(const Context& context,
                                                  std::uint64_t first,
                                                  const Bicyclic* items,
                                                  int count,
                                                  Bicyclic before) const {
    for (int i = 0; i < Shape::kItems; ++i) {
      const std::uint64_t at = first + static_cast<std::uint64_t>(i);
      if (i >= count || at < context.first || at >= context.last) continue;
      before_item[at] = before;
      before = JoinBicyclic{}(before, items[i]);
    }
    return {count == 0 ? ~std::uint64_t{0} : first / items_of_key,
            static_cast<std::uint64_t>(count)};
  }
  FRAGSCOPE_HOST_DEVICE void commit(const Part& part) const {
    if (part.value != 0) atomic_add(items_by_key[part.key], part.value);
  }
  FRAGSCOPE_HOST_DEVICE void close(std::uint64_t tile, Bicyclic whole) const {
    of_tile[tile] = whole;
  }
};

/// Few numbers of brackets, so that they cancel often.
inline std::vector<Bicyclic> random_brackets(std::uint64_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Bicyclic> brackets(count);
  for (Bicyclic& bracket : brackets)
    bracket = {random() % 3, random() % 3};
  return brackets;
}

/// `Memory` copies vectors into the form's memory and back: `put(vector)` and `get(array)`.
template <class Shape, class Form, class Memory>
void check_for_tiles(Form& form, const Memory& memory, std::uint64_t count, std::uint64_t seed) {
  constexpr std::uint64_t kTile = Shape::kTile;
  const std::vector<Bicyclic> items = random_brackets(count, seed);
  const std::uint64_t tiles = (count + kTile - 1) / kTile;
  const std::uint64_t items_of_key = 1 + seed % (2 * Shape::kItems);
  const auto input = memory.put(items);
  auto before = memory.put(std::vector<Bicyclic>(count));
  auto of_tile = memory.put(std::vector<Bicyclic>(tiles));
  auto by_key = memory.put(std::vector<std::uint64_t>(count / items_of_key + 1));

  const Result<void> ran = form.template for_tiles<Shape>(
      ScanBrackets<Shape>{before.data(), of_tile.data(), by_key.data(), items_of_key},
      input.data(),
      count);

  ASSERT_TRUE(ran) << ran.error().describe();
  const std::vector<Bicyclic> before_found = memory.get(before);
  const std::vector<Bicyclic> tiles_found = memory.get(of_tile);
  Bicyclic joined;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (i % kTile == 0) joined = {};
    ASSERT_EQ(before_found[i], joined) << "item " << i << " of " << count;
    joined = JoinBicyclic{}(joined, items[i]);
    if (i % kTile == kTile - 1 || i + 1 == count) {
      ASSERT_EQ(tiles_found[i / kTile], joined) << "tile " << i / kTile;
    }
  }
  std::vector<std::uint64_t> wanted(count / items_of_key + 1);
  for (std::uint64_t i = 0; i < count; ++i) {
    // The key of an item is that of its thread's first item.
    const std::uint64_t thread_first = i - i % kTile % static_cast<std::uint64_t>(Shape::kItems);
    ++wanted[thread_first / items_of_key];
  }
  const std::vector<std::uint64_t> keys_found = memory.get(by_key);
  for (std::uint64_t key = 0; key < wanted.size(); ++key)
    ASSERT_EQ(keys_found[key], wanted[key]) << "key " << key;
}

template <class Form, class Memory>
void check_scan(Form& form, const Memory& memory, std::uint64_t count, std::uint64_t seed) {
  const std::vector<Bicyclic> items = random_brackets(count, seed);
  const auto input = memory.put(items);
  auto output = memory.put(std::vector<Bicyclic>(count));

  const Result<void> ran = form.scan(
      ElementOf<Bicyclic>{input.data()}, count, JoinBicyclic{}, Bicyclic{}, output.data());

  ASSERT_TRUE(ran) << ran.error().describe();
  const std::vector<Bicyclic> found = memory.get(output);
  Bicyclic joined;
  for (std::uint64_t i = 0; i < count; ++i) {
    ASSERT_EQ(found[i], joined) << "item " << i << " of " << count;
    joined = JoinBicyclic{}(joined, items[i]);
  }
}

/// Where `for_each` writes; twice is seen as well as never.
struct CountCall {
  std::uint64_t* calls = nullptr;
  FRAGSCOPE_HOST_DEVICE void operator()(std::uint64_t i) const { calls[i] += i + 1; }
};

template <class Form, class Memory>
void check_for_each(Form& form, const Memory& memory, std::uint64_t count) {
  auto calls = memory.put(std::vector<std::uint64_t>(count));

  const Result<void> ran = form.for_each(count, CountCall{calls.data()});

  ASSERT_TRUE(ran) << ran.error().describe();
  const std::vector<std::uint64_t> found = memory.get(calls);
  for (std::uint64_t i = 0; i < count; ++i)
    ASSERT_EQ(found[i], i + 1);
}

/// Segments of up to `longest`, some empty. `first_index` is what the begins start at.
template <class Form, class Memory>
void check_reduce_segments(Form& form,
                           const Memory& memory,
                           std::uint64_t count,
                           std::uint64_t longest,
                           std::uint64_t first_index) {
  std::mt19937_64 random(count + longest);
  std::vector<Least> items(count);
  for (std::uint64_t i = 0; i < count; ++i)
    items[i] = {random() % 5, i};
  std::vector<std::uint64_t> begins{first_index};
  while (begins.back() < first_index + count) {
    begins.push_back(std::min(first_index + count, begins.back() + random() % (longest + 1)));
  }
  const std::uint64_t segments = begins.size() - 1;
  const auto input = memory.put(items);
  const auto device_begins = memory.put(begins);
  auto output = memory.put(std::vector<Least>(segments));

  const Result<void> ran = form.reduce_segments(ElementOf<Least>{input.data()},
                                                device_begins.data(),
                                                segments,
                                                JoinLeast{},
                                                Least{},
                                                output.data());

  ASSERT_TRUE(ran) << ran.error().describe();
  const std::vector<Least> found = memory.get(output);
  for (std::uint64_t segment = 0; segment < segments; ++segment) {
    Least wanted;
    for (std::uint64_t i = begins[segment]; i < begins[segment + 1]; ++i)
      wanted = JoinLeast{}(wanted, items[i - first_index]);
    ASSERT_EQ(found[segment], wanted) << "segment " << segment;
  }
}

}  // namespace fragscope::kernels
