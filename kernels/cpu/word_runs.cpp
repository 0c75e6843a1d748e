// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/word_runs.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace fragscope::kernels {
namespace {

/// The flags of 64 blocks. Bit i: block i.
struct WordFlags {
  std::uint64_t free = 0;
  std::uint64_t first = 0;
};

/// Where runs end. Bit i: in front of block i.
struct WordEnds {
  std::uint64_t all = 0;
  std::uint64_t whole_segments = 0;  ///< Those that fill their segment.
};

/// The ends among the first `count` blocks; `state`'s flags go from in front of them to behind.
inline WordEnds ends_of(const WordFlags& flags, unsigned count, RunState& state) {
  const std::uint64_t after_free = flags.free << 1 | state.open;
  const std::uint64_t continues = flags.free & ~flags.first & after_free;
  const std::uint64_t begins = flags.free & flags.first;
  // A bit added at the second block of a run is carried to the block behind its last.
  const std::uint64_t carried = (begins << 1 | state.from_segment_begin) + continues;
  const std::uint64_t inside = ~std::uint64_t{0} >> (kWordBlocks - count);
  const std::uint64_t ends = after_free & ~continues & inside;
  state.open = flags.free >> (count - 1) & 1;
  state.from_segment_begin = count < kWordBlocks
                                 ? (carried & ~continues) >> count & 1
                                 : begins >> (kWordBlocks - 1) | (carried < continues ? 1U : 0U);
  return {ends, ends & carried & flags.first};
}

/// Of each block of a word, the free bytes in front of it.
using WordSums = std::array<std::uint64_t, kWordBlocks>;

/// In portable C++, behind either way of taking blocks apart.
inline WordRuns take_ends(const WordSums& sums, const WordEnds& ends, std::uint64_t* bounds) {
  WordRuns runs{ends.all};
  for (std::uint64_t left = ends.all; left != 0; left &= left - 1) {
    const auto block = static_cast<unsigned>(std::countr_zero(left));
    runs.whole |= (ends.whole_segments >> block & 1) << runs.count;
    bounds[runs.count++] = sums[block];
  }
  return runs;
}

/// A second-level cache line of blocks is asked for.
inline void prefetch(const PackedBlock* blocks) {
  __builtin_prefetch(blocks, 0, 2);
}

WordRuns end_runs(const PackedBlock* blocks,
                  unsigned count,
                  const PackedBlock* ahead,
                  RunState& state,
                  std::uint64_t* bounds) {
  WordSums sums;
  WordFlags flags;
  for (unsigned i = 0; i < kWordBlocks; ++i) {
    if (i % 8 == 0) prefetch(ahead + i);
    sums[i] = state.free_bytes;
    state.free_bytes += blocks[i].free_bytes();
    flags.free |= (blocks[i].is_free() ? std::uint64_t{1} : 0) << i;
    flags.first |= (blocks[i].is_first() ? std::uint64_t{1} : 0) << i;
  }
  return take_ends(sums, ends_of(flags, count, state), bounds);
}

void add_runs(const std::uint64_t* bounds,
              const std::uint64_t* whole,
              std::uint64_t begin,
              std::uint64_t end,
              GroupRuns& totals) {
  for (std::uint64_t i = begin; i < end; ++i)
    totals.add_run(run_bytes(bounds[i], bounds[i + 1]), (whole[i / 64] >> i % 64 & 1) != 0);
}

#if defined(__x86_64__)
#define FRAGSCOPE_AVX2 __attribute__((target("avx2")))
#define FRAGSCOPE_AVX512 __attribute__((target("avx512f,avx512dq,bmi2,popcnt")))

/// The top bits of four 64-bit numbers.
FRAGSCOPE_AVX2 inline std::uint64_t top_bits(__m256i four) {
  return static_cast<unsigned>(_mm256_movemask_pd(_mm256_castsi256_pd(four)));
}

// Four blocks at a time. The sums of what is free in front of each: within halves, then from the
// lower half into the upper, then from the blocks before.
FRAGSCOPE_AVX2 WordRuns end_runs_avx2(const PackedBlock* blocks,
                                      unsigned count,
                                      const PackedBlock* ahead,
                                      RunState& state,
                                      std::uint64_t* bounds) {
  const __m256i size_mask = _mm256_set1_epi64x(static_cast<long long>(PackedBlock::kSizeMask));
  const __m256i upper_half = _mm256_set_epi64x(-1, -1, 0, 0);
  __m256i before = _mm256_set1_epi64x(static_cast<long long>(state.free_bytes));
  WordSums sums;
  WordFlags flags;
  for (unsigned i = 0; i < kWordBlocks; i += 4) {
    if (i % 8 == 0) prefetch(ahead + i);
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(blocks + i));
    flags.free |= top_bits(bits) << i;
    flags.first |= top_bits(_mm256_add_epi64(bits, bits)) << i;
    const __m256i is_free =
        _mm256_shuffle_epi32(_mm256_srai_epi32(bits, 31), _MM_SHUFFLE(3, 3, 1, 1));
    const __m256i bytes = _mm256_and_si256(_mm256_and_si256(bits, size_mask), is_free);
    const __m256i in_halves = _mm256_add_epi64(bytes, _mm256_slli_si256(bytes, 8));
    const __m256i lower_half = _mm256_permute4x64_epi64(in_halves, _MM_SHUFFLE(1, 1, 1, 1));
    const __m256i up_to = _mm256_add_epi64(in_halves, _mm256_and_si256(lower_half, upper_half));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(sums.data() + i),
                        _mm256_add_epi64(before, _mm256_sub_epi64(up_to, bytes)));
    before = _mm256_add_epi64(before, _mm256_permute4x64_epi64(up_to, _MM_SHUFFLE(3, 3, 3, 3)));
  }
  state.free_bytes = static_cast<std::uint64_t>(_mm256_extract_epi64(before, 0));
  return take_ends(sums, ends_of(flags, count, state), bounds);
}

