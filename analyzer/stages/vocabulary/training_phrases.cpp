// SPDX-License-Identifier: Apache-2.0
// What trainers and their launchers say before the first step: Transformers and Accelerate,
// DeepSpeed, torchrun, Lightning, Axolotl, Megatron, torchtitan. Most of what tells their stages
// apart are bars (bar.cpp) and the frames of a traceback (frame.cpp).
#include "analyzer/stages/vocabulary/phrase.hpp"

namespace fragscope::stages {
namespace {

using enum Meaning;
using enum FactPlace;

constexpr Stage kLaunch = Stage::kBeforeLaunch;
constexpr Stage kReading = Stage::kCheckpointReading;
constexpr Stage kPlacing = Stage::kWeightPlacement;
constexpr Stage kPrepare = Stage::kRuntimePreparation;
constexpr Stage kReadying = Stage::kReadiness;
constexpr Stage kSteps = Stage::kRequests;

constexpr Engine kTransformers = Engine::kTransformers;
constexpr Engine kDeepspeed = Engine::kDeepspeed;
constexpr Engine kLightning = Engine::kLightning;
constexpr Engine kAxolotl = Engine::kAxolotl;
constexpr Engine kMegatron = Engine::kMegatron;
constexpr Engine kTitan = Engine::kTorchtitan;
constexpr Engine kTorchrun = Engine::kTorchrun;

constexpr Phrase kPhrases[] = {
    // --- Transformers, Accelerate, PEFT
    // -----------------------------------------------------------
    {"trainable params: ", kTransformers, kWithin, kPlacing, {}, "all params: "},
    {"***** Running training *****", kTransformers, kReady, kReadying},
    {"Instantaneous batch size per device = ", kTransformers, kBatchSize, kSteps, {"batch size"}},
    {"'learning_rate': ", kTransformers, kRequestDone, kSteps, {}, "loss'"},
    {"'train_runtime': ", kTransformers, kRequestDone, kSteps},
    {"_move_model_to_device", kTransformers, kHint, kPlacing},
    {"Decreasing batch size to", kTransformers, kSurvived, kSteps},

    // --- DeepSpeed
    // --------------------------------------------------------------------------------
    {"DeepSpeed info: version=", kDeepspeed, kVersion, kLaunch, {"version"}},
    {"DeepSpeed info: version=", kDeepspeed, kWeakBanner, kLaunch},
    {"finished initializing model", kDeepspeed, kWithin, kPlacing, {}, "num_params"},
    {"DeepSpeedZeRoOffload initialize", kDeepspeed, kWithin, kPlacing},
    {"Before creating fp16 partitions", kDeepspeed, kBegin, kPlacing},
    {"After creating fp16 partitions", kDeepspeed, kEnd, kPlacing},
    {" ZeRO stage ", kDeepspeed, kWithin, kPrepare, {}, "Creating "},
    {"Creating BF16 optimizer", kDeepspeed, kWithin, kPrepare},
    {"Creating fp16 optimizer", kDeepspeed, kWithin, kPrepare},
    {"creating fp32 partitions", kDeepspeed, kWithin, kPrepare},
    {"Before initializing optimizer states", kDeepspeed, kWithin, kPrepare},
    {"After initializing optimizer states", kDeepspeed, kWithin, kPrepare},
    {"optimizer state initialized", kDeepspeed, kWithin, kPrepare},
    {"After initializing ZeRO optimizer", kDeepspeed, kEnd, kPrepare},
    {" GB         Max_MA ", kDeepspeed, kNote, kPrepare, {"allocated", "MA "}},
    {" GB         Max_MA ", kDeepspeed, kNote, kPrepare, {"reserved", " CA "}},
    {"CPU Virtual Memory: ", kDeepspeed, kNote, kPrepare, {"host memory", "used = "}},
    {", skipped=", kDeepspeed, kRequestDone, kSteps, {}, "step="},

    // --- Lightning
    // --------------------------------------------------------------------------------
    {"GPU available: ", kLightning, kWeakBanner, kLaunch, {}, "used: "},
    {"GLOBAL_RANK: ", kLightning, kWithin, kLaunch, {}, "MEMBER: "},
    {"processes registered", kLightning, kWithin, kLaunch, {}, "All "},
    {"Trainable params", kLightning, kWithin, kPlacing},
    {"Total estimated model params size (MB)",
     kLightning,
     kEnd,
     kPlacing,
     {"model", {}, "MB", kBefore}},
    {"Sanity Checking", kLightning, kWithin, kPrepare},
    {"Validation sanity check", kLightning, kWithin, kPrepare},
    {"`Trainer.fit` stopped", kLightning, kRequestDone, kSteps},
    {"failed, trying batch size ", kLightning, kSurvived, kPrepare},

    // --- Axolotl
    // ----------------------------------------------------------------------------------
    {"] [axolotl.", kAxolotl, kMention},
    {"usage after model load", kAxolotl, kEnd, kPlacing, {"allocated", ": "}},
    {"usage after model load", kAxolotl, kEnd, kPlacing, {"allocated", "load "}, "active"},
    {"GPU memory after model load", kAxolotl, kEnd, kPlacing, {"allocated", ": "}},

    // --- Megatron, NeMo
    // ---------------------------------------------------------------------------
    {"using world size: ", kMegatron, kWeakBanner, kLaunch, {}, "parallel size: "},
    {" model ...", kMegatron, kBegin, kPlacing, {}, "building "},
    {"> number of parameters on ", kMegatron, kWithin, kPlacing},
    {"loading checkpoint from ", kMegatron, kBegin, kReading},
    {"successfully loaded checkpoint", kMegatron, kEnd, kReading},
    {"setting up optimizer", kMegatron, kWithin, kPrepare, {}, {}, {}, true},
    {"done with setup", kMegatron, kEnd, kPrepare, {}, " ..."},
    {"training ...", kMegatron, kReady, kReadying, {}, {}, {}, true},
    {"elapsed time per iteration", kMegatron, kRequestDone, kSteps, {}, "iteration "},
    {"memory (MB) | allocated: ", kMegatron, kRequest, kSteps, {"allocated", {}, "MiB"}},
    {"memory (MB) | allocated: ", kMegatron, kRequest, kSteps, {"peak", "max allocated: ", "MiB"}},

    // --- torchtitan
    // -------------------------------------------------------------------------------
    {"Starting job: ", kTitan, kBanner, kLaunch, {}, "[titan]"},
    {"CUDA capacity: ", kTitan, kWithin, kLaunch, {"device memory", " with "}, "memory"},
    {"- INFO - Building ", kTitan, kBegin, kPlacing, {}, "[titan]"},
    {"CUDA memory usage for model: ", kTitan, kEnd, kPlacing, {"model"}},
    {"Loading the checkpoint from ", kTitan, kBegin, kReading},
    {"Finished loading the checkpoint in ", kTitan, kEnd, kReading, {}, {}, "checkpoint in "},
    {"Trainer is initialized with ", kTitan, kEnd, kPrepare},
    {"Training starts at step ", kTitan, kReady, kReadying},
    // Colours stand between the words of a step.
    {"- root - INFO - ",
     kTitan,
     kRequestDone,
     kSteps,
     {"peak reserved", "memory: "},
     "loss: ",
     {},
     true},

    // --- torchrun and other launchers
    // -------------------------------------------------------------
    {"will restart worker group", kTorchrun, kRestart},
    {"failed (exitcode: -9)", kTorchrun, kFailHere},
    {"failed (exitcode: ", kTorchrun, kFollowUp},
    {"exitcode  : -9", kTorchrun, kFailHere},
    {"Signal 9 (SIGKILL) received", kTorchrun, kFailHere},
    {"ChildFailedError", kTorchrun, kFollowUp},
    {"closing signal SIGTERM", kTorchrun, kFollowUp},
    {"exits with return code = -9", kDeepspeed, kFailHere},
    {"exits with return code = ", kDeepspeed, kFollowUp},
};

}  // namespace

std::span<const Phrase> training_phrases() {
  return kPhrases;
}

}  // namespace fragscope::stages
