// SPDX-License-Identifier: Apache-2.0
#include "analyzer/stages/timeline_builder.hpp"

#include "analyzer/stages/fact.hpp"
#include "analyzer/stages/failure/memory_words.hpp"
#include "analyzer/stages/start.hpp"
#include "analyzer/stages/vocabulary/bar.hpp"
#include "analyzer/stages/vocabulary/frame.hpp"
#include "analyzer/stages/vocabulary/phrase.hpp"

#include <algorithm>
#include <deque>

namespace fragscope::stages {
namespace {

// Bounds of memory: of more starts than twice this the middle ones are dropped.
constexpr std::size_t kStartsAtEitherEnd = 32;
constexpr std::size_t kMaxTracebacks = 32;
constexpr std::size_t kMaxText = 65536;

bool may_be_one(Engine a, Engine b) {
  if (a == b || !traits(a).serves || !traits(b).serves) return true;
  const auto is_llama = [](Engine engine) {
    return engine == Engine::kLlamaCpp || engine == Engine::kOllama;
  };
  return is_llama(a) && is_llama(b);
}

/// Whether the line itself says that the failure in it was survived.
bool says_survived(std::string_view text) {
  for (const std::string_view word :
       {"retrying", "falling back", "Falling back", "skipping", "ignored", "ignoring"}) {
    if (text.find(word) != std::string_view::npos) return true;
  }
  return false;
}

/// Whether the line is nothing but the last line of a traceback, no logger in front of it.
bool is_bare_exception(const logtext::LogLine& line, std::string_view phrase) {
  const std::string_view message = line.message.empty() ? line.text : line.message;
  const std::size_t at = message.find(phrase);
  if (at == std::string_view::npos) return false;
  const std::string_view before = message.substr(0, at);
  return before.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_.") ==
         std::string_view::npos;
}

/// "Killed", alone or as bash puts it behind a process number: "run.sh: line 5:  4711 Killed ...".
bool is_shells_word(const logtext::LogLine& line) {
  std::string_view message = line.message.empty() ? line.text : line.message;
  while (message.ends_with(' '))
    message.remove_suffix(1);
  return message == "Killed" || message.find(" Killed    ") != std::string_view::npos;
}

}  // namespace

class TimelineBuilder::Impl {
 public:
  void add(const logtext::LogLine& line);
  void add_timelines(std::vector<Timeline>& timelines) const {
    for (const Start& start : starts_)
      start.add_timelines(timelines);
  }
  [[nodiscard]] std::uint64_t skipped() const { return skipped_; }

 private:
  struct Traceback {
    std::string process;
    TracebackHints hints;
  };

  void add_line(const logtext::LogLine& line);
  void take(const Phrase& phrase, const logtext::LogLine& line);
  void take_bar(const Bar& bar, const logtext::LogLine& line);
  void take_frame(const logtext::LogLine& line);
  void take_hint(std::optional<FrameHint> hint, Engine engine, const logtext::LogLine& line);
  void take_method(const Phrase& phrase, const logtext::LogLine& line);
  void take_exception(const Phrase& phrase, const logtext::LogLine& line);
  void take_out_of_memory(const Phrase& phrase, const logtext::LogLine& line);
  void take_retry(const Phrase& phrase, const logtext::LogLine& line);
  void take_version(const Phrase& phrase, const logtext::LogLine& line);
  void fail(const FailureClue& clue, Engine engine, const logtext::LogLine& line);

  /// The start that a phrase of this engine belongs to, if there is one.
  Start* find_start(Engine engine);
  Start& new_start(Engine engine);
  [[nodiscard]] bool begins_start(const Start& start,
                                  const Phrase& phrase,
                                  std::string_view process) const;
  Start* route(const Phrase& phrase, const logtext::LogLine& line);
  Traceback* traceback_of(std::string_view process);
  void forget_traceback(std::string_view process) {
    std::erase_if(tracebacks_, [&](const Traceback& t) { return t.process == process; });
  }

