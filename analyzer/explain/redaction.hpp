// SPDX-License-Identifier: Apache-2.0
// Takes out of an explanation what could name people, machines and projects, so that it can be
// shown to others.
#pragma once

#include "analyzer/explain/explainer.hpp"

namespace fragscope::explain {

/// The explanation with masks for paths, addresses, and the names and numbers of processes; equal
/// ones get equal masks ("process-1"), numbered by first appearance, since a hash could be undone
/// with a list of likely names. Of a message only what the allocator or library wrote is kept, not
/// the prefix of its log line. Figures, devices and UUIDs stay.
[[nodiscard]] Explanation redacted(Explanation explanation);

}  // namespace fragscope::explain
