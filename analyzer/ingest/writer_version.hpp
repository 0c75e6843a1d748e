// SPDX-License-Identifier: Apache-2.0
// Which PyTorch versions can have written a snapshot, from the keys that are and are not there.
// Source: the pull requests that added each key (see docs/snapshot_eras.md).
#pragma once

#include "analyzer/ingest/snapshot_builder.hpp"

#include <string>

namespace fragscope::ingest {

/// "PyTorch 2.5 to 2.7", "PyTorch 1.13 or earlier", "PyTorch 2.14 or later".
[[nodiscard]] std::string writer_version(const SnapshotBuilder& builder, const RawSnapshot& root);

}  // namespace fragscope::ingest
