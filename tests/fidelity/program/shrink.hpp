// SPDX-License-Identifier: Apache-2.0
// Makes a failing program small.
#pragma once

#include "tests/fidelity/program/operation.hpp"

#include <functional>

namespace fragscope::fidelity {

/// A part of `program` that still fails and of which no single operation can be left out, by delta
/// debugging: leaves out halves, quarters, ..., single operations while `fails` says so. Each call
/// of `fails` runs a program.
[[nodiscard]] Program shrink(Program program, const std::function<bool(const Program&)>& fails);

}  // namespace fragscope::fidelity
