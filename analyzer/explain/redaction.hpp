// SPDX-License-Identifier: Apache-2.0
// Takes out of an explanation what could name people, machines and projects, so that it can be
// shown to others.
#pragma once

#include "analyzer/explain/explainer.hpp"

namespace fragscope::explain {

/// The explanation with masks for every word of a message that is no word of the messages
/// themselves, no figure and no name of a driver or library, and for the names and numbers of
/// processes. Equal ones get equal masks ("process-1"), numbered by first appearance, since a hash
/// could be undone with a list of likely names. The prefix of a message's log line is dropped, and
/// so is the builder's own part of a version. Figures, devices, UUIDs and time stamps stay.
[[nodiscard]] Explanation redacted(Explanation explanation);

}  // namespace fragscope::explain
