// SPDX-License-Identifier: Apache-2.0
// One start of an engine while its log is being read: how far it and each of its processes are,
// what failed and what was survived. `timeline_builder` decides which start a line belongs to.
#pragma once

#include "analyzer/logtext/log_line.hpp"
#include "analyzer/stages/failure/failure.hpp"
#include "analyzer/stages/progress.hpp"
#include "analyzer/stages/timeline_builder.hpp"
#include "analyzer/stages/vocabulary/phrase.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fragscope::stages {

/// What a line says of a failure.
struct FailureClue {
  std::optional<Stage> fixed = std::nullopt;
  bool loading = false;
  Rooting rooting = Rooting::kException;
  bool provisional = false;
};

class Start {
 public:
  explicit Start(Engine engine) { see_engine(engine); }

  void see_engine(Engine engine);
  /// The engine whose log this is; kNone while only libraries have shown up.
  [[nodiscard]] Engine host() const { return host_; }
  [[nodiscard]] bool has_seen(Engine engine) const { return (seen_ >> bit_of(engine) & 1U) != 0; }

  void add_banner(std::string_view process);
  /// Whether this process, under whatever process number, has begun this start before.
  [[nodiscard]] bool has_banner(std::string_view process) const;
  void set_version(Engine engine, std::string version);

  /// A marker: moves the start on, and shows what failures before it were survived.
  void mark(const Phrase& phrase, const logtext::LogLine& line);
  void add_bar(const Bar& bar, const logtext::LogLine& line);
  void add_dots(const logtext::LogLine& line);

  /// `before`: what the traceback said that led to this line; may be null.
  void fail(const FailureClue& clue, const logtext::LogLine& line, const TracebackHints* before);
  /// A frame whose traceback may belong to a failure that was announced before it.
  void add_frame(std::string_view process, std::optional<FrameHint> hint, Engine engine);
  /// The traceback is over: frames that follow belong to a chained exception.
  void end_traceback(std::string_view process);
  void survive(const Phrase& phrase, const logtext::LogLine& line);

  [[nodiscard]] bool failed() const;
  [[nodiscard]] bool ready() const { return merged_.ready(); }
  /// Beyond the launch.
  [[nodiscard]] bool under_way() const;
  /// A retry was announced: the next launch belongs to this start.
  [[nodiscard]] bool retrying() const { return retrying_; }
  void retry();

  void add_timelines(std::vector<Timeline>& timelines) const;

 private:
  static unsigned bit_of(Engine engine) { return static_cast<unsigned>(engine); }

  struct Span {
    std::uint64_t first_line = 0;
    std::uint64_t last_line = 0;
    std::optional<logtext::TimeStamp> first_time;
    std::optional<logtext::TimeStamp> last_time;  // of the same origin
    std::optional<double> seconds;
    std::vector<StageFact> facts;
  };
  struct Process {
    std::string name;
    Progress progress;
    std::uint64_t requests = 0;
  };

  Process* process_of(std::string_view name);
  [[nodiscard]] const Process* find_process(std::string_view name) const;
  void touch(Stage stage, const logtext::LogLine& line);
  void keep_fact(Stage stage, const Phrase& phrase, const logtext::LogLine& line);
  [[nodiscard]] bool move(Progress& progress, const Phrase& phrase) const;
  void request(Meaning meaning, const logtext::LogLine& line);
  void batch_size(const Phrase& phrase, const logtext::LogLine& line);
  void settle(Stage reached, bool served, const logtext::LogLine& line);
  void settle_steps();
  void recover(std::size_t index);
  Failure* find_failure(std::string_view process);
  [[nodiscard]] Failure new_failure(const logtext::LogLine& line);
  [[nodiscard]] const Failure* root() const;
  [[nodiscard]] const EngineTraits& host_traits() const { return traits(host_); }
  [[nodiscard]] Engine shown_engine(const Failure* failure, const Decision& decision) const;
  [[nodiscard]] Timeline timeline_of(const Failure* failure) const;

  Engine host_ = Engine::kNone;
  Engine last_engine_ = Engine::kNone;
  std::uint32_t seen_ = 0;  // by engine
  bool retrying_ = false;
  std::string version_;
  Engine version_engine_ = Engine::kNone;
  std::vector<std::string> banners_;
  Progress merged_;
  std::vector<Process> processes_;
  std::array<Span, 6> spans_{};
  std::optional<Stage> last_marked_;
  std::vector<Failure> failures_;
  StageSet recovered_;
  std::optional<std::uint64_t> batch_size_;
};

}  // namespace fragscope::stages