// g++ 12 takes some of the plain intrinsics for uses of uninitialized variables; masked with all
// lanes they are the same instructions.
constexpr __mmask8 kAllLanes = 0xff;

/// `kLanes` lanes further down, 0 where there is none.
template <int kLanes>
FRAGSCOPE_AVX512 inline __m512i lanes_down(__m512i lanes) {
  return _mm512_maskz_alignr_epi64(kAllLanes, _mm512_setzero_si512(), lanes, kLanes);
}

/// `kLanes` lanes further up, 0 where there is none.
template <int kLanes>
FRAGSCOPE_AVX512 inline __m512i lanes_up(__m512i lanes) {
  return _mm512_maskz_alignr_epi64(kAllLanes, lanes, _mm512_setzero_si512(), 8 - kLanes);
}

FRAGSCOPE_AVX512 inline __m512i larger(__m512i a, __m512i b) {
  return _mm512_mask_max_epu64(a, kAllLanes, a, b);
}

FRAGSCOPE_AVX512 inline std::uint64_t lowest_lane(__m512i lanes) {
  return static_cast<std::uint64_t>(lanes[0]);
}

FRAGSCOPE_AVX512 inline std::uint64_t top_bits(__m512i sixteen) {
  return static_cast<std::uint16_t>(_mm512_movepi32_mask(sixteen));
}

/// What is free in eight blocks, summed up to and with each, with `before` in front of them in each
/// lane. A free block is a negative number; its flags are summed too, into bits without a meaning.
FRAGSCOPE_AVX512 inline __m512i sums_of(__m512i blocks, __m512i before) {
  __m512i sums = _mm512_mask_min_epi64(blocks, kAllLanes, blocks, _mm512_setzero_si512());
  sums = _mm512_add_epi64(sums, lanes_up<1>(sums));
  sums = _mm512_add_epi64(sums, lanes_up<2>(sums));
  sums = _mm512_add_epi64(sums, lanes_up<4>(sums));
  return _mm512_add_epi64(before, sums);
}

