// SPDX-License-Identifier: Apache-2.0
// PyTorch's own messages: every form that its releases for CUDA printed.
#include "tests/explain/message/sample_messages.hpp"

#include <gtest/gtest.h>

#include <string>

namespace fragscope::explain::test {
namespace {

// "cached" is what is held and not live: the gap itself, not all that is held.
TEST(PytorchMessages, Before14PrintTheGapAsCached) {
  EXPECT_EQ(described(k10),
            "cuda, PyTorch 1.0 to 1.3, GPU 0; request 12.50 MiB; total 10.92 GiB; free 6.31 MiB; "
            "allocated 9.71 GiB; reserved 10.02 GiB; gap 318.44 MiB");
}

TEST(PytorchMessages, From14PrintWhatIsHeld) {
  EXPECT_EQ(described(k14),
            "cuda, PyTorch 1.4 to 2.0, GPU 1; request 1.12 GiB; total 23.69 GiB; free 85.00 MiB; "
            "allocated 19.30 GiB; reserved 23.10 GiB; gap 3.80 GiB");
}

TEST(PytorchMessages, WithLessHeldThanLiveHaveNoGap) {
  EXPECT_EQ(described("CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 11.17 GiB total "
                      "capacity; 6.02 GiB already allocated; 1.40 GiB free; 5.31 GiB reserved in "
                      "total by PyTorch)"),
            "cuda, PyTorch 1.4 to 2.0, GPU 0; request 20.00 MiB; total 11.17 GiB; free 1.40 GiB; "
            "allocated 6.02 GiB; reserved 5.31 GiB");
}

TEST(PytorchMessages, From18MayNameTheLimit) {
  EXPECT_EQ(
      described(k18),
      "cuda, PyTorch 1.8 to 2.0, GPU 1; request 1.12 GiB; total 23.69 GiB; free 12.05 GiB; "
      "allocated 9.30 GiB; reserved 10.10 GiB; gap 808.96 MiB to 829.44 MiB; limit 10.50 GiB");
}

TEST(PytorchMessages, From110AdviseToSplit) {
  EXPECT_EQ(described(k111),
            "cuda, PyTorch 1.10 to 2.0, GPU 1; request 1.12 GiB; total 23.69 GiB; free 85.00 MiB; "
            "allocated 19.30 GiB; reserved 23.10 GiB; gap 3.80 GiB");
  EXPECT_EQ(only("torch.cuda.OutOfMemoryError: " + std::string(k111.substr(14))).format,
            "PyTorch 1.13 to 2.0");
}

TEST(PytorchMessages, Of21AreMisspelt) {
  EXPECT_EQ(described(k21),
            "cuda, PyTorch 2.1, GPU 1; request 1.75 GiB; total 23.69 GiB; free 85.00 MiB; "
            "allocated 9.26 GiB; reserved 21.10 GiB; gap 11.84 GiB; this process 21.10 GiB; "
            "process 4711 2.50 GiB");
}

TEST(PytorchMessages, From22AreSpeltRight) {
  EXPECT_EQ(described(k22),
            "cuda, PyTorch 2.2 to 2.4, GPU 1; request 1.75 GiB; total 23.69 GiB; free 85.00 MiB; "
            "allocated 9.26 GiB; reserved 21.10 GiB; gap 11.84 GiB");
}

// As printed, "allocated" includes the idle bytes of private pools, and the gap does not.
TEST(PytorchMessages, From25HaveLimitAndPrivatePools) {
  EXPECT_EQ(described(k26),
            "cuda, PyTorch 2.5 to 2.8, GPU 1; request 1.75 GiB; total 23.69 GiB; free 85.00 MiB; "
            "allocated 9.22 GiB; reserved 21.10 GiB; gap 11.88 GiB; pools 40.00 MiB; limit 23.00 "
            "GiB; this process 21.60 GiB");
}

TEST(PytorchMessages, From29NameTheNewVariable) {
  EXPECT_EQ(only(k29).format, "PyTorch 2.9 to 2.10");
}

TEST(PytorchMessages, WithoutAdviceHaveAWideRange) {
  const std::string bare(k22.substr(k22.find("CUDA"), k22.find(" If reserved") - k22.find("CUDA")));
  EXPECT_EQ(only(bare).format, "PyTorch 2.2 or later");
  EXPECT_EQ(only("torch.OutOfMemoryError: " + bare).format, "PyTorch 2.4 or later");
}

TEST(PytorchMessages, OfSeveralVersionsDoNotMixTheirTraits) {
  EXPECT_EQ(described(std::string(k10) + "\n" + std::string(k14)),
            described(k10) + " | " + described(k14));
  EXPECT_EQ(described(std::string(k14) + "\n" + std::string(k10)),
            described(k14) + " | " + described(k10));
  EXPECT_EQ(described(std::string(k22) + "\n" + std::string(k26)),
            described(k22) + " | " + described(k26));
  EXPECT_EQ(described(std::string(k26) + "\n" + std::string(k21)),
            described(k26) + " | " + described(k21));
  EXPECT_EQ(described(std::string(kHip) + "\n" + std::string(k22)),
            described(kHip) + " | " + described(k22));
  EXPECT_EQ(
      described("torch.OutOfMemoryError: CUDA out of memory.\nRuntimeError: CUDA error: out of "
                "memory"),
      "cuda, PyTorch 2.4 or later | cuda, driver, runtime or library; no figures");
}

// 2.3 printed the device's number as a character, which ended the text.
TEST(PytorchMessages, Of23MayEndAtTheDevice) {
  EXPECT_EQ(described("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 "
                      "MiB. GPU "),
            "cuda, PyTorch 1.13 to 2.4; request 20.00 MiB; cut");
}

TEST(PytorchMessages, Of23MayNameTheDeviceByAControlCharacter) {
  std::string text(k22);
  text.replace(text.find("GPU 1"), 5, "GPU \x01");
  EXPECT_EQ(described(text),
            "cuda, PyTorch 2.2 to 2.4; request 1.75 GiB; total 23.69 GiB; free 85.00 MiB; "
            "allocated 9.26 GiB; reserved 21.10 GiB; gap 11.84 GiB");
}

TEST(PytorchMessages, CutAnywhereKeepTheFiguresInFront) {
  EXPECT_EQ(described(k14.substr(0, k14.find(" free;"))),
            "cuda, PyTorch 1.0 to 2.0, GPU 1; request 1.12 GiB; total 23.69 GiB; allocated 19.30 "
            "GiB; cut");
  EXPECT_EQ(described(k22.substr(0, k22.find(" Of the allocated"))),
            "cuda, PyTorch 2.2 to 2.4, GPU 1; request 1.75 GiB; total 23.69 GiB; free 85.00 MiB; "
            "cut");
  EXPECT_EQ(described(k22.substr(0, k22.find(" has a total"))),
            "cuda, PyTorch 1.13 to 2.4, GPU 1; request 1.75 GiB; cut");
}

TEST(PytorchMessages, WithoutTheirFirstWordsLackTheRequest) {
  EXPECT_EQ(described("y. Tried again (GPU 3; 23.69 GiB total capacity; 19.30 GiB already "
                      "allocated; 85.00 MiB free; 23.10 GiB reserved in total by PyTorch)"),
            "cuda, PyTorch 1.4 to 2.0, GPU 3; total 23.69 GiB; free 85.00 MiB; allocated 19.30 "
            "GiB; reserved 23.10 GiB; gap 3.80 GiB; cut");
}

TEST(PytorchMessages, BeyondAnExbibyteHaveNoFigures) {
  EXPECT_EQ(described(kBeyond), "cuda, PyTorch 1.9 or later");
  EXPECT_EQ(only(kBeyond).shape, Shape::kBeyond);
}

TEST(PytorchMessages, RejectedBeforehandNameTheExactSize) {
  const Message message = only(kRejected);
  EXPECT_EQ(message.shape, Shape::kRejected);
  EXPECT_EQ(message.format, "PyTorch 2.12 or later");
  EXPECT_EQ(message.figures.request, model::exactly(4294967296));
  EXPECT_EQ(message.figures.tensor, model::exactly(4294967296));
}

TEST(PytorchMessages, OfOneAttemptAreExact) {
  const Message allocation = only(kAllocationAttempt);
  EXPECT_EQ(allocation.shape, Shape::kAttempt);
  EXPECT_EQ(allocation.device, 7);
  EXPECT_EQ(allocation.figures.request, model::exactly(1879048192));
  EXPECT_EQ(allocation.figures.free, model::exactly(89128960));
  EXPECT_EQ(allocation.figures.total, model::exactly(25437405184));

  const Message mapping = only(kMappingAttempt);
  EXPECT_EQ(mapping.shape, Shape::kAttempt);
  EXPECT_FALSE(mapping.figures.request) << "a mapping names a page, not the request";
  EXPECT_EQ(mapping.figures.free, model::exactly(8912896));
}

TEST(PytorchMessages, ListEveryOtherProcess) {
  const Message message = only(
      "CUDA out of memory. Tried to allocate 2.00 MiB. GPU 0 has a total capacity of 79.15 GiB of "
      "which 1.00 MiB is free. Process 12 has 40.00 GiB memory in use. Process 345 has 39.00 GiB "
      "memory in use. Of the allocated memory 38.00 GiB is allocated by PyTorch, and 500.00 MiB "
      "is reserved by PyTorch but unallocated.");

  ASSERT_EQ(message.figures.processes.size(), 2U);
  EXPECT_EQ(message.figures.processes[0].pid, "12");
  EXPECT_EQ(message.figures.processes[0].bytes, printed(40, 30));
  EXPECT_EQ(message.figures.processes[1].pid, "345");
  EXPECT_FALSE(message.figures.process) << "none of them is called this process";
}

// A message that was cut must not go on with the figures of the one behind it.
TEST(CutMessage, LeavesTheNextOneAlone) {
  for (const std::string_view whole : {k10, k14, k18, k21, k22, k26, kHip, kXpu, kMps, kAsync}) {
    for (const std::string_view next : {k14, k26, kMps, kAsync, kVllmCheck}) {
      if (next == whole) continue;  // the same one again
      for (std::size_t length = whole.find("llocat"); length < whole.size(); length += 7) {
        const std::string log = std::string(whole.substr(0, length)) + "\n" + std::string(next);
        const auto messages = find_messages(log);
        ASSERT_FALSE(messages.empty()) << log;
        EXPECT_EQ(described(messages.back()), described(next)) << log;
        EXPECT_LE(messages.size(), 2U) << log;
      }
    }
  }
}

TEST(AbsurdRequest, IsOneMessageWithAllItsOtherFigures) {
  for (const char* request : {"17179869176.57 GiB",
                              "8589934592.00 GiB",
                              "2.00 EiB",
                              "1,024.00 MiB",
                              "1,95 GiB",
                              "17179869184.00 GiB",
                              "1,024 MiB",
                              "nan GiB",
                              "-1.00 GiB",
                              "1e400 GiB"}) {
    for (const std::string_view whole : {k14, k22}) {
      const Message usual = only(whole);
      std::string text(whole);
      text.replace(text.find("Tried to allocate ") + 18, 8, request);
      const Message message = only(text);
      EXPECT_EQ(message.figures.total, usual.figures.total) << text;
      EXPECT_EQ(message.figures.gap, usual.figures.gap) << text;
      const std::string_view printed = request;
      const bool is_unreadable = printed == "nan GiB" || printed == "1,024 MiB" ||
                                 printed.starts_with('-') || printed == "1e400 GiB";
      EXPECT_EQ(message.unreadable.size(), is_unreadable ? 1U : 0U) << text;
      EXPECT_EQ(message.figures.request.has_value(),
                !is_unreadable && printed != "17179869184.00 GiB")
          << text;
    }
  }
}

}  // namespace
}  // namespace fragscope::explain::test
