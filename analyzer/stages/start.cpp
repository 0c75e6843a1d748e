// SPDX-License-Identifier: Apache-2.0
#include "analyzer/stages/start.hpp"

#include "analyzer/stages/fact.hpp"

#include <algorithm>

namespace fragscope::stages {
namespace {

// Bounds of what one start may hold. More ranks or failures than these say nothing new.
constexpr std::size_t kMaxProcesses = 128;
constexpr std::size_t kMaxFailures = 16;
constexpr std::size_t kMaxBanners = 32;
constexpr std::size_t kMaxFacts = 6;
constexpr std::size_t kMaxProcessName = 80;

/// A process without its number and address: what stays the same when it is started again.
std::string lasting_name(std::string_view process) {
  std::string name;
  while (!process.empty()) {
    const std::size_t end = process.find_first_of(" ,");
    const std::string_view word = process.substr(0, end);
    if (!word.starts_with("pid=") && !word.starts_with("ip=") && !word.empty()) {
      name += word.substr(0, kMaxProcessName);
      name += ' ';
    }
    process = end == std::string_view::npos ? std::string_view() : process.substr(end + 1);
  }
  return name;
}

}  // namespace

void Start::see_engine(Engine engine) {
  if (engine == Engine::kNone) return;
  if (traits(engine).hosts) host_ = std::max(host_, engine);
  if (engine != Engine::kTorchrun || last_engine_ == Engine::kNone) last_engine_ = engine;
  seen_ |= 1U << bit_of(engine);
  const bool places_first =
      traits(host_).places_first || (host_ == Engine::kNone && traits(engine).places_first);
  merged_.set_places_first(places_first);
  for (Process& process : processes_)
    process.progress.set_places_first(places_first);
}

void Start::add_banner(std::string_view process) {
  retrying_ = false;
  if (banners_.size() < kMaxBanners) banners_.push_back(lasting_name(process));
}

bool Start::has_banner(std::string_view process) const {
  return std::ranges::find(banners_, lasting_name(process)) != banners_.end();
}

void Start::set_version(Engine engine, std::string version) {
  if (!version_.empty()) return;
  version_ = std::move(version);
  version_engine_ = engine;
}

Start::Process* Start::process_of(std::string_view name) {
  if (name.empty()) return nullptr;
  name = name.substr(0, kMaxProcessName);
  for (Process& process : processes_) {
    if (process.name == name) return &process;
  }
  if (processes_.size() >= kMaxProcesses) return nullptr;
  Process& process = processes_.emplace_back();
  process.name = name;
  see_engine(host_);
  return &process;
}

const Start::Process* Start::find_process(std::string_view name) const {
  name = name.substr(0, kMaxProcessName);
  for (const Process& process : processes_) {
    if (process.name == name) return &process;
  }
  return nullptr;
}

void Start::touch(Stage stage, const logtext::LogLine& line) {
  Span& span = spans_[index_of(stage)];
  if (span.first_line == 0) {
    span.first_line = line.number;
    span.first_time = line.time;
  }
  span.last_line = std::max(span.last_line, line.number);
  if (!line.time) return;
  if (!span.first_time || span.first_time->origin == line.time->origin) span.last_time = line.time;
}

void Start::keep_fact(Stage stage, const Phrase& phrase, const logtext::LogLine& line) {
  const auto fact = read_fact(phrase, line.text);
  if (!fact) return;
  const std::string_view process = line.process.substr(0, kMaxProcessName);
  auto& facts = spans_[index_of(stage)].facts;
  const auto known = std::ranges::find_if(facts, [&](const StageFact& entry) {
    return entry.label == fact->label && entry.process == process;
  });
  if (known != facts.end()) {
    known->value = fact->value;
    known->line = line.number;
  } else if (facts.size() < kMaxFacts) {
    facts.push_back({fact->label, fact->value, line.number, std::string(process)});
  }
}

bool Start::move(Progress& progress, const Phrase& phrase) const {
  switch (phrase.meaning) {
    case Meaning::kDeferred:
      progress.set_deferred();
      return true;
    case Meaning::kLoadBegin:
      return progress.begin_loading();
    case Meaning::kBegin:
      return progress.begin(phrase.stage);
    case Meaning::kEnd:
    case Meaning::kReady:
      progress.end(phrase.stage);
      return true;
    default:
      return progress.within(phrase.stage);
  }
}

void Start::mark(const Phrase& phrase, const logtext::LogLine& line) {
  if (!phrase.only_there) see_engine(phrase.engine);
  switch (phrase.meaning) {
    case Meaning::kMention:
      return;
    case Meaning::kNote:
      if (last_marked_) keep_fact(*last_marked_, phrase, line);
      return;
    case Meaning::kBatchSize:
      return batch_size(phrase, line);
    case Meaning::kRunning: {
      const auto running = read_count(phrase, line.text);
      const bool idle = running && *running == 0;
      // Engines report while nothing is under way; that is no request.
      if (idle && merged_.front() != Stage::kRequests) return;
      return request(idle ? Meaning::kRequestDone : Meaning::kRequest, line);
    }
    case Meaning::kWarmUp:
    case Meaning::kRequest:
    case Meaning::kRequestDone:
    case Meaning::kAnswered:
    case Meaning::kIdle:
      request(phrase.meaning, line);
      if (last_marked_) keep_fact(*last_marked_, phrase, line);
      return;
    default:
      break;
  }
  Process* process = process_of(line.process);
  if (process != nullptr) static_cast<void>(move(process->progress, phrase));
  const bool news = move(merged_, phrase);
  const bool served = phrase.meaning == Meaning::kReady && host_traits().serves;
  settle(phrase.stage, served, line);
  if (!news) return;
  touch(phrase.stage, line);
  last_marked_ = phrase.stage;
  keep_fact(phrase.stage, phrase, line);
  if (phrase.duration.empty()) return;
  const auto seconds = read_seconds(phrase.duration, line.text);
  if (seconds) spans_[index_of(phrase.stage)].seconds = seconds;
}

void Start::request(Meaning meaning, const logtext::LogLine& line) {
  if (meaning == Meaning::kIdle) {
    const bool served = merged_.ready() && spans_[index_of(Stage::kRequests)].first_line != 0;
    if (!served) {
      merged_.end(Stage::kReadiness);
      settle(Stage::kReadiness, true, line);
      touch(Stage::kReadiness, line);
      last_marked_ = Stage::kReadiness;
      return;
    }
    meaning = Meaning::kRequestDone;
  }
  if (meaning == Meaning::kAnswered && !host_traits().serves) return;
  // The engine's own request, before it calls itself ready. Where the log begins later than the
  // start, every request is somebody's.
  const bool maybe_own = meaning == Meaning::kWarmUp || meaning == Meaning::kAnswered;
  const bool own =
      maybe_own && host_traits().warm_up_request && !merged_.ready() && merged_.front().has_value();
  const Stage stage = own ? Stage::kReadiness : Stage::kRequests;
  merged_.within(stage);
  if (Process* process = process_of(line.process)) process->progress.within(stage);
  settle(stage, false, line);
  touch(stage, line);
  last_marked_ = stage;
  const bool done = meaning == Meaning::kRequestDone || meaning == Meaning::kAnswered;
  if (!done || own) return;
  merged_.request_done();
  settle_steps();
}

void Start::batch_size(const Phrase& phrase, const logtext::LogLine& line) {
  const auto size = read_count(phrase, line.text);
  if (!size) return;
  // A trainer that finds its batch size starts anew with a smaller one when memory was short, and
  // says nothing of it.
  if (batch_size_ && *size < *batch_size_) recovered_.add(Stage::kRequests);
  batch_size_ = size;
}

void Start::add_bar(const Bar& bar, const logtext::LogLine& line) {
  if (bar.kind == BarKind::kUnknown) return;
  if (bar.kind == BarKind::kNameless) {
    const bool steps = host_ == Engine::kNone ? traits(last_engine_).steps : host_traits().steps;
    if (!steps) return;
  }
  // Ranks that did not fail go on for a while, and bars are printed late.
  if (bar.kind == BarKind::kShards && failed()) {
    if (Failure* failure = find_failure(line.process)) {
      failure->late_bar_open = failure->late_bar_open || bar.done < bar.total;
    }
    return;
  }
  see_engine(bar.engine);
  if (bar.kind == BarKind::kSteps || bar.kind == BarKind::kNameless) {
    return request(bar.done > 0 ? Meaning::kRequestDone : Meaning::kRequest, line);
  }
  Process* process = process_of(line.process);
  bool news = false;
  if (bar.kind == BarKind::kWithin) {
    if (process != nullptr) process->progress.within(bar.stage);
    news = merged_.within(bar.stage);
  } else {
    if (process != nullptr) process->progress.reading_bar(bar);
    news = merged_.reading_bar(bar);
  }
  if (!news) return;
  settle(bar.stage, false, line);
  touch(bar.stage, line);
  last_marked_ = bar.stage;
}

void Start::add_dots(const logtext::LogLine& line) {
  if (host_ != Engine::kLlamaCpp && host_ != Engine::kOllama) return;
  const std::size_t last = line.text.find_last_not_of(" \t");
  // Something glued to the dots: they had not come to their end.
  const bool full = last != std::string_view::npos && line.text[last] == '.';
  if (full) {
    merged_.end(Stage::kCheckpointReading);
  } else {
    merged_.within(Stage::kCheckpointReading);
  }
  touch(Stage::kCheckpointReading, line);
  last_marked_ = Stage::kCheckpointReading;
}

bool Start::failed() const {
  return std::ranges::any_of(failures_, [](const Failure& failure) {
    return !failure.provisional && failure.rooting != Rooting::kFollowUp;
  });
}

bool Start::under_way() const {
  const auto front = merged_.front();
  return front && *front != Stage::kBeforeLaunch;
}

void Start::retry() {
  retrying_ = true;
  merged_.start_over();
  for (Process& process : processes_)
    process.progress.start_over();
}

Failure* Start::find_failure(std::string_view process) {
  for (auto it = failures_.rbegin(); it != failures_.rend(); ++it) {
    if (it->process == process) return &*it;
  }
  if (failures_.empty()) return nullptr;
  Failure& last = failures_.back();
  return process.empty() || last.process.empty() ? &last : nullptr;
}

Failure Start::new_failure(const logtext::LogLine& line) {
  Failure failure;
  failure.process = line.process.substr(0, kMaxProcessName);
  failure.first_line = line.number;
  failure.last_line = line.number;
  failure.progress = merged_;
  // A process that only commands others has no markers of its own weights.
  const Process* own = find_process(line.process);
  if (own != nullptr && own->progress.front() && *own->progress.front() != Stage::kBeforeLaunch) {
    failure.progress = own->progress;
    failure.own_progress = true;
    // One process says for all of them that the preparation is over and the server ready.
    if (merged_.ready() && !merged_.before(*own->progress.front(), Stage::kRuntimePreparation)) {
      failure.progress.end(Stage::kReadiness);
    }
  }
  const bool own_bars = failure.progress.bars().seen();
  const ReadingBars& bars = own_bars ? failure.progress.bars() : merged_.bars();
  failure.reading_open = bars.open();
  failure.reading_done =
      failure.progress.is_complete(Stage::kCheckpointReading) || (bars.seen() && !bars.open());
  // One rank draws the bar for all of them.
  if (failure.reading_done) failure.progress.end(Stage::kCheckpointReading);
  return failure;
}

void Start::fail(const FailureClue& clue,
                 const logtext::LogLine& line,
                 const TracebackHints* before) {
  Failure* failure = find_failure(line.process);
  if (failure == nullptr && clue.rooting == Rooting::kFollowUp && !failures_.empty()) {
    failure = &failures_.back();
  }
  const bool better = failure != nullptr && failure->rooting == Rooting::kFollowUp &&
                      clue.rooting != Rooting::kFollowUp;
  if (failure == nullptr) {
    if (failures_.size() >= kMaxFailures) return;
    failures_.push_back(new_failure(line));
    failure = &failures_.back();
    failure->provisional = clue.provisional;
  } else if (better && failure->process.empty()) {
    // The end was noticed before its cause was printed.
    const TracebackHints hints = failure->hints;
    *failure = new_failure(line);
    failure->hints = hints;
  }
  failure->provisional = failure->provisional && clue.provisional;
  failure->last_line = std::max(failure->last_line, line.number);
  failure->rooting = std::max(failure->rooting, clue.rooting);
  failure->loading = failure->loading || clue.loading;
  if (!failure->fixed) failure->fixed = clue.fixed;
  if (before != nullptr && failure->hints.empty()) failure->hints = *before;
}

void Start::add_frame(std::string_view process, std::optional<FrameHint> hint, Engine engine) {
  Failure* failure = find_failure(process);
  if (failure == nullptr || (failure->traceback_done && failure->hints.strong)) return;
  if (hint) failure->hints.add(*hint);
  failure->hints.add_engine(engine);
}

void Start::end_traceback(std::string_view process) {
  Failure* failure = find_failure(process);
  if (failure != nullptr && !failure->hints.empty()) failure->traceback_done = true;
}

void Start::recover(std::size_t index) {
  const Failure& failure = failures_[index];
  if (failure.rooting == Rooting::kRoot) {
    const auto stage = decide_stage(failure, host_traits()).stage;
    if (stage) recovered_.add(*stage);
  }
  failures_.erase(failures_.begin() + static_cast<std::ptrdiff_t>(index));
}

void Start::survive(const Phrase& phrase, const logtext::LogLine& line) {
  see_engine(phrase.engine);
  Failure* failure = find_failure(line.process);
  if (failure == nullptr) {
    recovered_.add(merged_.ready() ? Stage::kRequests : phrase.stage);
    return;
  }
  failure->rooting = Rooting::kRoot;
  recover(static_cast<std::size_t>(failure - failures_.data()));
}

void Start::settle(Stage reached, bool served, const logtext::LogLine& line) {
  for (std::size_t i = failures_.size(); i-- > 0;) {
    const Failure& failure = failures_[i];
    const bool same = failure.process == line.process;
    if (failure.provisional && same) {
      failures_.erase(failures_.begin() + static_cast<std::ptrdiff_t>(i));
      continue;
    }
    if (failure.progress.ready()) continue;
    const auto stage = decide_stage(failure, host_traits()).stage;
    const bool beyond = stage && (merged_.before(*stage, reached) || (served && *stage == reached));
    // A server that becomes ready has survived what failed before; so has a single process that
    // comes to a later stage, or goes back to try another layout.
    const bool again = reached == Stage::kWeightPlacement && stage == Stage::kRuntimePreparation;
    if ((served && beyond) || (host_traits().single_process && same && (beyond || again))) {
      recover(i);
    }
  }
}

void Start::settle_steps() {
  // One rank's last step may be printed after another's end; a second one shows that all go on.
  constexpr std::uint64_t kStepsThatProve = 3;
  if (host_traits().serves) return;
  for (std::size_t i = failures_.size(); i-- > 0;) {
    Failure& failure = failures_[i];
    if (failure.rooting != Rooting::kRoot) continue;
    if (++failure.steps_after >= kStepsThatProve) recover(i);
  }
}

const Failure* Start::root() const {
  const Failure* root = nullptr;
  for (const Failure& failure : failures_) {
    if (root == nullptr || failure.rooting > root->rooting) root = &failure;
  }
  return root;
}

Engine Start::shown_engine(const Failure* failure, const Decision& decision) const {
  const Engine frames = failure != nullptr ? failure->hints.engine : Engine::kNone;
  if (host_ != Engine::kNone) return host_;
  if (traits(frames).hosts) return frames;
  Engine engine = last_engine_;
  if (frames != Engine::kNone && (decision.by_frames || engine == Engine::kNone)) engine = frames;
  return engine == Engine::kAccelerate && has_seen(Engine::kTransformers) ? Engine::kTransformers
                                                                          : engine;
}

Timeline Start::timeline_of(const Failure* failure) const {
  Timeline timeline;
  Decision decision;
  if (failure != nullptr) {
    decision = decide_stage(*failure, host_traits());
    timeline.process = failure->process;
    timeline.failing = decision.stage;
  }
  const Engine engine = shown_engine(failure, decision);
  timeline.engine = engine == Engine::kNone ? "unknown" : traits(engine).name;
  if (engine == version_engine_) timeline.version = version_;
  // What failed before the end of the start-up ended it.
  timeline.ready = timeline.failing ? timeline.failing == Stage::kRequests : merged_.ready();
  timeline.last_completed = timeline.failing ? completed_before(*failure, *timeline.failing)
                                             : merged_.last_completed(std::nullopt);
  for (const Stage stage : kAllStages) {
    if (recovered_.has(stage)) timeline.recovered.push_back(stage);
    Span span = spans_[index_of(stage)];
    const bool failing = timeline.failing == stage;
    if (failing) {
      if (span.first_line == 0) span.first_line = failure->first_line;
      span.last_line = std::max(span.last_line, failure->last_line);
    }
    if (span.first_line == 0) continue;
    StageRecord shown;
    shown.stage = stage;
    shown.first_line = span.first_line;
    shown.last_line = span.last_line;
    shown.completed = !failing && merged_.is_complete(stage);
    shown.seconds = span.seconds;
    if (!shown.seconds && span.first_time && span.last_time &&
        span.last_time->ms > span.first_time->ms) {
      shown.seconds = static_cast<double>(span.last_time->ms - span.first_time->ms) / 1000;
    }
    shown.facts = span.facts;
    timeline.stages.push_back(std::move(shown));
  }
  return timeline;
}

void Start::add_timelines(std::vector<Timeline>& timelines) const {
  const Failure* first = root();
  Timeline whole = timeline_of(first);
  const bool shown = !whole.stages.empty() || whole.failing;
  if (!shown) return;
  const auto failing = whole.failing;
  timelines.push_back(std::move(whole));
  // Ranks that failed in another stage, by what they themselves had printed.
  for (const Failure& failure : failures_) {
    if (&failure == first || !failure.own_progress || failure.rooting < first->rooting) continue;
    Timeline other = timeline_of(&failure);
    if (other.failing && other.failing != failing) timelines.push_back(std::move(other));
  }
}

}  // namespace fragscope::stages