// Eight blocks at a time. The sums are those behind each block, so that ends are looked up one bit
// lower. Sums at ends are moved together and stored whole, the next ones over what was too much.
// Both loops are unrolled: rolled they take half as long again, as all words lie in registers.
FRAGSCOPE_AVX512 WordRuns end_runs_avx512(const PackedBlock* blocks,
                                          unsigned count,
                                          const PackedBlock* ahead,
                                          RunState& state,
                                          std::uint64_t* bounds) {
  const __m512i upper_halves =
      _mm512_set_epi32(31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
  const __m512i last = _mm512_set1_epi64(7);
  __m512i before = _mm512_set1_epi64(static_cast<long long>(state.free_bytes));
  bounds[0] = state.free_bytes;
  __m512i sums[kWordBlocks / 8];  // In registers; a std::array of them warns of lost attributes.
  WordFlags flags;
#pragma GCC unroll 4
  for (std::size_t i = 0; i < kWordBlocks / 16; ++i) {
    const __m512i low = _mm512_loadu_si512(blocks + 16 * i);
    const __m512i high = _mm512_loadu_si512(blocks + 16 * i + 8);
    prefetch(ahead + 16 * i);
    prefetch(ahead + 16 * i + 8);
    const __m512i tops = _mm512_maskz_permutex2var_epi32(0xffff, low, upper_halves, high);
    flags.free |= top_bits(tops) << 16 * i;
    flags.first |= top_bits(_mm512_add_epi32(tops, tops)) << 16 * i;
    sums[2 * i] = sums_of(low, before);
    before = _mm512_maskz_permutexvar_epi64(kAllLanes, last, sums[2 * i]);
    sums[2 * i + 1] = sums_of(high, before);
    before = _mm512_maskz_permutexvar_epi64(kAllLanes, last, sums[2 * i + 1]);
  }
  state.free_bytes = lowest_lane(before);
  const WordEnds ends = ends_of(flags, count, state);
  std::uint64_t* to = bounds + (ends.all & 1);
#pragma GCC unroll 8
  for (std::size_t i = 0; i < kWordBlocks / 8; ++i) {
    const auto here = static_cast<__mmask8>(ends.all >> 1 >> 8 * i);
    _mm512_storeu_si512(to, _mm512_maskz_compress_epi64(here, sums[i]));
    to += std::popcount(static_cast<unsigned>(here));
  }
  return {ends.all,
          _pext_u64(ends.whole_segments, ends.all),
          static_cast<unsigned>(std::popcount(ends.all))};
}

FRAGSCOPE_AVX512 void add_runs_avx512(const std::uint64_t* bounds,
                                      const std::uint64_t* whole,
                                      std::uint64_t begin,
                                      std::uint64_t end,
                                      GroupRuns& totals) {
  const __m512i size_mask = _mm512_set1_epi64(static_cast<long long>(PackedBlock::kSizeMask));
  __m512i largest = _mm512_setzero_si512();
  __m512i in_whole = _mm512_setzero_si512();
  for (std::uint64_t i = begin; i < end; i += 8) {
    const auto here = static_cast<__mmask8>(end - i < 8 ? (1U << (end - i)) - 1 : kAllLanes);
    const __m512i begins = _mm512_maskz_loadu_epi64(here, bounds + i);
    const __m512i ends = _mm512_maskz_loadu_epi64(here, bounds + i + 1);
    const __m512i bytes = _mm512_and_epi64(_mm512_sub_epi64(ends, begins), size_mask);
    largest = larger(largest, bytes);
    std::uint16_t fills = 0;
    std::memcpy(&fills, reinterpret_cast<const char*>(whole) + i / 8, sizeof fills);
    in_whole =
        _mm512_mask_add_epi64(in_whole, static_cast<__mmask8>(fills >> i % 8), in_whole, bytes);
  }
  largest = larger(largest, lanes_down<4>(largest));
  largest = larger(largest, lanes_down<2>(largest));
  largest = larger(largest, lanes_down<1>(largest));
  in_whole = _mm512_add_epi64(in_whole, lanes_down<4>(in_whole));
  in_whole = _mm512_add_epi64(in_whole, lanes_down<2>(in_whole));
  in_whole = _mm512_add_epi64(in_whole, lanes_down<1>(in_whole));
  totals.free_bytes += run_bytes(bounds[begin], bounds[end]);
  totals.largest_run_bytes = std::max(totals.largest_run_bytes, lowest_lane(largest));
  totals.free_segment_bytes += lowest_lane(in_whole);
  totals.runs += end - begin;
}
#endif

std::vector<WordSteps> find_word_steps() {
  std::vector<WordSteps> all{{end_runs, add_runs}};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") != 0) all.push_back({end_runs_avx2, add_runs});
  if (__builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("bmi2") != 0) {
    all.push_back({end_runs_avx512, add_runs_avx512});
  }
#endif
  return all;
}

}  // namespace

const std::vector<WordSteps>& word_steps() {
  static const std::vector<WordSteps> all = find_word_steps();
  return all;
}

}  // namespace fragscope::kernels
