// SPDX-License-Identifier: Apache-2.0
// Memory fractions, and throw_on_cudamalloc_oom, on a device of 100 MiB.
#include "allocator/policy/inspect/out_of_memory_message.hpp"
#include "tests/policy/policy_fixture.hpp"

namespace fragscope::policy::test {
namespace {

class FractionTest : public PolicyTest {
 protected:
  void use_version(TorchVersion version, std::uint64_t device_bytes = 100 * kMiB) {
    PolicyOptions options;
    options.version = version;
    use(device_bytes, options);
  }
};

/// Half of the device may be held, by options that were set while it was in use: those that are
/// there from the start are a limit, too.
class RejectionTest : public PolicyTest {
 protected:
  void SetUp() override {
    use(100 * kMiB);
    policy().set_options(with_fraction(0.5));
  }
  static PolicyOptions with_fraction(double fraction) {
    PolicyOptions options;
    options.conf.throw_on_cudamalloc_oom = true;
    options.conf.per_process_memory_fraction = fraction;
    return options;
  }
};

TEST_F(FractionTest, LimitsWhatIsHeld) {
  for (const TorchVersion version : {TorchVersion::kTorch215, TorchVersion::kTorch26}) {
    use_version(version);
    policy().set_memory_fraction(0.5);
    EXPECT_EQ(policy().limit(), 50 * kMiB);
    EXPECT_EQ(policy().allocate(52 * kMiB, 0), nullptr);
    EXPECT_NE(policy().allocate(50 * kMiB, 0), nullptr);
  }
}

TEST_F(FractionTest, OfOneIsNoLimit) {
  use_version(TorchVersion::kTorch215);
  policy().set_memory_fraction(0.5);
  policy().set_memory_fraction(1);
  EXPECT_FALSE(policy().limit());
}

TEST_F(FractionTest, OfOneIsTheWholeDeviceUpTo29) {
  use_version(TorchVersion::kTorch26);
  policy().set_memory_fraction(1);
  EXPECT_EQ(policy().allocate(102 * kMiB, 0), nullptr);
  EXPECT_EQ(policy().failure().limit_bytes, 100 * kMiB);
}

// 0.3 of 7,340,032 bytes is 2,202,009.6.
TEST_F(FractionTest, IsRoundedAndCutOffUpTo29) {
  use_version(TorchVersion::kTorch215, 7 * kMiB);
  policy().set_memory_fraction(0.3);
  EXPECT_EQ(policy().limit(), 2'202'010U);
  use_version(TorchVersion::kTorch26, 7 * kMiB);
  policy().set_memory_fraction(0.3);
  EXPECT_EQ(policy().limit(), 2'202'009U);
}

TEST_F(FractionTest, InTheOptionsIsALimitFromTheStartAlone) {
  PolicyOptions options;
  options.conf.per_process_memory_fraction = 0.5;
  use(100 * kMiB, options);
  EXPECT_EQ(policy().limit(), 50 * kMiB);
  options.conf.per_process_memory_fraction = 0.25;
  policy().set_options(options);
  EXPECT_EQ(policy().limit(), 50 * kMiB);
}

TEST_F(FractionTest, OfZeroForbidsEverything) {
  use_version(TorchVersion::kTorch215);
  policy().set_memory_fraction(0);
  EXPECT_EQ(policy().allocate(1, 0), nullptr);
}

TEST_F(RejectionTest, AsksNothingOfTheDevice) {
  EXPECT_EQ(policy().allocate(60 * kMiB, 0), nullptr);
  EXPECT_EQ(policy().failure().kind, AllocationFailure::Kind::kRejected);
  const Statistics& statistics = policy().statistics();
  EXPECT_EQ(statistics.num_oom_rejections, 1);
  EXPECT_EQ(statistics.num_ooms, 0);
  EXPECT_EQ(statistics.num_alloc_retries, 0);
  EXPECT_EQ(statistics.num_device_alloc, 0);
}

TEST_F(RejectionTest, AdmitsWhatReachesTheFraction) {
  EXPECT_NE(policy().allocate(50 * kMiB, 0), nullptr);
  EXPECT_EQ(policy().allocate(1, 0), nullptr);
}

TEST_F(RejectionTest, KeepsTheCache) {
  free(allocate(30 * kMiB));
  EXPECT_EQ(policy().allocate(40 * kMiB, 0), nullptr);
  EXPECT_EQ(policy().held_bytes(), 30 * kMiB);
  EXPECT_EQ(policy().statistics().num_sync_all_streams, 0);
}

TEST_F(RejectionTest, ServesFromTheCacheBeyondTheFraction) {
  free(allocate(40 * kMiB));
  policy().set_options(with_fraction(0.1));
  EXPECT_NE(policy().allocate(40 * kMiB, 0), nullptr);
}

// What is over the limit is not asked for at all, so it is no rejection.
TEST_F(RejectionTest, ComesAfterTheLimit) {
  policy().set_limit(40 * kMiB);
  EXPECT_EQ(policy().allocate(60 * kMiB, 0), nullptr);
  EXPECT_EQ(policy().failure().kind, AllocationFailure::Kind::kOutOfMemory);
  EXPECT_EQ(policy().statistics().num_ooms, 1);
}

// The limit of 90 MiB forbids the first attempt; with 40 MiB gone the fraction does, at 80, and
// with all of the cache gone the device has nothing. PyTorch calls that a rejection.
TEST_F(RejectionTest, SticksToTheRequestThroughLaterAttempts) {
  PolicyOptions options;
  options.conf.rules.max_split_size = 30 * kMiB;
  use(100 * kMiB, options);
  Block& oversize = allocate(40 * kMiB);
  Block& small = allocate(20 * kMiB);
  static_cast<void>(allocate(28 * kMiB));
  free(oversize);
  free(small);
  options.conf.throw_on_cudamalloc_oom = true;
  options.conf.per_process_memory_fraction = 0.6;
  options.conf.rules.max_non_split_rounding = 2 * kMiB;
  policy().set_options(options);
  policy().set_limit(90 * kMiB);
  device().fail(SimulatedDevice::Fault::kAllocate, 1, false);
  EXPECT_EQ(policy().allocate(32 * kMiB, 0), nullptr);
  EXPECT_EQ(policy().failure().kind, AllocationFailure::Kind::kRejected);
  EXPECT_EQ(policy().statistics().num_oom_rejections, 1);
  EXPECT_EQ(policy().statistics().num_alloc_retries, 1);
  EXPECT_EQ(policy().statistics().num_ooms, 0);
}

// As before, but what stays is too much for the fraction: both later attempts are rejected.
TEST_F(RejectionTest, CountsEachAttempt) {
  PolicyOptions options;
  options.conf.rules.max_split_size = 30 * kMiB;
  use(100 * kMiB, options);
  Block& oversize = allocate(40 * kMiB);
  static_cast<void>(allocate(48 * kMiB));
  free(oversize);
  options.conf.throw_on_cudamalloc_oom = true;
  options.conf.per_process_memory_fraction = 0.6;
  options.conf.rules.max_non_split_rounding = 2 * kMiB;
  policy().set_options(options);
  policy().set_limit(90 * kMiB);
  EXPECT_EQ(policy().allocate(32 * kMiB, 0), nullptr);
  EXPECT_EQ(policy().statistics().num_oom_rejections, 2);
}

TEST_F(RejectionTest, IsForgottenByTheNextRequest) {
  EXPECT_EQ(policy().allocate(60 * kMiB, 0), nullptr);
  policy().set_options(with_fraction(1));
  EXPECT_EQ(policy().allocate(102 * kMiB, 0), nullptr);
  EXPECT_EQ(policy().statistics().num_oom_rejections, 2);
  policy().set_options({});
  EXPECT_EQ(policy().allocate(102 * kMiB, 0), nullptr);
  EXPECT_EQ(policy().failure().kind, AllocationFailure::Kind::kOutOfMemory);
}

TEST_F(RejectionTest, SaysWhatWasRequested) {
  EXPECT_EQ(policy().allocate(60 * kMiB + 1, 0), nullptr);
  EXPECT_EQ(policy().failure().requested_size, 60 * kMiB + 1);
  EXPECT_EQ(out_of_memory_message(policy().failure(), policy().options(), 0, {}),
            "CUDA out of memory. Allocation was preemptively rejected because it would exceed "
            "per_process_memory_fraction limit. Requested size: 60.00 MiB");
}

// A multiple of 2 MiB near 2^64: what is held and this add up to less than nothing, as in PyTorch,
// and the device has to refuse it.
TEST_F(FractionTest, IsNotFooledByASegmentNear2To64) {
  PolicyOptions options;
  options.conf.rules.large_segment_size = kUnlimited - 2 * kMiB + 1;
  for (const bool expandable : {false, true}) {
    options.conf.rules.expandable_segments = expandable;
    use(100 * kMiB, options);
    static_cast<void>(allocate(1));  // 2 MiB
    policy().set_limit(50 * kMiB);
    EXPECT_EQ(policy().allocate(3 * kMiB, 0), nullptr);
    EXPECT_EQ(policy().held_bytes(), 2 * kMiB);
    EXPECT_EQ(broken_invariant(policy()), "");
  }
}

}  // namespace
}  // namespace fragscope::policy::test
