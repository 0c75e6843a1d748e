// SPDX-License-Identifier: Apache-2.0
#include "tests/fidelity/program/shrink.hpp"

#include <algorithm>

namespace fragscope::fidelity {
namespace {

Program without(const Program& program, std::size_t begin, std::size_t count) {
  Program rest = program;
  const auto first = rest.begin() + static_cast<std::ptrdiff_t>(begin);
  rest.erase(first, first + static_cast<std::ptrdiff_t>(std::min(count, rest.size() - begin)));
  return rest;
}

}  // namespace

Program shrink(Program program, const std::function<bool(const Program&)>& fails) {
  for (std::size_t count = std::max<std::size_t>(program.size() / 2, 1);;) {
    bool has_shrunk = false;
    for (std::size_t begin = 0; begin < program.size();) {
      Program candidate = without(program, begin, count);
      if (fails(candidate)) {
        program = std::move(candidate);
        has_shrunk = true;
      } else {
        begin += count;
      }
    }
    if (count > 1) {
      count /= 2;
    } else if (!has_shrunk) {
      return program;
    }
  }
}

}  // namespace fragscope::fidelity
