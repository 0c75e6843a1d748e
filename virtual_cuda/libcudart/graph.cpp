// SPDX-License-Identifier: Apache-2.0
// The runtime's calls about graphs and user objects. Those whose form differs between CUDA 12 and
// 13 are in versions.cpp.
#include "virtual_cuda/libcudart/capture.hpp"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>

namespace fragscope::virtual_cuda {
namespace {

constexpr std::uint64_t kUserObjectHandles = 0x6600'0000'0000;
constexpr unsigned kMoveReferences = 1;  // cudaGraphUserObjectMove.

// User objects that the program still holds references of, by handle. Under the machine's lock.
Registry<std::shared_ptr<UserObject>>& user_objects() {
  static auto& objects = *new Registry<std::shared_ptr<UserObject>>(kUserObjectHandles);
  return objects;
}

// The protocol of CUDA's lists: fill what there is room for and blank the rest, or say the count.
Status list_nodes(const std::vector<Node*>& nodes, const NodeRoom& room) {
  if (room.nodes == nullptr) {
    *room.count = nodes.size();
    return Status::kSuccess;
  }
  for (std::size_t i = 0; i < *room.count; ++i) {
    room.nodes[i] = i < nodes.size() ? nodes[i] : nullptr;
    if (room.edges != nullptr) room.edges[i] = {};
  }
  *room.count = std::min(*room.count, nodes.size());
  return Status::kSuccess;
}

template <class Body>
std::int32_t graph_call(const char* name, GraphHandle handle, Body&& body) {
  return runtime_call(name, [&](Call& call) -> Status {
    Graph* const graph = call.machine.timeline().find_graph(number_of(handle));
    if (graph == nullptr) return Status::kInvalidValue;
    return body(*graph);
  });
}

}  // namespace

std::int32_t node_dependencies(const char* name, NodeHandle node, const NodeRoom& room) {
  return runtime_call(
      name, [&](Call&) -> Status { return list_nodes(static_cast<Node*>(node)->in, room); });
}

std::int32_t node_dependents(const char* name, NodeHandle node, const NodeRoom& room) {
  return runtime_call(
      name, [&](Call&) -> Status { return list_nodes(static_cast<Node*>(node)->out, room); });
}

std::int32_t graph_edges(const char* name, GraphHandle handle, const EdgeRoom& room) {
  return graph_call(name, handle, [&](const Graph& graph) -> Status {
    std::size_t count = 0;
    for (const auto& node : graph.nodes()) {
      for (Node* const from : node->in) {
        if (room.from != nullptr && count < *room.count) {
          room.from[count] = from;
          room.to[count] = node.get();
          if (room.edges != nullptr) room.edges[count] = {};
        }
        ++count;
      }
    }
    *room.count = room.from == nullptr ? count : std::min(count, *room.count);
    return Status::kSuccess;
  });
}

std::int32_t add_edges(const char* name, NodeList from, NodeList to) {
  return runtime_call(name, [&](Call&) -> Status {
    const std::vector<Node*> sources = nodes_of(from);
    const std::vector<Node*> targets = nodes_of(to);
    for (std::size_t i = 0; i < sources.size(); ++i)
      Graph::connect(sources[i], targets[i]);
    return Status::kSuccess;
  });
}

std::int32_t add_node(
    const char* name, GraphHandle handle, NodeList dependencies, Work work, NodeHandle* node) {
  return graph_call(name, handle, [&](Graph& graph) -> Status {
    *node = graph.add(std::move(work), nodes_of(dependencies));
    return Status::kSuccess;
  });
}

}  // namespace fragscope::virtual_cuda

using namespace fragscope::virtual_cuda;  // NOLINT(google-build-using-namespace)

