// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/block_word.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace fragscope::kernels {

namespace {

/// In portable C++.
void unpack_word(const PackedBlock* blocks, std::uint64_t& free_bytes, BlockWord& word) {
  word.free = 0;
  word.first = 0;
  std::uint64_t before = free_bytes;
  for (unsigned i = 0; i < kWordBlocks; ++i) {
    word.free_before[i] = before;
    before += blocks[i].free_bytes();
    word.free |= (blocks[i].is_free() ? std::uint64_t{1} : 0) << i;
    word.first |= (blocks[i].is_first() ? std::uint64_t{1} : 0) << i;
  }
  free_bytes = before;
}

#if defined(__x86_64__)
/// The top bits of four 64-bit numbers.
__attribute__((target("avx2"))) inline std::uint64_t top_bits(__m256i four) {
  return static_cast<unsigned>(_mm256_movemask_pd(_mm256_castsi256_pd(four)));
}

// Four blocks at a time. The sums of what is free in front of each: within halves, then from the
// lower half into the upper, then from the blocks before.
__attribute__((target("avx2"))) void unpack_word_avx2(const PackedBlock* blocks,
                                                      std::uint64_t& free_bytes,
                                                      BlockWord& word) {
  const __m256i size_mask = _mm256_set1_epi64x(static_cast<long long>(PackedBlock::kSizeMask));
  const __m256i upper_half = _mm256_set_epi64x(-1, -1, 0, 0);
  __m256i before = _mm256_set1_epi64x(static_cast<long long>(free_bytes));
  std::uint64_t free = 0;
  std::uint64_t first = 0;
  for (unsigned i = 0; i < kWordBlocks; i += 4) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(blocks + i));
    free |= top_bits(bits) << i;
    first |= top_bits(_mm256_add_epi64(bits, bits)) << i;
    const __m256i is_free =
        _mm256_shuffle_epi32(_mm256_srai_epi32(bits, 31), _MM_SHUFFLE(3, 3, 1, 1));
    const __m256i bytes = _mm256_and_si256(_mm256_and_si256(bits, size_mask), is_free);
    const __m256i in_halves = _mm256_add_epi64(bytes, _mm256_slli_si256(bytes, 8));
    const __m256i lower_half = _mm256_permute4x64_epi64(in_halves, _MM_SHUFFLE(1, 1, 1, 1));
    const __m256i up_to = _mm256_add_epi64(in_halves, _mm256_and_si256(lower_half, upper_half));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(word.free_before.data() + i),
                        _mm256_add_epi64(before, _mm256_sub_epi64(up_to, bytes)));
    before = _mm256_add_epi64(before, _mm256_permute4x64_epi64(up_to, _MM_SHUFFLE(3, 3, 3, 3)));
  }
  word.free = free;
  word.first = first;
  free_bytes = static_cast<std::uint64_t>(_mm256_extract_epi64(before, 0));
}

// Eight blocks at a time: sums over one, two and four of them, then from the blocks before.
__attribute__((target("avx512f,avx512dq"))) void unpack_word_avx512(const PackedBlock* blocks,
                                                                    std::uint64_t& free_bytes,
                                                                    BlockWord& word) {
  const __m512i size_mask = _mm512_set1_epi64(static_cast<long long>(PackedBlock::kSizeMask));
  // Which block's sum each one takes over; masks keep off those that have none. All of it is
  // masked, as g++ 12 takes the plain intrinsics for uses of uninitialized variables.
  const __m512i one_before = _mm512_set_epi64(6, 5, 4, 3, 2, 1, 0, 0);
  const __m512i two_before = _mm512_set_epi64(5, 4, 3, 2, 1, 0, 0, 0);
  const __m512i four_before = _mm512_set_epi64(3, 2, 1, 0, 0, 0, 0, 0);
  const __m512i last = _mm512_set1_epi64(7);
  __m512i before = _mm512_set1_epi64(static_cast<long long>(free_bytes));
  std::uint64_t free = 0;
  std::uint64_t first = 0;
  for (unsigned i = 0; i < kWordBlocks; i += 8) {
    const __m512i bits = _mm512_loadu_si512(blocks + i);
    const __mmask8 is_free = _mm512_movepi64_mask(bits);
    const __mmask8 is_first = _mm512_movepi64_mask(_mm512_add_epi64(bits, bits));
    free |= std::uint64_t{is_free} << i;
    first |= std::uint64_t{is_first} << i;
    const __m512i bytes = _mm512_maskz_and_epi64(is_free, bits, size_mask);
    __m512i up_to =
        _mm512_add_epi64(bytes, _mm512_maskz_permutexvar_epi64(0xfe, one_before, bytes));
    up_to = _mm512_add_epi64(up_to, _mm512_maskz_permutexvar_epi64(0xfc, two_before, up_to));
    up_to = _mm512_add_epi64(up_to, _mm512_maskz_permutexvar_epi64(0xf0, four_before, up_to));
    _mm512_storeu_si512(word.free_before.data() + i,
                        _mm512_add_epi64(before, _mm512_sub_epi64(up_to, bytes)));
    before = _mm512_add_epi64(before, _mm512_maskz_permutexvar_epi64(0xff, last, up_to));
  }
  word.free = free;
  word.first = first;
  free_bytes = word.free_before[kWordBlocks - 1] + blocks[kWordBlocks - 1].free_bytes();
}

}  // namespace

std::vector<UnpackWord> unpack_words() {
  std::vector<UnpackWord> all{unpack_word};
  if (__builtin_cpu_supports("avx2") != 0) all.push_back(unpack_word_avx2);
  if (__builtin_cpu_supports("avx512dq") != 0) all.push_back(unpack_word_avx512);
  return all;
}
#else
}  // namespace

std::vector<UnpackWord> unpack_words() {
  return {unpack_word};
}
#endif

UnpackWord fastest_unpack_word() {
  static const UnpackWord fastest = unpack_words().back();
  return fastest;
}

}  // namespace fragscope::kernels
