// SPDX-License-Identifier: Apache-2.0
// The vocabulary as data: which words of which engine mean what. One table for each family of
// engines, one for the words of failure; the logic that uses them is in timeline_builder.cpp and
// start.cpp.
#pragma once

#include "analyzer/stages/stage.hpp"
#include "analyzer/stages/vocabulary/engine.hpp"

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace fragscope::stages {

/// What a phrase says. Where one line says several things they are taken in this order.
enum class Meaning : std::uint8_t {
  kVersion,      ///< The fact is the engine's version.
  kRestart,      ///< The launcher starts everything anew; the next line belongs to that.
  kBanner,       ///< First line of a start.
  kWeakBanner,   ///< The same, but may come several times in one start.
  kPrelude,      ///< Comes before the banner of a start.
  kMention,      ///< Only says which engine writes here.
  kDeferred,     ///< The weights come after the preparation.
  kLoadBegin,    ///< Reading and placing begin, also for the second time.
  kBegin,        ///< The stage begins, also for the second time.
  kWithin,       ///< The stage has begun.
  kEnd,          ///< The stage is complete.
  kWarmUp,       ///< A request: the engine's own one until it is ready.
  kReady,        ///< Readiness is complete.
  kBatchSize,    ///< The fact is the batch size; a smaller one after it means a survived failure.
  kRequest,      ///< A request or step has begun.
  kRunning,      ///< The fact is the number of requests under way.
  kRequestDone,  ///< A request or step is done.
  kAnswered,     ///< The same, of a server; the engine's own one until it is ready.
  kIdle,         ///< Ready, and done with every request so far.
  kDots,         ///< llama.cpp's bar of dots.
  kNote,         ///< The fact belongs to the stage that is open.
  kTraceback,    ///< Frames follow.
  kFrame,        ///< A frame of a traceback.
  kHint,         ///< Tells of the stage, like a frame.
  kFail,         ///< Failed, in this stage.
  kFailLoading,  ///< Failed while reading or placing.
  kFailMethod,   ///< Failed; the method named behind the phrase has the stage.
  kFailHere,     ///< Failed, in the stage that is open.
  kOutOfMemory,  ///< The same, for lack of memory.
  kException,    ///< The last line of a traceback, of any kind.
  kKilled,       ///< The shell's word for a process that was killed.
  kFollowUp,     ///< Somebody noticed that something failed before.
  kSurvived,     ///< The failure before this was survived.
  kSurvivedBefore,  ///< The failure in the traceback that follows is survived.
};

/// Where a number stands.
enum class FactPlace : std::uint8_t {
  kBehind,  ///< Behind the anchor.
  kBefore,  ///< In front of it.
  kDevice,  ///< Behind it; the word in front of it names the device.
};

/// A number to keep from the line.
struct FactRule {
  std::string_view label{};   ///< What the number is; empty: nothing is kept.
  std::string_view anchor{};  ///< Empty: the phrase itself.
  std::string_view unit{};    ///< Where the line prints none.
  FactPlace place = FactPlace::kBehind;
};

// The order is that of the tables' columns: rare ones come last, and most rows leave them out.
// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding)
struct Phrase {
  std::string_view text;
  Engine engine = Engine::kNone;  ///< Whose words these are; kNone: many engines'.
  Meaning meaning = Meaning::kMention;
  Stage stage = Stage::kBeforeLaunch;
  FactRule fact{};
  std::string_view also{};      ///< Must stand in the line too.
  std::string_view duration{};  ///< Behind it stand the seconds that the whole stage took.
  /// Holds only in a start of that engine (of any, for kNone), and does not show that one is under
  /// way: the words are too common.
  bool only_there = false;
};

[[nodiscard]] std::span<const Phrase> serving_phrases();   ///< vLLM, SGLang, TGI, TensorRT-LLM.
[[nodiscard]] std::span<const Phrase> local_phrases();     ///< llama.cpp, ollama, ComfyUI.
[[nodiscard]] std::span<const Phrase> training_phrases();  ///< Trainers and their launchers.
[[nodiscard]] std::span<const Phrase> failure_phrases();   ///< Any engine's failures.

/// The phrases that stand in `text`, each once, by meaning. `found` is overwritten.
/// Cost: one look-up for each byte.
void find_phrases(std::string_view text, std::vector<const Phrase*>& found);

}  // namespace fragscope::stages
