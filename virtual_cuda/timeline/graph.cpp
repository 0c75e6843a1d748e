// SPDX-License-Identifier: Apache-2.0
#include "virtual_cuda/timeline/graph.hpp"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace fragscope::virtual_cuda {

Action UserObject::release(std::uint32_t count) {
  references_ -= std::min(count, references_);
  return references_ == 0 ? std::exchange(destroy_, Action()) : Action();
}

void UserObjectReferences::add(std::shared_ptr<UserObject> object, std::uint32_t count) {
  references_.emplace_back(std::move(object), count);
}

UserObjectReferences UserObjectReferences::retain_all() const {
  for (const auto& [object, count] : references_)
    object->retain(count);
  return *this;
}

void UserObjectReferences::release_all(std::vector<Action>& actions) {
  for (const auto& [object, count] : references_) {
    if (Action destroy = object->release(count)) actions.push_back(std::move(destroy));
  }
  references_.clear();
}

Node* Graph::add(Work work, const std::vector<Node*>& in) {
  nodes_.push_back(std::make_unique<Node>());
  Node* const node = nodes_.back().get();
  node->work = std::move(work);
  node->graph = this;
  for (Node* const from : in)
    connect(from, node);
  return node;
}

void Graph::connect(Node* from, Node* to) {
  if (std::find(to->in.begin(), to->in.end(), from) != to->in.end()) return;
  to->in.push_back(from);
  from->out.push_back(to);
}

std::vector<const Node*> Graph::in_order() const {
  // Captures add nodes in order; only edges added by hand can point backwards, so the first pass
  // nearly always places every node. A cycle, which CUDA refuses, would leave its nodes out.
  std::unordered_map<const Node*, std::size_t> missing;
  for (const auto& node : nodes_)
    missing.emplace(node.get(), node->in.size());
  std::vector<const Node*> order;
  std::vector<bool> placed(nodes_.size(), false);
  bool progress = true;
  while (progress && order.size() < nodes_.size()) {
    progress = false;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const Node* const node = nodes_[i].get();
      if (placed[i] || missing[node] > 0) continue;
      placed[i] = true;
      progress = true;
      order.push_back(node);
      for (const Node* const next : node->out)
        --missing[next];
    }
  }
  return order;
}

}  // namespace fragscope::virtual_cuda
