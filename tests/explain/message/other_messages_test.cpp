// SPDX-License-Identifier: Apache-2.0
// Messages of other back ends, of the driver and its libraries, of other frameworks; and texts that
// look like one.
#include "tests/explain/message/sample_messages.hpp"

#include <gtest/gtest.h>

#include <string>

namespace fragscope::explain::test {
namespace {

constexpr const char* kNoFigures = "cuda, driver, runtime or library; no figures";

TEST(OtherBackends, HipIsReadLikeCuda) {
  EXPECT_EQ(described(kHip),
            "hip, PyTorch 2.4 or later, GPU 0; request 4.50 GiB; total 15.98 GiB; free 1.40 GiB; "
            "allocated 11.26 GiB; reserved 12.87 GiB; gap 1.61 GiB");
}

TEST(OtherBackends, XpuMayLackWhatIsFree) {
  EXPECT_EQ(described(kXpu),
            "xpu, PyTorch 2.4 or later, GPU 0; request 3.20 GiB; total 15.11 GiB; allocated 11.02 "
            "GiB; reserved 11.72 GiB; gap 712.00 MiB");
  EXPECT_EQ(described(kXpuLargeBlock),
            "xpu, Intel Extension for PyTorch, GPU 0; request 5.25 GiB; total 15.11 GiB; allocated "
            "3.02 GiB; reserved 3.10 GiB; gap 71.68 MiB to 92.16 MiB");
}

// Its "GB" and "MB" are powers of 1024.
TEST(OtherBackends, MpsHasALimitInsteadOfADevice) {
  EXPECT_EQ(described(kMps),
            "mps, PyTorch 1.12 or later; request 896.00 MiB; allocated 7.81 GiB; limit 18.13 GiB; "
            "other 9.62 GiB");
  EXPECT_EQ(only(kMps).figures.request, printed(896, 20));
  EXPECT_EQ(only(kMps).figures.tensor, printed(896, 20)) << "MPS does not round what it asks for";
}

TEST(OtherBackends, MpsMayRefuseOneBuffer) {
  EXPECT_EQ(described("RuntimeError: Invalid buffer size: 24.11 GB"),
            "mps, PyTorch 1.12 or later; request 24.11 GiB");
}

TEST(OtherBackends, NpuKeepsTheOldFormInEveryVersion) {
  constexpr const char* kRead =
      "npu, torch_npu, GPU 5; request 640.00 MiB; total 60.97 GiB; free 212.40 MiB; allocated "
      "57.20 "
      "GiB; reserved 59.01 GiB; gap 1.80 GiB to 1.82 GiB";
  EXPECT_EQ(described(kNpu), kRead);

  std::string joined(kNpu);
  joined.erase(joined.find(") If") + 1, 1);
  EXPECT_EQ(described(joined), kRead) << "some versions leave out the blank behind PyTorch)";
}

TEST(OtherBackends, AsyncHasNoReservedMemory) {
  EXPECT_EQ(described(kAsync),
            "async, PyTorch 2.4 or later, GPU 2; request 3.50 GiB; total 23.65 GiB; free 1.19 GiB; "
            "allocated 20.11 GiB; limit 21.00 GiB");
  EXPECT_EQ(only(kAsync).figures.tensor, printed(3.50, 30)) << "it prints the tensor itself";
}

TEST(OtherBackends, AsyncWithoutALimitPrintsTheSentinel) {
  std::string text(kAsync);
  text.replace(text.find("21.00 GiB"), 9, "17179869184.00 GiB");
  EXPECT_FALSE(only(text).figures.limit);
  EXPECT_EQ(only(text).figures.free, printed(1.19, 30));
}

TEST(BareErrors, HaveNoFigures) {
  EXPECT_EQ(described("RuntimeError: CUDA error: out of memory"), kNoFigures);
  EXPECT_EQ(described("RuntimeError: CUDA driver error: out of memory"), kNoFigures);
  EXPECT_EQ(described("cuda runtime error (2) : out of memory at /tmp/THCStorage.cu:58"),
            kNoFigures);
  EXPECT_EQ(described("RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling "
                      "`cublasCreate(handle)`"),
            kNoFigures);
  EXPECT_EQ(described("[TensorRT-LLM][ERROR] CUDA runtime error in ::cudaMallocAsync(ptr, n, s): "
                      "out of memory (tllmBuffers.h:112)"),
            kNoFigures);
  EXPECT_EQ(described("node7:11:12 [0] init.cc:88 NCCL WARN Cuda failure 2 'out of memory'"),
            kNoFigures);
  EXPECT_EQ(described("RuntimeError: HIP error: out of memory"),
            "hip, driver, runtime or library; no figures");
}

TEST(BareErrors, MayStillBePytorchs) {
  EXPECT_EQ(described("RuntimeError: CUDA out of memory."), kNoFigures);
  EXPECT_EQ(described("torch.OutOfMemoryError: CUDA out of memory."), "cuda, PyTorch 2.4 or later");
}

// NVML fails while the message is composed, and its assertion takes the message's place.
TEST(BareErrors, AnNvmlAssertionStandsForTheMessage) {
  const Message message = only(
      "RuntimeError: NVML_SUCCESS == r INTERNAL ASSERT FAILED at "
      "\"../c10/cuda/CUDACachingAllocator.cpp\":838, please report a bug to PyTorch.");
  EXPECT_EQ(message.shape, Shape::kReplaced);
  EXPECT_EQ(message.format, "PyTorch 2.1 or later");
}

// Each text of its kind is one message, however many of the words stand in it.
TEST(BareErrors, AreFoundInEveryLibrarysWords) {
  const std::string none = "none, driver, runtime or library; no figures";
  const std::string host = "none, operating system or library; host memory";
  const std::pair<const char*, std::string> texts[] = {
      {"torch.OutOfMemoryError: Allocation on device ", "cuda, PyTorch 2.4 or later"},
      {"torch.OutOfMemoryError: Allocation on device 0", "cuda, PyTorch 2.4 or later, GPU 0"},
      {"[rank1]: torch.OutOfMemoryError", "cuda, PyTorch 2.4 or later"},
      {"terminate called after throwing an instance of 'std::bad_alloc'\n  what():  "
       "std::bad_alloc",
       host},
      {"MemoryError: std::bad_alloc: out_of_memory: CUDA error at: /x.hpp:57: "
       "cudaErrorMemoryAllocation out of memory",
       kNoFigures},
      {"RuntimeError: cuDNN error: CUDNN_STATUS_ALLOC_FAILED", kNoFigures},
      {"RuntimeError: CUDA error: out of memory (cudaErrorMemoryAllocation)", kNoFigures},
      {"RuntimeError: UR error: 39 (UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)",
       "xpu, driver, runtime or library; no figures"},
      {"ggml_vulkan: vk::Device::allocateMemory: ErrorOutOfDeviceMemory",
       "none, another framework"},
      {"XlaRuntimeError: RESOURCE_EXHAUSTED: Failed to allocate request for 2.0GiB", none},
      {"hip error hipErrorOutOfMemory in line 7", "hip, driver, runtime or library; no figures"},
      {"RuntimeError: !handles_.at(i) INTERNAL ASSERT FAILED at "
       "\"../c10/cuda/CUDACachingAllocator.cpp\":417, please report a bug to PyTorch.",
       kNoFigures},
      {"RuntimeError: cuDNN error: CUDNN_STATUS_NOT_SUPPORTED. This error may appear if",
       kNoFigures},
      {"RuntimeError: CUDA driver error: device not ready", kNoFigures},
      {"OSError: [Errno 12] Cannot allocate memory", host},
      {"java.lang.OutOfMemoryError: Java heap space", host}};
  for (const auto& [text, wanted] : texts)
    EXPECT_EQ(described(text), wanted) << text;
}

// Of an error with figures only those count; its class and status are the same error.
TEST(BareErrors, LeaveItToTheMessageWithFigures) {
  for (const std::string_view text : {k14, k22, kAsync, kJax, kStreamExecutor, kLlama})
    EXPECT_EQ(find_messages(text).size(), 1U) << text;
  EXPECT_EQ(described("terminate called after throwing an instance of 'c10::OutOfMemoryError'\n  "
                      "what():  CUDA out of memory. Tried to allocate 20.00 MiB"),
            "cuda, PyTorch 1.0 or later; request 20.00 MiB; cut");
}

TEST(BareErrors, AreNotDeniedByTheLineInFront) {
  EXPECT_EQ(described("the stacktrace below might be incorrect.\nRuntimeError: CUDA error: "
                      "CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
            kNoFigures);
}

TEST(BareErrors, DoNotTakeTheFiguresOfAnEarlierOne) {
  EXPECT_EQ(described(std::string(kLlama) + "\nCUDA error: out of memory"),
            described(kLlama) + " | " + kNoFigures);
}

TEST(BareErrors, AnyNvmlAssertionStandsForTheMessage) {
  EXPECT_EQ(only("RuntimeError: NVML_SUCCESS == DriverAPI::get()->nvmlInit_v2_() INTERNAL ASSERT "
                 "FAILED at \"../c10/cuda/CUDACachingAllocator.cpp\":1123")
                .shape,
            Shape::kReplaced);
}

TEST(BareErrors, HostMemoryNamesNoGpu) {
  for (const char* text : {"RuntimeError: [enforce fail at alloc_cpu.cpp:83] . "
                           "DefaultCPUAllocator: can't allocate memory: you tried to allocate 137 "
                           "bytes. Error code 12 (Cannot allocate memory)",
                           "RuntimeError: DefaultCPUAllocator: not enough memory: you tried to "
                           "allocate 137 bytes."}) {
    const Message message = only(text);
    EXPECT_EQ(message.backend, Backend::kNone) << text;
    EXPECT_EQ(message.shape, Shape::kHost) << text;
    EXPECT_EQ(message.figures.request, model::exactly(137)) << text;
  }
}

TEST(OtherFrameworks, JaxPrintsTheExactRequest) {
  EXPECT_EQ(described(kJax), "none, another framework; request 8.00 GiB");
  EXPECT_EQ(only(kJax).figures.request, model::exactly(8589934592));
  EXPECT_EQ(only(kJax).figures.tensor, model::exactly(8589934592))
      << "only PyTorch rounds to 2 MiB";
}

TEST(OtherFrameworks, XlaAndTensorFlowHaveOtherWordsForIt) {
  EXPECT_EQ(described("XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory allocating 34359738368 "
                      "bytes."),
            "none, another framework; request 32.00 GiB");
  const std::string ran_out =
      "Allocator (GPU_1_bfc) ran out of memory trying to allocate 4.00GiB (rounded to "
      "4294967296)requested by op";
  EXPECT_EQ(described(ran_out), "cuda, another framework, GPU 1; request 4.00 GiB");
  EXPECT_EQ(only(ran_out + ". The caller indicates that this is not a failure").shape,
            Shape::kAttempt);
}

TEST(OtherFrameworks, StreamExecutorIsReportedOnce) {
  EXPECT_EQ(described(kStreamExecutor), "cuda, another framework; request 17.79 GiB");
  EXPECT_EQ(only(kStreamExecutor).figures.request, model::exactly(19104890880));
  EXPECT_EQ(only("failed to alloc 2147483648 bytes unified memory; result: "
                 "CUDA_ERROR_OUT_OF_MEMORY: out of memory")
                .figures.request,
            model::exactly(2147483648));
}

TEST(OtherFrameworks, TensorFlowNamesTheShapeAndTheDevice) {
  EXPECT_EQ(described("ResourceExhaustedError: OOM when allocating tensor with shape[64,512,512] "
                      "and type float on /job:localhost/replica:0/task:0/device:GPU:1 by allocator "
                      "GPU_1_bfc"),
            "cuda, another framework, GPU 1");
  EXPECT_EQ(described("ResourceExhaustedError: OOM when allocating tensor with shape[64,512,512] "
                      "and type float on /job:localhost/replica:0/task:0/device:CPU:0 by allocator "
                      "cpu"),
            "none, another framework");
}

TEST(OtherFrameworks, LlamaCppNamesRequestAndDeviceInFront) {
  EXPECT_EQ(described(kLlama), "cuda, another framework, GPU 0; request 1.50 GiB");
  EXPECT_EQ(only(kLlama).figures.tensor, printed(1536, 20));
  EXPECT_EQ(described("CUDA error 2 at ggml-cuda.cu:6935: out of memory"),
            "cuda, another framework");
}

TEST(StartUpChecks, VllmsHasThreeFigures) {
  const Message message = only(kVllmCheck);
  EXPECT_EQ(message.shape, Shape::kCheck);
  EXPECT_EQ(described(message),
            "none, a start-up check; request 21.28 GiB; total 23.65 GiB; free 6.12 GiB");
  EXPECT_EQ(
      described("ValueError: Free memory on device cuda:3 (6.12/23.65 GiB) on startup is less "
                "than desired GPU memory utilization (0.9, 21.28 GiB)."),
      "none, a start-up check, GPU 3; request 21.28 GiB; total 23.65 GiB; free 6.12 GiB");
}

TEST(StartUpChecks, NoCacheBlocksHasNone) {
  const Message message = only(
      "ValueError: No available memory for the cache blocks. Try increasing "
      "`gpu_memory_utilization` when initializing the engine.");
  EXPECT_EQ(message.shape, Shape::kCheck);
  EXPECT_FALSE(message.figures.request);
}

TEST(Prose, IsNoMessage) {
  for (const char* text : {"Lower the batch size to avoid CUDA out of memory errors.",
                           "If you run out of memory, pass --low-vram.",
                           "# CUDA out of memory happens with long prompts",
                           "the loader may run out of memory on small hosts",
                           "retrying after CUDA out of memory with batch size 4",
                           "Tried to allocate a port, none was left",
                           "a total capacity; nothing else",
                           "GPU 0; 3 slots of total capacity; 2 used",
                           "Free memory on device 0: 12.00 GiB",
                           "INTERNAL ASSERT FAILED at \"../torch/csrc/jit/x.cpp\":7",
                           "still busy while trying to allocate a worker",
                           "a check on startup is less than desired by some",
                           "CUDA error: operation not supported",
                           "the DefaultCPUAllocator: a class of PyTorch",
                           "In case of CUDA out of memory, try lowering the batch size.",
                           "Hint: on CUDA out of memory lower max_num_seqs",
                           "If you get CUDA error: out of memory, reduce the context",
                           "config failed with CUDA out of memory, ignored",
                           "catch torch.OutOfMemoryError enabled",
                           "torch.OutOfMemoryError: ",
                           "oom_handler=OutOfMemoryError",
                           "    except torch.OutOfMemoryError:",
                           "OutOfMemoryError: out of resource: shared memory",
                           "catch (const std::bad_alloc& error) {",
                           "RESOURCE_EXHAUSTED: message larger than max (9 vs. 4)",
                           "grep 'out of memory' train.log",
                           "NVML_SUCCESS == r is checked"}) {
    EXPECT_EQ(described(text), "") << text;
  }
}

TEST(Prose, GivesWayToFigures) {
  EXPECT_EQ(described("the engine could not be built: CUDA out of memory. Tried to allocate 20.00 "
                      "MiB"),
            "cuda, PyTorch 1.0 or later; request 20.00 MiB; cut");
}

// What is copied from pages and terminals has other blanks between its words.
TEST(Blanks, OfAnyKindStandForOne) {
  for (const std::string_view blank : {"  ", "\t", "\xC2\xA0"}) {
    for (const std::string_view text : {k14, k22, kMps, kAsync, kVllmCheck, kXpuLargeBlock}) {
      std::string other;
      for (const char c : text) {
        if (c == ' ') other += blank;
        if (c != ' ') other += c;
      }
      EXPECT_EQ(described(other), described(text)) << other;
    }
  }
}

TEST(Prose, AroundAMessageDoesNotHideIt) {
  EXPECT_EQ(described("To avoid CUDA out of memory errors, see above. " + std::string(k14)),
            described(k14));
  EXPECT_EQ(described(std::string(k14) + " so it ran out of memory again"), described(k14));
}

}  // namespace
}  // namespace fragscope::explain::test
