// SPDX-License-Identifier: Apache-2.0
// `analyze`: a recording and the facts given with it become states, verdicts and evidence. The
// result is plain data; `analyzer/report` prints it as text or JSON.
#pragma once

#include "analyzer/explain/message/message.hpp"
#include "analyzer/model/heap_state.hpp"
#include "analyzer/model/history.hpp"
#include "analyzer/model/rounding_rule.hpp"
#include "analyzer/recording/recording.hpp"
#include "analyzer/servability/moment.hpp"
#include "analyzer/verdict/advice.hpp"
#include "analyzer/verdict/evidence.hpp"
#include "analyzer/verdict/ladder.hpp"
#include "analyzer/whatif/recorded/proof.hpp"
#include "trace/result.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace fragscope::analysis {

/// At which moment a question is asked.
struct Moment {
  enum class Kind : std::uint8_t { kOom, kPeak, kEnd, kEvent };
  Kind kind = Kind::kEnd;
  /// kOom: which failure of the device, from 0; the last one if empty. kEvent: before which event.
  std::optional<std::int64_t> number;
};

/// What the command line asks beside the file.
struct Options {
  std::optional<std::uint64_t> request_bytes;  ///< Ask this instead of the recorded failures.
  std::optional<std::int32_t> device;
  std::int64_t stream = 0;
  /// Of the request asked for; of a recorded failure whose entry names none (before 2.12).
  std::optional<model::PoolId> pool;
  std::optional<Moment> at;
  std::optional<std::uint64_t> device_total_bytes;
  std::optional<std::uint64_t> device_free_bytes;
  std::optional<std::uint64_t> limit_bytes;
  std::optional<double> limit_fraction;
  /// Whether to follow the history to the moment each request became impossible.
  bool find_moments = true;
  bool last_failure_only = false;  ///< Of each device; the others are not judged.
  std::string log_name;            ///< Where `messages` come from.
  std::vector<explain::Message> messages;
};

/// Evidence is listed up to here; a count says how much there is. The number of failures times the
/// size of the heap would otherwise decide how much memory a file takes.
inline constexpr std::size_t kKeptEvidence = 100;

/// The largest holders, and how many there are.
struct HolderList {
  HolderList() = default;
  explicit HolderList(std::vector<verdict::Holder> all);
  std::vector<verdict::Holder> largest;
  std::uint64_t count = 0;
};

/// A failed (or asked) request with everything that is known about it.
struct Failure {
  verdict::Question question;
  verdict::DeviceFacts facts;
  std::optional<model::DeviceUse> use;  ///< Of the device, where the recording has it.
  std::vector<model::Stage> stages;     ///< That the program was in, where it said so.
  std::uint32_t thread = 0;             ///< That asked; 0: not known.
  model::StateSummary state;
  verdict::Supply supply;
  verdict::Judgement judgement;
  std::optional<verdict::Pins> pins;
  HolderList holders;
  std::vector<verdict::Advice> advice;
  std::optional<servability::Moment> moment;  ///< None: no history, or too many failures.
};

/// What the driver had at the request's moment, as `servability` counts it. What it did not give to
/// a recorded failure it did not have. Without a figure of the device it had nothing.
[[nodiscard]] servability::DriverRoom room_of(const Failure& failed);
/// The request of the question.
[[nodiscard]] servability::Request request_of(const verdict::Question& question);

struct PeakState {
  model::EventIndex event = model::kBeforeFirst;
  model::StateSummary state;
  std::optional<std::vector<model::Stage>> stages;  ///< None: the recording cannot have them.
};

struct DeviceReport {
  std::int32_t device = 0;
  std::uint64_t event_count = 0;
  model::StateSummary end;
  std::optional<PeakState> peak;                 ///< Empty if the device has no trace.
  std::optional<model::PeakLevels> peak_levels;  ///< Alike.
  HolderList holders;                            ///< At the peak, or at the end without a trace.
};

struct Analysis {
  model::RoundingRule rounding_rule = model::RoundingRule::kUntested;
  std::vector<model::TrustSignal> trust;
  std::vector<DeviceReport> devices;
  std::vector<Failure> failures;
  model::UnjudgedFailures unjudged_failures;  ///< Beside those.
  std::vector<whatif::Proof> proofs;          ///< By device, of those with a history.

  /// What running the history again showed of its device; null: it has none.
  [[nodiscard]] const whatif::Proof* proof_of(std::int32_t device) const;
};

/// The heaps of a recording over time, by device; somebody else's.
using Histories = std::vector<const model::History*>;

/// A PyTorch snapshot. Fails: a question about a device, pool or moment that the recording does not
/// have; so many failures on so many blocks that judging each would not end in reasonable time.
[[nodiscard]] Result<Analysis> analyze(const model::Recording& recording, const Options& options);

/// The same for a recording whose histories are known, as those of a trace. Nothing is run again:
/// `proofs` is left to the caller.
[[nodiscard]] Result<Analysis> analyze(const model::Recording& recording,
                                       const Histories& histories,
                                       const Options& options);

}  // namespace fragscope::analysis
