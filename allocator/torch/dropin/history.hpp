// SPDX-License-Identifier: Apache-2.0
// What torch.cuda.memory._record_memory_history keeps of one device, and the trackers that are told
// of every event. Kept as PyTorch's own allocator keeps it, so that its snapshots read alike.
#pragma once

#include "allocator/engine/engine.hpp"
#include "allocator/torch/torch_names.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace fragscope::shim {

using Context = std::shared_ptr<c10::GatheredContext>;

/// What `recordHistory` asks for.
struct HistoryRequest {
  bool is_enabled = false;
  CreateContextFn context = nullptr;
  std::size_t most_entries = 1;
  RecordContext when = RecordContext::NEVER;
  bool is_cleared = true;
  std::vector<TraceEntry::Action> skipped;
};

/// `on_event` and all that is marked so are called under the device's lock.
class History final : public engine::Listener {
 public:
  explicit History(DeviceIndex device)
      : device_(device) {}

  /// The call stack for a call that belongs to `level`; null if none is wanted. Not under the lock:
  /// gathering one may take Python's.
  [[nodiscard]] Context gather(RecordContext level) const {
    if (when_.load(std::memory_order_relaxed) < level) [[likely]]
      return nullptr;
    const CreateContextFn create = create_context_.load(std::memory_order_relaxed);
    return create == nullptr ? nullptr : create();
  }
  /// The stack of what this thread does next; null: none.
  static void set_context(Context context);

  [[nodiscard]] bool is_enabled() const { return is_enabled_.load(std::memory_order_relaxed); }

  // Under the lock.
  void request(const HistoryRequest& request);
  void add_tracker(AllocatorTraceTracker tracker) { trackers_.push_back(std::move(tracker)); }
  /// Whether anybody wants the events.
  [[nodiscard]] bool is_needed() const;
  void on_event(const engine::Event& event) noexcept override;
  /// Metadata for a block that somebody has.
  void annotate(policy::Address address, const engine::HandedOut& block, const std::string& text);
  /// Oldest first, with raw times.
  [[nodiscard]] std::vector<TraceEntry> entries() const;
  /// The stack that the block was handed out with, or the segment obtained; null: not known.
  [[nodiscard]] Context context_of_block(policy::Address address) const;
  [[nodiscard]] Context context_of_segment(policy::Address address) const;

 private:
  /// A range as the driver gave it, by its first address.
  struct Origin {
    Context context;
    std::uint64_t size = 0;
  };

  [[nodiscard]] Context follow(const engine::Event& event);
  void forget_split_origin(const engine::Event& alloc);
  void add(TraceEntry entry);

  DeviceIndex device_;
  std::atomic<bool> is_enabled_ = false;
  std::atomic<CreateContextFn> create_context_ = nullptr;
  std::atomic<RecordContext> when_ = RecordContext::NEVER;
  std::size_t most_entries_ = 1;
  std::vector<TraceEntry::Action> skipped_;
  std::vector<TraceEntry> entries_;  // a ring
  std::size_t next_ = 0;
  std::vector<AllocatorTraceTracker> trackers_;
  std::unordered_map<policy::Address, Context> blocks_;
  std::unordered_map<policy::Address, Origin> segments_;
};

/// What a program says of the allocations of this thread: torch.compile, and user metadata.
void push_compile_context(const std::string& text);
void pop_compile_context();
void set_user_metadata(const std::string& text);
[[nodiscard]] std::string user_metadata();

}  // namespace fragscope::shim
