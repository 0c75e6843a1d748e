// SPDX-License-Identifier: Apache-2.0
// Graphs of work, as stream capture builds them: nodes, edges, and the user objects that live as
// long as a graph does. Handles that programs hold are the addresses of these objects.
#pragma once

#include "virtual_cuda/timeline/moment.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace fragscope::virtual_cuda {

/// cudaGraphNodeType; CUgraphNodeType has the same numbers.
enum class NodeKind : std::int32_t {
  kKernel = 0,
  kMemcpy = 1,
  kMemset = 2,
  kHost = 3,
  kGraph = 4,
  kEmpty = 5,
  kWaitEvent = 6,
  kEventRecord = 7,
  kMemAlloc = 10,
  kMemFree = 11,
  kConditional = 13,
};

class Graph;

/// Something the program must see happen: a copy, a fill, a call of its own function. Runs without
/// the machine's lock, since it may call CUDA or wait for a thread that does.
using Action = std::function<void()>;

/// One piece of work for a stream.
struct Work {
  NodeKind kind = NodeKind::kKernel;
  std::uint64_t duration_ns = 0;
  Action action = {};       ///< May be empty.
  std::uint64_t event = 0;  ///< Handle, of kWaitEvent and kEventRecord; may be gone by the launch.
};

/// One node; `in` are those it depends on.
struct Node {
  Work work;
  Graph* graph = nullptr;
  std::vector<Node*> in;
  std::vector<Node*> out;
};

/// A program's object with a reference count, destroyed when the last graph lets go of it.
class UserObject {
 public:
  UserObject(Action destroy, std::uint32_t references)
      : destroy_(std::move(destroy))
      , references_(references) {}

  void retain(std::uint32_t count) { references_ += count; }
  /// The function to call if that was the last reference, else an empty one.
  [[nodiscard]] Action release(std::uint32_t count);
  [[nodiscard]] bool dead() const { return references_ == 0; }

 private:
  Action destroy_;
  std::uint32_t references_;
};

/// References to user objects. Whoever owns one must call `release_all` before it dies.
class UserObjectReferences {
 public:
  void add(std::shared_ptr<UserObject> object, std::uint32_t count);
  /// A copy that holds references of its own.
  [[nodiscard]] UserObjectReferences retain_all() const;
  /// Lets go of everything; what must then be called is appended to `actions`.
  void release_all(std::vector<Action>& actions);

 private:
  std::vector<std::pair<std::shared_ptr<UserObject>, std::uint32_t>> references_;
};

class Graph {
 public:
  /// Adds a node that depends on `in`, which are nodes of this graph.
  Node* add(Work work, const std::vector<Node*>& in);
  /// Adds an edge; a second one between the same nodes is no error and changes nothing.
  static void connect(Node* from, Node* to);

  [[nodiscard]] const std::vector<std::unique_ptr<Node>>& nodes() const { return nodes_; }
  /// The nodes so that each comes after those it depends on; else in the order they were added.
  [[nodiscard]] std::vector<const Node*> in_order() const;
  [[nodiscard]] UserObjectReferences& objects() { return objects_; }

 private:
  std::vector<std::unique_ptr<Node>> nodes_;
  UserObjectReferences objects_;
};

/// A graph made ready to launch; independent of the graph it was made from.
struct Executable {
  std::vector<Work> work;
  UserObjectReferences objects;
  std::uint64_t flags = 0;
};

}  // namespace fragscope::virtual_cuda
