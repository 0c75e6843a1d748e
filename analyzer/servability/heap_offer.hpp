// SPDX-License-Identifier: Apache-2.0
// What one device's heap offers to requests, followed event by event: the free runs of each home,
// and what could go back to the driver. `find_supply` says the same of a single state in a pass
// over its blocks; this costs a few look-ups an event. Not thread-safe.
//
// Where sizes of blocks are bounds, blocks count with the lower end, so that a run may be shorter
// than it seems: "no" is sure then, "yes" is not.
#pragma once

#include "allocator/policy/size_rules.hpp"
#include "analyzer/model/course/course.hpp"
#include "analyzer/servability/free_runs.hpp"
#include "analyzer/servability/plain_segments.hpp"

#include <absl/container/btree_map.h>
#include <absl/container/flat_hash_set.h>

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace fragscope::servability {

/// What is asked, again and again.
struct Request {
  std::uint64_t size_bytes = 0;  ///< Rounded.
  model::PoolIndex pool = model::kDefaultPool;
  std::int64_t stream = 0;

  [[nodiscard]] policy::SizeClass size_class() const { return policy::size_class(size_bytes); }
  [[nodiscard]] model::Home home(bool expandable) const {
    return {pool, size_class(), expandable, stream};
  }
};

/// The free runs of one home.
class HomeRuns {
 public:
  void add(std::uint64_t bytes) {
    ++lengths_[bytes];
    free_bytes_ += bytes;
  }
  void remove(std::uint64_t bytes);

  [[nodiscard]] std::uint64_t largest_bytes() const {
    return lengths_.empty() ? 0 : lengths_.rbegin()->first;
  }
  [[nodiscard]] std::uint64_t free_bytes() const { return free_bytes_; }
  /// The shortest of at least `bytes`, as best fit takes it; 0: there is none.
  [[nodiscard]] std::uint64_t best_fit(std::uint64_t bytes) const;
  /// Sets the flag by which `RunBooks` lists a home once; gives what it was.
  bool set_listed(bool is_listed) { return std::exchange(is_listed_, is_listed); }

 private:
  absl::btree_map<std::uint64_t, std::uint32_t> lengths_;  // how many of each
  std::uint64_t free_bytes_ = 0;
  bool is_listed_ = false;
};

/// The runs of all homes, and what of them could go back to the driver. As with `find_supply`, that
/// is what lies in the default pool: nobody records who holds a private one.
class RunBooks final : public RunListener {
 public:
  explicit RunBooks(const policy::SizeRules& rules)
      : rules_(&rules) {}

  void clear();
  void run_comes(const SegmentRange& segment, Range run) override;
  void run_goes(const SegmentRange& segment, Range run) override;

  [[nodiscard]] const HomeRuns* find(const model::Home& home) const;
  /// Those that ever had a run, in order.
  [[nodiscard]] const std::map<model::Home, HomeRuns>& homes() const { return homes_; }
  /// Whose runs changed since `forget_changes`, each once.
  [[nodiscard]] const std::vector<model::Home>& changed() const { return changed_; }
  void forget_changes();
  /// Wholly free segments, and whole pages of expandable ones.
  [[nodiscard]] std::uint64_t releasable_bytes() const { return releasable_bytes_; }

 private:
  [[nodiscard]] std::uint64_t releasable_of(const SegmentRange& segment, Range run) const;
  [[nodiscard]] HomeRuns& change(const model::Home& home);

  const policy::SizeRules* rules_;
  std::map<model::Home, HomeRuns> homes_;
  std::pair<const model::Home, HomeRuns>* last_ = nullptr;  // of `homes_`, changed
  std::vector<model::Home> changed_;
  std::uint64_t releasable_bytes_ = 0;
};

/// What the driver could give, known at one moment. What others hold of the device is taken not to
/// change: what this allocator gives back becomes free, what it gets was free before.
struct DriverRoom {
  std::uint64_t free_bytes = 0;      ///< At that moment.
  std::uint64_t reserved_bytes = 0;  ///< By this allocator, then.
  std::optional<std::uint64_t> limit_bytes;

  [[nodiscard]] std::uint64_t free_with(std::uint64_t reserved) const {
    const std::uint64_t all = free_bytes + reserved_bytes;
    return all > reserved ? all - reserved : 0;
  }
};

/// Who would have served a request.
enum class Server : std::uint8_t {
  kNobody,
  kHole,  ///< A free run at home: rung 1.
  /// With what is free on the device, once pending frees are waited for and the cache went back:
  /// rungs 2 and 3.
  kDriver,
};

class HeapOffer {
 public:
  /// `rules` must outlive this. Runs are kept of these homes alone, which are those of the requests
  /// that will be asked about; of all homes if none are named.
  explicit HeapOffer(const policy::SizeRules& rules, std::vector<model::Home> followed = {});
  HeapOffer(const HeapOffer&) = delete;
  HeapOffer& operator=(const HeapOffer&) = delete;
  ~HeapOffer() = default;

  void begin(const model::HeapState& state, const model::CourseLevels& levels);
  void step(const model::CourseStep& step, const model::CourseLevels& levels);

  [[nodiscard]] Server server_of(const Request& request, const DriverRoom& room) const;
  /// The runs as they are, pending blocks counted as used.
  [[nodiscard]] RunBooks& runs() { return books_; }
  /// The longest run at the request's home.
  [[nodiscard]] std::uint64_t largest_run_bytes(const Request& request) const;
  /// All free bytes there.
  [[nodiscard]] std::uint64_t free_bytes(const Request& request) const;
  /// What the driver would have free once the cache went back to it, as far as the limit lets the
  /// allocator ask for it.
  [[nodiscard]] std::uint64_t driver_bytes(const DriverRoom& room) const;
  /// The largest request of this class, pool and stream that would have been served, oversize rules
  /// aside. In expandable segments a larger one may be, with pages mapped beside free space.
  [[nodiscard]] std::uint64_t largest_served_bytes(const Request& request,
                                                   const DriverRoom& room) const;

 private:
  template <class Use>
  void for_each_home_of(const RunBooks& books, const Request& request, Use use) const;
  [[nodiscard]] bool has_hole(const Request& request) const;
  [[nodiscard]] bool driver_gives(const Request& request, const DriverRoom& room) const;
  [[nodiscard]] std::uint64_t need_of(const Request& request) const;
  [[nodiscard]] std::uint64_t releasable_bytes() const;
  [[nodiscard]] bool follows(const model::Home& home) const;
  void take(Range block);
  void free(Range block);
  void complete(Range block);
  void change_device(const model::CourseStep& step);

  const policy::SizeRules* rules_;
  std::vector<model::Home> followed_;
  RunBooks books_;
  FreeRuns runs_;  // of the followed homes; pending blocks count as used
  // What would be free once pending frees were waited for: how much of each plain segment, and
  // which runs of expandable ones, whose pages go back one by one.
  absl::flat_hash_set<std::uint64_t> pending_;  // blocks, by address
  PlainSegments plain_;
  RunBooks waited_books_;
  FreeRuns waited_runs_;
  absl::btree_map<model::Home, std::uint64_t> starts_;  // lowest address of expandable homes
  std::uint64_t reserved_bytes_ = 0;
};

}  // namespace fragscope::servability
