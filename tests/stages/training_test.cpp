// SPDX-License-Identifier: Apache-2.0
// Trainers, their launchers, and scripts around diffusers.
#include "tests/stages/log_timelines.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace fragscope::stages::test {
namespace {

using ::testing::HasSubstr;

const std::string kOpenBar =
    "Loading checkpoint shards:   0%|          | 0/4 [00:00<?, ?it/s]\r"
    "Loading checkpoint shards:  50%|#####     | 2/4 [00:03<00:03,  1.60s/it]\n";
const std::string kFullBar =
    "Loading checkpoint shards:   0%|          | 0/4 [00:00<?, ?it/s]\r"
    "Loading checkpoint shards: 100%|##########| 4/4 [00:06<00:00,  1.60s/it]\n";
const std::string kOom =
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n";

std::string traceback(const std::string& frames) {
  return "Traceback (most recent call last):\n  File \"run.py\", line 3, in <module>\n" + frames +
         kOom;
}

std::string frame(const std::string& path, const std::string& function) {
  return "  File \"/env/lib/python3.11/site-packages/" + path + "\", line 7, in " + function + "\n";
}

TEST(TransformersTimeline, TellsReadingFromPlacing) {
  EXPECT_EQ(
      summary_of(kOpenBar + traceback(frame("transformers/modeling_utils.py", "from_pretrained"))),
      "transformers: last before-launch, failing checkpoint-reading, recovered none, not "
      "ready");
  EXPECT_EQ(summary_of(kFullBar + traceback(frame("torch/nn/modules/module.py", "to"))),
            "transformers: last checkpoint-reading, failing weight-placement, recovered none, not "
            "ready");
  EXPECT_EQ(summary_of(kFullBar + traceback(frame("accelerate/accelerator.py", "prepare_model"))),
            "transformers: last checkpoint-reading, failing weight-placement, recovered none, not "
            "ready");
}

TEST(TransformersTimeline, SeesOneRanksOpenBarAmongFullOnes) {
  const std::string start = "Loading checkpoint shards:   0%|          | 0/4 [00:00<?, ?it/s]\n";
  const std::string full =
      "Loading checkpoint shards: 100%|##########| 4/4 [00:06<00:00,  "
      "1.60s/it]\n";
  EXPECT_EQ(summary_of(start + start + full +
                       traceback(frame("transformers/modeling_utils.py", "from_pretrained"))),
            "transformers: last before-launch, failing checkpoint-reading, recovered none, not "
            "ready");
}

TEST(TransformersTimeline, ReadsVersionFivesBar) {
  EXPECT_EQ(summary_of("Loading weights:  20%|##        | 60/300 [00:01<00:04, 60.00it/s, "
                       "Materializing param=a.b]\n" +
                       traceback(frame("transformers/core_model_loading.py", "materialize"))),
            "transformers: last before-launch, failing checkpoint-reading, recovered none, not "
            "ready");
}

TEST(TransformersTimeline, TakesStepsForRequests) {
  const std::string ready = kFullBar +
                            "***** Running training *****\n"
                            "  Instantaneous batch size per device = 8\n";
  const std::string begun = ready + "  0%|          | 0/500 [00:00<?, ?it/s]";
  EXPECT_EQ(summary_of(ready), "transformers: last readiness, failing none, recovered none, ready");
  EXPECT_EQ(summary_of(begun + traceback(frame("transformers/trainer.py", "training_step"))),
            "transformers: last readiness, failing requests, recovered none, ready");
  EXPECT_EQ(summary_of(begun + "\n{'loss': 1.1, 'grad_norm': 0.3, 'learning_rate': 1e-05, 'epoch': "
                               "0.1}\n"),
            "transformers: last requests, failing none, recovered none, ready");
}

TEST(TransformersTimeline, NoticesASilentlyReducedBatch) {
  const auto banner = [](const std::string& size) {
    return "***** Running training *****\n  Instantaneous batch size per device = " + size + "\n";
  };
  EXPECT_EQ(summary_of(kFullBar + banner("8") + banner("4")),
            "transformers: last readiness, failing none, recovered requests, ready");
  EXPECT_EQ(summary_of(kFullBar + banner("4") + banner("4")),
            "transformers: last readiness, failing none, recovered none, ready");
}

TEST(TransformersTimeline, ReadsATracebackWithoutAnyMarker) {
  EXPECT_EQ(
      summary_of(traceback(frame("transformers/modeling_utils.py", "_load_pretrained_model") +
                           frame("transformers/modeling_utils.py", "caching_allocator_warmup"))),
      "transformers: last before-launch, failing weight-placement, recovered none, not ready");
  EXPECT_EQ(summary_of(traceback(frame("transformers/generation/utils.py", "generate"))),
            "transformers: last readiness, failing requests, recovered none, ready");
}

TEST(DeepspeedTimeline, KnowsItsMemoryLines) {
  const std::string begin =
      "[2024-01-05 20:23:58,101] [INFO] [logging.py:96:log_dist] [Rank 0] DeepSpeed info: "
      "version=0.13.1, git-hash=unknown\n"
      "[2024-01-05 20:24:10,500] [INFO] [logging.py:96:log_dist] [Rank 0] Creating torch.bfloat16 "
      "ZeRO stage 3 optimizer\n"
      "[2024-01-05 20:24:20,006] [INFO] [utils.py:802:see_memory_usage] Before creating fp16 "
      "partitions\n";
  const std::string after =
      "[2024-01-05 20:24:21,506] [INFO] [utils.py:802:see_memory_usage] After creating fp16 "
      "partitions: 2\n"
      "[2024-01-05 20:24:22,506] [INFO] [utils.py:802:see_memory_usage] Before creating fp32 "
      "partitions\n"
      "[2024-01-05 20:24:22,507] [INFO] [utils.py:803:see_memory_usage] MA 12.5 GB         Max_MA "
      "14.1 GB         CA 15.0 GB         Max_CA 15 GB\n";

  EXPECT_EQ(summary_of(begin + kOom),
            "deepspeed: last checkpoint-reading, failing weight-placement, recovered none, not "
            "ready");
  const auto timelines = timelines_of(begin + after + kOom);
  ASSERT_EQ(timelines.size(), 1U);
  EXPECT_EQ(summary_of(timelines[0]),
            "deepspeed: last weight-placement, failing runtime-preparation, recovered none, not "
            "ready");
  EXPECT_EQ(timelines[0].version, "0.13.1");
  EXPECT_THAT(facts_of(timelines[0]), HasSubstr("allocated 12.5 GiB (line 6)\n"));
  EXPECT_THAT(facts_of(timelines[0]), HasSubstr("reserved 15.0 GiB (line 6)\n"));
}

TEST(DeepspeedTimeline, IsNamedWhereItsOwnCodeFails) {
  EXPECT_EQ(summary_of(kFullBar +
                       traceback(frame("transformers/trainer.py", "_inner_training_loop") +
                                 frame("accelerate/accelerator.py", "prepare") +
                                 frame("deepspeed/runtime/engine.py", "_configure_zero_optimizer") +
                                 frame("deepspeed/runtime/zero/stage_1_and_2.py",
                                       "initialize_optimizer_states"))),
            "deepspeed: last weight-placement, failing runtime-preparation, recovered none, not "
            "ready");
}

TEST(TorchrunTimeline, ReadsAKillFromOutsideAtTheOpenStage) {
  EXPECT_EQ(summary_of(kOpenBar +
                       "W0101 10:00:00.000 1 torch/distributed/elastic/multiprocessing/api.py:900] "
                       "Sending process 12 closing signal SIGTERM\n"
                       "E0101 10:00:01.000 1 torch/distributed/elastic/multiprocessing/api.py:874] "
                       "failed (exitcode: -9) local_rank: 1 (pid: 13) of binary: python\n"),
            "transformers: last before-launch, failing checkpoint-reading, recovered none, not "
            "ready");
}

TEST(TorchrunTimeline, StartsAnewWithTheWorkerGroup) {
  EXPECT_EQ(
      summary_of(kFullBar + traceback(frame("torch/nn/modules/module.py", "to")) +
                 "[rank0] agent/server/api.py:700] [default] Worker group FAILED. 2/3 attempts "
                 "left; will restart worker group\n" +
                 kOpenBar),
      "transformers: last checkpoint-reading, failing weight-placement, recovered none, not "
      "ready | transformers: last before-launch, failing none, recovered none, not ready");
}

TEST(LightningTimeline, ReadsItsTableAndBars) {
  const std::string begin =
      "GPU available: True (cuda), used: True\n"
      "All distributed processes registered. Starting with 2 processes\n"
      "12.0 M    Trainable params\n"
      "48.100    Total estimated model params size (MB)\n";
  EXPECT_EQ(summary_of(begin + traceback(frame("pytorch_lightning/strategies/strategy.py",
                                               "setup_optimizers"))),
            "lightning: last weight-placement, failing runtime-preparation, recovered none, not "
            "ready");
  EXPECT_EQ(summary_of(begin +
                       "Sanity Checking DataLoader 0:   0%|          | 0/2 [00:00<?, "
                       "?it/s]" +
                       traceback("")),
            "lightning: last weight-placement, failing runtime-preparation, recovered none, not "
            "ready");
  EXPECT_EQ(summary_of(begin + "Epoch 0:   0%|          | 0/90 [00:00<?, ?it/s] " + traceback("")),
            "lightning: last readiness, failing requests, recovered none, ready");
  EXPECT_EQ(summary_of(begin + "Batch size 64 failed, trying batch size 32\n"),
            "lightning: last weight-placement, failing none, recovered runtime-preparation, not "
            "ready");
  EXPECT_THAT(facts_of(timelines_of(begin)[0]), HasSubstr("model 48.100 MB (line 4)"));
}

TEST(AxolotlTimeline, IsNamedOverTheLibrariesItUses) {
  EXPECT_EQ(
      summary_of("[2025-06-20 10:00:12,310] [INFO] [axolotl.train.train:93] [PID:4] [RANK:0] "
                 "loading model\n" +
                 kFullBar +
                 "[2025-06-20 10:01:12,310] [INFO] [axolotl.load_model:9] [PID:4] [RANK:0] GPU "
                 "memory usage after model load: 15.10GB (+0.20GB cache, +0.90GB misc)\n"
                 "***** Running training *****\n" +
                 traceback(frame("axolotl/train.py", "train") +
                           frame("transformers/trainer.py", "training_step"))),
      "axolotl: last readiness, failing requests, recovered none, ready");
}

TEST(MegatronTimeline, PlacesBeforeItReads) {
  const std::string begin =
      "using world size: 8, data-parallel size: 1, model-parallel size: 8\n"
      "building GPT model ...\n"
      " > number of parameters on (tensor, pipeline) model parallel rank (0, 0): 1000\n";
  EXPECT_EQ(summary_of(begin + kOom),
            "megatron: last before-launch, failing weight-placement, recovered none, not ready");
  EXPECT_EQ(summary_of(begin + " loading checkpoint from /data/ck at iteration 10\n" + kOom),
            "megatron: last weight-placement, failing checkpoint-reading, recovered none, not "
            "ready");
  EXPECT_EQ(summary_of(begin + "setting up optimizer ...\n" + kOom),
            "megatron: last weight-placement, failing runtime-preparation, recovered none, not "
            "ready");
  EXPECT_EQ(summary_of(begin + "done with setup ...\ntraining ...\n" + kOom),
            "megatron: last readiness, failing requests, recovered none, ready");
}

TEST(TorchtitanTimeline, ReadsItsStagesAndWarnings) {
  const auto line = [](const std::string& text) {
    return "[titan] 2026-02-24 19:39:10,004 - root - INFO - " + text + "\n";
  };
  const std::string begin = line("Starting job: demo") + line("Building acme 8B with Args(...)") +
                            line("CUDA memory usage for model: 4.10GiB(5.10%)");
  EXPECT_EQ(summary_of(begin + line("Loading the checkpoint from ck/step-1.") + kOom),
            "torchtitan: last weight-placement, failing checkpoint-reading, recovered none, not "
            "ready");
  EXPECT_EQ(summary_of(begin + line("Trainer is initialized with local batch size 8") +
                       line("Training starts at step 1.") +
                       line("\x1b[31mstep:  1  \x1b[32mloss: 12.2  memory: 70.1GiB(88.60%)") +
                       "[titan] 2026-02-24 19:41:01,032 - root - WARNING - 1 CUDA OOM errors "
                       "thrown.\n"),
            "torchtitan: last requests, failing none, recovered none, ready");
}

TEST(DiffusersTimeline, LooksAtBothBars) {
  const std::string outer_open =
      "Loading pipeline components...:  40%|####      | 2/5 [00:04<00:06,  2.0s/it]\n";
  const std::string outer_full =
      "Loading pipeline components...: 100%|##########| 5/5 [00:09<00:00,  2.0s/it]\n";
  const std::string frames = frame("diffusers/pipelines/pipeline_utils.py", "from_pretrained") +
                             frame("transformers/modeling_utils.py", "from_pretrained");
  EXPECT_EQ(summary_of(outer_open + kFullBar + traceback(frames)),
            "diffusers: last before-launch, failing checkpoint-reading, recovered none, not ready");
  EXPECT_EQ(summary_of(kFullBar + outer_full +
                       traceback(frame("diffusers/pipelines/pipeline_utils.py", "to"))),
            "diffusers: last checkpoint-reading, failing weight-placement, recovered none, not "
            "ready");
  EXPECT_EQ(summary_of(kFullBar + outer_full + "  0%|          | 0/28 [00:00<?, ?it/s]\n" +
                       traceback(frame("diffusers/pipelines/flux/pipeline_flux.py", "__call__"))),
            "diffusers: last readiness, failing requests, recovered none, ready");
}

TEST(TrainerTimeline, ForgivesAFailureThatTrainingOutlives) {
  const std::string ready = kFullBar + "***** Running training *****\n";
  const std::string step = "{'loss': 1.1, 'learning_rate': 1e-05, 'epoch': 0.1}\n";
  const std::string failed = ready + step +
                             "RuntimeError: CUDA out of memory. Tried to allocate 1.00 "
                             "GiB.\n";
  EXPECT_EQ(summary_of(failed + step),
            "transformers: last readiness, failing requests, recovered none, ready");
  EXPECT_EQ(summary_of(failed + step + step + step),
            "transformers: last requests, failing none, recovered requests, ready");
}

}  // namespace
}  // namespace fragscope::stages::test