  std::deque<Start> starts_;
  std::size_t active_ = 0;
  std::uint64_t skipped_ = 0;
  bool over_ = false;  // the launcher said that it starts everything anew
  bool absorbing_ = false;
  Engine version_engine_ = Engine::kNone;
  std::string version_;
  std::vector<Traceback> tracebacks_;
  std::vector<const Phrase*> phrases_;
  std::vector<Bar> bars_;
};

Start& TimelineBuilder::Impl::new_start(Engine engine) {
  if (starts_.size() == 2 * kStartsAtEitherEnd) {
    starts_.erase(starts_.begin() + kStartsAtEitherEnd);
    ++skipped_;
  }
  starts_.emplace_back(engine);
  active_ = starts_.size() - 1;
  over_ = false;
  tracebacks_.clear();
  if (version_engine_ == engine) starts_.back().set_version(engine, version_);
  return starts_.back();
}

Start* TimelineBuilder::Impl::find_start(Engine engine) {
  if (starts_.empty() || over_) return nullptr;
  Start& active = starts_[active_];
  if (!traits(engine).serves || may_be_one(engine, active.host())) return &active;
  for (std::size_t i = starts_.size(); i-- > 0;) {
    if (starts_[i].host() != Engine::kNone && may_be_one(engine, starts_[i].host())) {
      active_ = i;
      return &starts_[i];
    }
  }
  return nullptr;
}

bool TimelineBuilder::Impl::begins_start(const Start& start,
                                         const Phrase& phrase,
                                         std::string_view process) const {
  if (start.retrying()) return false;
  switch (phrase.meaning) {
    case Meaning::kBanner:
      // What llama.cpp prints first comes once more after ollama's own banner.
      if (phrase.engine == Engine::kLlamaCpp && start.host() == Engine::kOllama) return false;
      return start.failed() || (start.under_way() && start.has_banner(process));
    case Meaning::kWeakBanner:
      return start.failed();
    case Meaning::kPrelude:
      return start.failed() || start.ready();
    case Meaning::kLoadBegin:
      return start.failed() && start.has_banner(process);
    default:
      return false;
  }
}

Start* TimelineBuilder::Impl::route(const Phrase& phrase, const logtext::LogLine& line) {
  Start* start = find_start(phrase.engine);
  if (phrase.only_there) {
    const bool there =
        start != nullptr && (phrase.engine == Engine::kNone || start->host() == phrase.engine ||
                             (!traits(phrase.engine).hosts && start->has_seen(phrase.engine)));
    return there ? start : nullptr;
  }
  if (start == nullptr || begins_start(*start, phrase, line.process)) {
    if (phrase.engine == Engine::kNone) return start;
    start = &new_start(phrase.engine);
  }
  const bool names = phrase.meaning == Meaning::kBanner || phrase.meaning == Meaning::kLoadBegin;
  if (names) start->add_banner(line.process);
  return start;
}

TimelineBuilder::Impl::Traceback* TimelineBuilder::Impl::traceback_of(std::string_view process) {
  for (Traceback& traceback : tracebacks_) {
    if (traceback.process == process) return &traceback;
  }
  return nullptr;
}

void TimelineBuilder::Impl::fail(const FailureClue& clue,
                                 Engine engine,
                                 const logtext::LogLine& line) {
  const Traceback* traceback = traceback_of(line.process);
  Start* start = find_start(engine);
  if (start == nullptr) {
    const Engine shown = engine != Engine::kNone ? engine
                         : traceback != nullptr  ? traceback->hints.engine
                                                 : Engine::kNone;
    const bool known =
        shown != Engine::kNone || clue.fixed || (traceback != nullptr && traceback->hints.strong);
    if (!known || clue.rooting == Rooting::kFollowUp) return;
    const TracebackHints hints = traceback != nullptr ? traceback->hints : TracebackHints();
    new_start(engine).fail(clue, line, &hints);
    return;
  }
  start->see_engine(engine);
  start->fail(clue, line, traceback != nullptr ? &traceback->hints : nullptr);
}

void TimelineBuilder::Impl::take_frame(const logtext::LogLine& line) {
  const auto frame = parse_frame(line.text);
  if (!frame) return;
  take_hint(hint_of(*frame), engine_of_path(frame->path), line);
}

void TimelineBuilder::Impl::take_hint(std::optional<FrameHint> hint,
                                      Engine engine,
                                      const logtext::LogLine& line) {
  if (absorbing_ || (!hint && engine == Engine::kNone)) return;
  Traceback* traceback = traceback_of(line.process);
  if (traceback == nullptr) {
    if (tracebacks_.size() >= kMaxTracebacks) tracebacks_.erase(tracebacks_.begin());
    traceback = &tracebacks_.emplace_back();
    traceback->process = line.process;
  }
  if (hint) traceback->hints.add(*hint);
  traceback->hints.add_engine(engine);
  if (Start* start = find_start(Engine::kNone)) start->add_frame(line.process, hint, engine);
}

void TimelineBuilder::Impl::take_method(const Phrase& phrase, const logtext::LogLine& line) {
  std::string_view method = line.text.substr(line.text.find(phrase.text) + phrase.text.size());
  if (method.starts_with('\'')) method.remove_prefix(1);
  method = method.substr(0, method.find_first_not_of("abcdefghijklmnopqrstuvwxyz_"));
  const auto stage = stage_of_method(method);
  FailureClue clue;
  clue.loading = stage == Stage::kCheckpointReading || stage == Stage::kWeightPlacement;
  if (!clue.loading) clue.fixed = stage;
  fail(clue, phrase.engine, line);
}

void TimelineBuilder::Impl::take_out_of_memory(const Phrase& phrase, const logtext::LogLine& line) {
  if (absorbing_) {
    absorbing_ = false;
    forget_traceback(line.process);
    return;
  }
  if (says_survived(line.text)) {
    if (Start* start = find_start(Engine::kNone)) start->survive(phrase, line);
    return;
  }
  fail({.rooting = Rooting::kRoot}, Engine::kNone, line);
  if (Start* start = find_start(Engine::kNone)) start->end_traceback(line.process);
  forget_traceback(line.process);
}

void TimelineBuilder::Impl::take_exception(const Phrase& phrase, const logtext::LogLine& line) {
  if (absorbing_) return;
  const bool bare = is_bare_exception(line, phrase.text);
  if (bare && traceback_of(line.process) != nullptr) {
    fail({.provisional = true}, Engine::kNone, line);
  }
  if (Start* start = find_start(Engine::kNone)) start->end_traceback(line.process);
}

void TimelineBuilder::Impl::take_retry(const Phrase& phrase, const logtext::LogLine& line) {
  if (Start* start = find_start(phrase.engine)) {
    start->survive(phrase, line);
    // ollama launches its runner once more.
    if (phrase.engine == Engine::kOllama) start->retry();
  }
}

void TimelineBuilder::Impl::take_version(const Phrase& phrase, const logtext::LogLine& line) {
  auto version = read_version(phrase, line.text);
  if (!version) return;
  version_ = std::move(*version);
  version_engine_ = phrase.engine;
}

void TimelineBuilder::Impl::take_bar(const Bar& bar, const logtext::LogLine& line) {
  Start* start = find_start(bar.engine);
  const bool reading = bar.kind == BarKind::kShards || bar.kind == BarKind::kComponents;
  const bool names_engine = bar.engine != Engine::kNone && bar.kind != BarKind::kUnknown;
  if (start == nullptr && (reading || names_engine)) start = &new_start(bar.engine);
  if (start != nullptr) start->add_bar(bar, line);
}

void TimelineBuilder::Impl::take(const Phrase& phrase, const logtext::LogLine& line) {
  switch (phrase.meaning) {
    case Meaning::kVersion:
      return take_version(phrase, line);
    case Meaning::kRestart:
      over_ = true;
      return;
    case Meaning::kDots:
      if (Start* start = find_start(phrase.engine)) start->add_dots(line);
      return;
    case Meaning::kTraceback:
      return forget_traceback(line.process);
    case Meaning::kFrame:
      return take_frame(line);
    case Meaning::kHint:
      return take_hint(FrameHint{phrase.stage, true}, phrase.engine, line);
    case Meaning::kFail:
      return fail({.fixed = phrase.stage, .rooting = Rooting::kRoot}, phrase.engine, line);
    case Meaning::kFailLoading:
      return fail({.loading = true, .rooting = Rooting::kRoot}, phrase.engine, line);
    case Meaning::kFailMethod:
      return take_method(phrase, line);
    case Meaning::kFailHere:
      return fail({}, phrase.engine, line);
    case Meaning::kOutOfMemory:
      return take_out_of_memory(phrase, line);
    case Meaning::kException:
      return take_exception(phrase, line);
    case Meaning::kKilled:
      if (is_shells_word(line)) fail({}, Engine::kNone, line);
      return;
    case Meaning::kFollowUp:
      return fail({.rooting = Rooting::kFollowUp}, phrase.engine, line);
    case Meaning::kSurvived:
      return take_retry(phrase, line);
    case Meaning::kSurvivedBefore:
      if (Start* start = route(phrase, line)) start->survive(phrase, line);
      absorbing_ = true;
      return;
    default:
      break;
  }
  Start* start = route(phrase, line);
  if (start == nullptr) return;
  absorbing_ = false;
  forget_traceback(line.process);
  if (phrase.engine == version_engine_) start->set_version(version_engine_, version_);
  start->mark(phrase, line);
}

void TimelineBuilder::Impl::add(const logtext::LogLine& whole) {
  // Lines that were quoted in one line (JSON, a Rust panic) stand in it as lines again.
  logtext::LogLine line = whole;
  std::string_view text = whole.text.substr(0, kMaxText);
  while (true) {
    const std::size_t end = text.find('\n');
    line.text = text.substr(0, end);
    add_line(line);
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 1);
    line.message = text.substr(0, text.find('\n'));
  }
}

