// SPDX-License-Identifier: Apache-2.0
// What the entry points of capture and graphs share between the forms that CUDA 12 and CUDA 13 give
// them. Used by capture.cpp, graph.cpp and versions.cpp.
#pragma once

#include "virtual_cuda/core/call.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace fragscope::virtual_cuda {

/// An array of node handles as programs pass it.
struct NodeList {
  const NodeHandle* nodes = nullptr;
  std::size_t count = 0;
};

/// The nodes behind the handles, which are their addresses.
[[nodiscard]] std::vector<Node*> nodes_of(NodeList list);

/// Where the figures of a capture go; only `status` must be there.
struct CaptureInfo {
  std::int32_t* status = nullptr;
  unsigned long long* id = nullptr;
  GraphHandle* graph = nullptr;
  const NodeHandle** dependencies = nullptr;
  const EdgeData** edges = nullptr;
  std::size_t* dependency_count = nullptr;
};
std::int32_t capture_info(const char* name, StreamHandle handle, const CaptureInfo& out);

std::int32_t update_capture_dependencies(const char* name,
                                         StreamHandle handle,
                                         NodeList list,
                                         unsigned flags);

/// Room for node handles as programs give it: without `nodes` they only ask how many there are.
struct NodeRoom {
  NodeHandle* nodes = nullptr;
  EdgeData* edges = nullptr;
  std::size_t* count = nullptr;
};
std::int32_t node_dependencies(const char* name, NodeHandle node, const NodeRoom& room);
std::int32_t node_dependents(const char* name, NodeHandle node, const NodeRoom& room);

/// Room for edges, as two arrays.
struct EdgeRoom {
  NodeHandle* from = nullptr;
  NodeHandle* to = nullptr;
  EdgeData* edges = nullptr;
  std::size_t* count = nullptr;
};
std::int32_t graph_edges(const char* name, GraphHandle graph, const EdgeRoom& room);

/// Edges from `from[i]` to `to[i]`.
std::int32_t add_edges(const char* name, NodeList from, NodeList to);

/// A node of `kind` that depends on `dependencies`.
std::int32_t add_node(
    const char* name, GraphHandle graph, NodeList dependencies, Work work, NodeHandle* node);

}  // namespace fragscope::virtual_cuda