extern "C" {

std::int32_t cudaGraphCreate(GraphHandle* graph, unsigned) {
  return runtime_call(__func__, [&](Call& call) -> Status {
    *graph = handle_of(call.machine.timeline().create_graph());
    return Status::kSuccess;
  });
}

std::int32_t cudaGraphDestroy(GraphHandle graph) {
  return runtime_call(__func__, [&](Call& call) -> Status {
    return call.machine.timeline().destroy_graph(number_of(graph));
  });
}

std::int32_t cudaGraphInstantiate(ExecutableHandle* executable,
                                  GraphHandle graph,
                                  unsigned long long flags) {
  return runtime_call(__func__, [&](Call& call) -> Status {
    std::uint64_t made = 0;
    const Status status = call.machine.timeline().instantiate(number_of(graph), flags, &made);
    *executable = handle_of(made);
    return status;
  });
}

std::int32_t cudaGraphInstantiateWithFlags(ExecutableHandle* executable,
                                           GraphHandle graph,
                                           unsigned long long flags) {
  return cudaGraphInstantiate(executable, graph, flags);
}

std::int32_t cudaGraphExecDestroy(ExecutableHandle executable) {
  return runtime_call(__func__, [&](Call& call) -> Status {
    return call.machine.timeline().destroy_executable(number_of(executable));
  });
}

std::int32_t cudaGraphExecGetFlags(ExecutableHandle executable, unsigned long long* flags) {
  return runtime_call(__func__, [&](Call& call) -> Status {
    const auto* const found = call.machine.timeline().find_executable(number_of(executable));
    if (found == nullptr) return Status::kInvalidValue;
    *flags = found->flags;
    return Status::kSuccess;
  });
}

std::int32_t cudaGraphLaunch(ExecutableHandle executable, StreamHandle handle) {
  return runtime_call(__func__, [&](Call& call) -> Status {
    Stream* const stream = call.stream(handle);
    if (stream == nullptr) return Status::kInvalidHandle;
    return call.machine.timeline().launch(*stream, number_of(executable), call.thread.capture);
  });
}

std::int32_t cudaGraphUpload(ExecutableHandle executable, StreamHandle) {
  return runtime_call(__func__, [&](Call& call) -> Status {
    const bool found = call.machine.timeline().find_executable(number_of(executable)) != nullptr;
    return found ? Status::kSuccess : Status::kInvalidValue;
  });
}

std::int32_t cudaGraphGetNodes(GraphHandle handle, NodeHandle* nodes, std::size_t* count) {
  return graph_call(__func__, handle, [&](const Graph& graph) -> Status {
    std::vector<Node*> all;
    for (const auto& node : graph.nodes())
      all.push_back(node.get());
    return list_nodes(all, {.nodes = nodes, .count = count});
  });
}

std::int32_t cudaGraphGetRootNodes(GraphHandle handle, NodeHandle* nodes, std::size_t* count) {
  return graph_call(__func__, handle, [&](const Graph& graph) -> Status {
    std::vector<Node*> roots;
    for (const auto& node : graph.nodes()) {
      if (node->in.empty()) roots.push_back(node.get());
    }
    return list_nodes(roots, {.nodes = nodes, .count = count});
  });
}

std::int32_t cudaGraphNodeGetType(NodeHandle node, std::int32_t* type) {
  return runtime_call(__func__, [&](Call&) -> Status {
    *type = static_cast<std::int32_t>(static_cast<const Node*>(node)->work.kind);
    return Status::kSuccess;
  });
}

std::int32_t cudaGraphAddEmptyNode(NodeHandle* node,
                                   GraphHandle graph,
                                   const NodeHandle* dependencies,
                                   std::size_t dependency_count) {
  return add_node(
      __func__, graph, {dependencies, dependency_count}, {.kind = NodeKind::kEmpty}, node);
}

std::int32_t cudaGraphDebugDotPrint(GraphHandle handle, const char* path, unsigned) {
  return graph_call(__func__, handle, [&](const Graph& graph) -> Status {
    std::FILE* const file = std::fopen(path, "w");
    if (file == nullptr) return Status::kOperatingSystem;
    std::fputs("digraph dot {\n", file);
    for (const auto& node : graph.nodes()) {
      const void* const to = node.get();
      std::fprintf(file, "\"%p\" [label=\"%d\"]\n", to, static_cast<int>(node->work.kind));
      for (const Node* const from : node->in) {
        std::fprintf(file, "\"%p\" -> \"%p\"\n", static_cast<const void*>(from), to);
      }
    }
    std::fputs("}\n", file);
    return std::fclose(file) == 0 ? Status::kSuccess : Status::kOperatingSystem;
  });
}

std::int32_t cudaUserObjectCreate(
    UserObjectHandle* object, void* pointer, HostFunction destroy, unsigned references, unsigned) {
  return runtime_call(__func__, [&](Call&) -> Status {
    auto made = std::make_shared<UserObject>([=] { destroy(pointer); }, references);
    *object = handle_of(
        user_objects().add(std::make_unique<std::shared_ptr<UserObject>>(std::move(made))));
    return Status::kSuccess;
  });
}

std::int32_t cudaUserObjectRetain(UserObjectHandle object, unsigned count) {
  return runtime_call(__func__, [&](Call&) -> Status {
    const auto* const found = user_objects().find(number_of(object));
    if (found == nullptr) return Status::kInvalidValue;
    (*found)->retain(count);
    return Status::kSuccess;
  });
}

std::int32_t cudaUserObjectRelease(UserObjectHandle object, unsigned count) {
  return runtime_call(__func__, [&](Call& call) -> Status {
    const auto* const found = user_objects().find(number_of(object));
    if (found == nullptr) return Status::kInvalidValue;
    if (Action destroy = (*found)->release(count)) {
      call.machine.timeline().due().push_back(std::move(destroy));
      static_cast<void>(user_objects().remove(number_of(object)));
    }
    return Status::kSuccess;
  });
}

std::int32_t cudaGraphRetainUserObject(GraphHandle handle,
                                       UserObjectHandle object,
                                       unsigned count,
                                       unsigned flags) {
  return graph_call(__func__, handle, [&](Graph& graph) -> Status {
    const auto* const found = user_objects().find(number_of(object));
    if (found == nullptr) return Status::kInvalidValue;
    if ((flags & kMoveReferences) == 0) (*found)->retain(count);
    graph.objects().add(*found, count);
    return Status::kSuccess;
  });
}

}  // extern "C"