void TimelineBuilder::Impl::add_line(const logtext::LogLine& line) {
  find_bars(line.text, bars_);
  for (const Bar& bar : bars_)
    take_bar(bar, line);
  find_phrases(line.text, phrases_);
  bool out_of_memory = false;
  for (const Phrase* phrase : phrases_) {
    const bool again =
        phrase->meaning == Meaning::kOutOfMemory || phrase->meaning == Meaning::kException;
    // Such messages have several of the words in one line.
    if (again && out_of_memory) continue;
    if (phrase->meaning == Meaning::kOutOfMemory) {
      if (!tells_of_failure(line.text)) continue;
      out_of_memory = true;
    }
    take(*phrase, line);
  }
}

std::string to_string(const StageFact& fact) {
  std::string text = fact.label + ' ' + fact.value + " (line " + std::to_string(fact.line);
  if (!fact.process.empty()) text += ", " + fact.process;
  return text + ')';
}

TimelineBuilder::TimelineBuilder()
    : impl_(std::make_unique<Impl>()) {}
TimelineBuilder::~TimelineBuilder() = default;
TimelineBuilder::TimelineBuilder(TimelineBuilder&&) noexcept = default;
TimelineBuilder& TimelineBuilder::operator=(TimelineBuilder&&) noexcept = default;

void TimelineBuilder::add(const logtext::LogLine& line) {
  impl_->add(line);
}

std::vector<Timeline> TimelineBuilder::finish() const {
  std::vector<Timeline> timelines;
  impl_->add_timelines(timelines);
  return timelines;
}

std::uint64_t TimelineBuilder::skipped_starts() const {
  return impl_->skipped();
}

}  // namespace fragscope::stages
