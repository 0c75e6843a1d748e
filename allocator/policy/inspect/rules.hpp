// SPDX-License-Identifier: Apache-2.0
// The rules of PyTorch's allocator by the numbers of docs/policy.md, and how often each was used.
// Counting is compiled in for tests only (FRAGSCOPE_COUNT_RULES); elsewhere `count_rule` is
// nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace fragscope::policy {

// Each rule: its name, its number, what it says.
#define FRAGSCOPE_RULES(RULE)                                                                 \
  RULE(kBeyondAnExbibyte, "1.1", "a request of 1 EiB or more is refused at once")             \
  RULE(kAsksForEvents, "1.2", "a request asks for the events of pending frees")               \
  RULE(kAsksNothingInCapture, "1.3", "... but not in a capture")                              \
  RULE(kRoundMinimum, "2.1", "below 512 bytes a block has 512")                               \
  RULE(kRoundDivisions, "2.2", "rounding to power-of-two divisions")                          \
  RULE(kRoundPlain, "2.3", "rounding to 512 bytes")                                           \
  RULE(kSmallSegment, "2.4", "a small request asks the device for 2 MiB")                     \
  RULE(kLargeSegment, "2.5", "below 10 MiB for large_segment_size")                           \
  RULE(kOwnSegment, "2.6", "from 10 MiB on for itself, in 2 MiB")                             \
  RULE(kPoolByScope, "3.1", "an open scope sends the request to its pool")                    \
  RULE(kPoolByOneOfMany, "3.2", "of several open scopes one is chosen by order")              \
  RULE(kScopeElsewhere, "3.3", "no open scope accepts the stream: the default pool")          \
  RULE(kHit, "4.1", "best fit on the request's own stream")                                   \
  RULE(kMissOnStream, "4.2", "no large enough block on this stream")                          \
  RULE(kAmongEquals, "4.3", "among blocks of one size the order decides")                     \
  RULE(kGrowingEndLast, "4.4", "an expandable block that reaches less far is preferred")      \
  RULE(kSkipsExpandable, "4.5", "a plain request passes expandable blocks over")              \
  RULE(kOversizeKept, "4.6", "an oversize block is refused to a smaller request")             \
  RULE(kOversizeWaste, "4.7", "... and to one that would waste too much")                     \
  RULE(kAtAddress, "4.8", "a request for an address gets it out of the free block around it") \
  RULE(kGivesFrontBack, "4.9", "... what is in front is handed out, and given back behind")   \
  RULE(kSplitFine, "5.1", "a small or expandable block is split from 512 bytes on")           \
  RULE(kSplitLarge, "5.2", "a large block is split if more than 1 MiB remains")               \
  RULE(kKeptWhole, "5.3", "otherwise the request gets all of it")                             \
  RULE(kOversizeUnsplit, "5.4", "a request of max_split_size or more splits nothing")         \
  RULE(kNoSplit, "5.5", "a pool with no_split splits nothing")                                \
  RULE(kLimit, "6.1", "the limit forbids asking the device")                                  \
  RULE(kRejected, "6.2", "throw_on_cudamalloc_oom refuses the request")                       \
  RULE(kNewSegment, "6.3", "a segment from the device")                                       \
  RULE(kOwnSource, "6.4", "a segment from a pool's own allocator")                            \
  RULE(kDeviceEmpty, "6.5", "the device has none")                                            \
  RULE(kLend, "6.6", "a pool with use_on_oom lends")                                          \
  RULE(kReleaseOneOversize, "6.7", "one oversize block goes back for the request")            \
  RULE(kReleaseManyOversize, "6.8", "several do, from the largest down")                      \
  RULE(kReleaseTooFewOversize, "6.9", "... and they are not enough")                          \
  RULE(kRetry, "6.10", "all that is cached goes back and the device is asked once more")      \
  RULE(kNoRetryInCapture, "6.11", "... but not in a capture")                                 \
  RULE(kOutOfMemory, "6.12", "the request fails")                                             \
  RULE(kFreeAtOnce, "7.1", "a block that one stream used is free at once")                    \
  RULE(kFreePending, "7.2", "one that others used waits for their events")                    \
  RULE(kFreeDeferred, "7.3", "... in a capture only for its end")                             \
  RULE(kForgetsCaptureUse, "7.4", "what a capture recorded is not waited for")                \
  RULE(kReuseInCapture, "7.11", "... or until later work in the graph comes after all uses")  \
  RULE(kEventDone, "7.5", "an event has passed")                                              \
  RULE(kEventOpen, "7.6", "one has not: the stream's later ones are not asked for")           \
  RULE(kMergePrev, "7.7", "a free block joins the one in front")                              \
  RULE(kMergeNext, "7.8", "... the one behind")                                               \
  RULE(kMergeNone, "7.9", "... or none")                                                      \
  RULE(kOwnStreamUse, "7.10", "use on its own stream is no use")                              \
  RULE(kEmptyCache, "8.1", "empty_cache")                                                     \
  RULE(kReleaseSegment, "8.2", "an unsplit free segment goes back")                           \
  RULE(kKeepSplit, "8.3", "a split one stays")                                                \
  RULE(kReleaseFreeablePool, "8.4", "a pool without users gives back")                        \
  RULE(kForgetPool, "8.5", "... and is forgotten once it holds nothing")                      \
  RULE(kKeepUsedPool, "8.6", "a pool with users gives nothing back")                          \
  RULE(kKeepDefaultInCapture, "8.7", "in a capture the default pool gives nothing back")      \
  RULE(kBelowThreshold, "8.8", "garbage collection below its threshold does nothing")         \
  RULE(kCollect, "8.9", "blocks idle for longer than the average go back")                    \
  RULE(kReserve, "9.1", "address space for an expandable segment")                            \
  RULE(kReserveTooSmall, "9.2", "... which is too small for the request")                     \
  RULE(kMap, "9.3", "pages are mapped for a request")                                         \
  RULE(kMapMore, "9.4", "... behind a free block, or in several steps")                       \
  RULE(kMapFails, "9.5", "mapping finds the device empty")                                    \
  RULE(kUnmap, "9.6", "the pages inside a free block go back")                                \
  RULE(kUnmapEnds, "9.7", "... its ends stay")                                                \
  RULE(kUnmapNothing, "9.8", "a block without a whole page stays")                            \
  RULE(kReleaseAddresses, "9.9", "an empty expandable segment gives its addresses back")      \
  RULE(kNotExpandable, "9.10", "a pool with its own allocator has no expandable segments")

enum class Rule : std::uint8_t {
#define FRAGSCOPE_RULE_NAME(name, number, text) name,
  FRAGSCOPE_RULES(FRAGSCOPE_RULE_NAME)
#undef FRAGSCOPE_RULE_NAME
};

struct RuleText {
  std::string_view number;
  std::string_view text;
};

inline constexpr auto kRuleTexts = std::to_array<RuleText>({
#define FRAGSCOPE_RULE_TEXT(name, number, text) {number, text},
    FRAGSCOPE_RULES(FRAGSCOPE_RULE_TEXT)
#undef FRAGSCOPE_RULE_TEXT
});
inline constexpr std::size_t kRuleCount = kRuleTexts.size();

#ifdef FRAGSCOPE_COUNT_RULES
inline constexpr bool kCountsRules = true;
/// By `Rule`; of the whole process, one thread.
inline std::array<std::uint64_t, kRuleCount> rule_counts{};
inline void count_rule(Rule rule) {
  ++rule_counts[static_cast<std::size_t>(rule)];
}
#else
inline constexpr bool kCountsRules = false;
constexpr void count_rule(Rule /*rule*/) {}
#endif

}  // namespace fragscope::policy
