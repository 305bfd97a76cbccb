/* A part of runtime.c: inputs and sums with AVX-512. */
#ifndef BITSPIKE_RUNTIME_AVX512_H
#define BITSPIKE_RUNTIME_AVX512_H

#include <immintrin.h>

#include "runtime_kernels.h"

#define AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,bmi,popcnt")))

/* counts[0 .. 16) += times * bytes. */
AVX512 static inline void widen_avx512(__m128i bytes, int32_t times, int fresh, int32_t *counts)
{
    __m512i count = _mm512_cvtepu8_epi32(bytes);
    if (times != 1)
        count = _mm512_mullo_epi32(count, _mm512_set1_epi32(times));
    if (!fresh)
        count = _mm512_add_epi32(count, _mm512_loadu_si512(counts));
    _mm512_storeu_si512(counts, count);
}

/* The counters of 64 lanes as bytes, from `used` <= 8 of their binary digits; digit k is 8 bytes at digits + 64 * k. */
AVX512 static inline __m512i bytes_avx512(const char *digits, uint32_t used)
{
    __m512i bytes = _mm512_setzero_si512();
    uint64_t lanes;
#define DIGIT(k, more) \
    if (used > k) { \
        memcpy(&lanes, digits + 64 * k, 8); \
        bytes = _mm512_mask_add_epi8(bytes, _cvtu64_mask64(lanes), bytes, _mm512_set1_epi8((char)(1u << k))); \
        more \
    }
    DIGIT(0, DIGIT(1, DIGIT(2, DIGIT(3, DIGIT(4, DIGIT(5, DIGIT(6, DIGIT(7, ))))))))
#undef DIGIT
    return bytes;
}

AVX512 static inline void widen_all_avx512(__m512i bytes, int32_t times, int fresh, int32_t *counts)
{
    widen_avx512(_mm512_castsi512_si128(bytes), times, fresh, counts);
    widen_avx512(_mm512_extracti32x4_epi32(bytes, 1), times, fresh, counts + 16);
    widen_avx512(_mm512_extracti32x4_epi32(bytes, 2), times, fresh, counts + 32);
    widen_avx512(_mm512_extracti32x4_epi32(bytes, 3), times, fresh, counts + 48);
}

AVX512 static inline void expand_avx512(const __m512i *digits, uint32_t used, uint32_t words, int32_t times, int fresh,
                                        int32_t *counts)
{
    for (uint32_t g = 0; 2 * g < words; g++) {
        const char *from = (const char *)digits + 8 * g;
        widen_all_avx512(bytes_avx512(from, used < 8 ? used : 8), times, fresh, counts + 64 * g);
        if (used > 8)
            widen_all_avx512(bytes_avx512(from + 64 * 8, DIGITS - 8), 256 * times, 0, counts + 64 * g);
    }
}

#define NAME(x) x##_avx512
#define TARGET AVX512
#define WORDS 16
#define Vector __m512i
#define ZERO _mm512_setzero_si512()
#define ONES(word) (uint32_t)__builtin_popcount(word)
#define LOAD(from, words) _mm512_maskz_loadu_epi32((__mmask16)((1u << (words)) - 1), from)
#define SUM(a, b, c) _mm512_ternarylogic_epi64(a, b, c, 0x96)
#define CARRY(a, b, c) _mm512_ternarylogic_epi64(a, b, c, 0xE8)
#include "runtime_rows.h"
#include "runtime_loops.h"
#include "runtime_undef.h"

/* Rows of up to 64 bits. */
AVX512 static inline void expand_narrow_avx512(const uint64_t *digits, uint32_t used, uint32_t words, int32_t times,
                                               int fresh, int32_t *counts)
{
    __m512i bytes[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
    (void)words;
    for (uint32_t k = 0; k < used; k++)
        bytes[k / 8] = _mm512_mask_add_epi8(bytes[k / 8], (__mmask64)digits[k], bytes[k / 8],
                                            _mm512_set1_epi8((char)(1u << k % 8)));
    widen_all_avx512(bytes[0], times, fresh, counts);
    if (used > 8)
        widen_all_avx512(bytes[1], 256 * times, 0, counts);
}

static inline uint64_t load_narrow(const uint32_t *from, uint32_t words)
{
    uint64_t row;
    if (words == 1)
        return *from;
    memcpy(&row, from, sizeof row);
    return row;
}

#define NAME(x) x##_narrow_avx512
#define TARGET AVX512
#define WORDS 2
#define Vector uint64_t
#define ZERO 0u
#define LOAD(from, words) load_narrow(from, words)
#define SUM(a, b, c) ((a) ^ (b) ^ (c))
#define CARRY(a, b, c) (((a) & (b)) | ((c) & ((a) ^ (b))))
#include "runtime_rows.h"
#include "runtime_undef.h"

static void any_rows_avx512(const uint32_t *rows, uint32_t words, const uint32_t *list, uint32_t n, int32_t times,
                            int fresh, int32_t *counts)
{
    (words <= 2 ? add_rows_narrow_avx512 : add_rows_avx512)(rows, words, list, n, times, fresh, counts);
}

static void any_planes_avx512(const Rows *rows, int32_t *counts)
{
    (rows->words <= 2 ? add_planes_narrow_avx512 : add_planes_avx512)(rows, counts);
}

AVX512 static int plane_floats_avx512(const float *frame, uint32_t n, Target to)
{
    const __m512i most = _mm512_set1_epi32((int)((1u << to.planes) - 1));
    __m512i all = _mm512_setzero_si512();
    for (uint32_t i = 0; i < n; i += 16) {
        const __mmask16 live = n - i < 16 ? (__mmask16)((1u << (n - i)) - 1) : (__mmask16)0xFFFF;
        const __m512 value = _mm512_maskz_loadu_ps(live, frame + i);
        const __m512i count = _mm512_cvttps_epi32(value);
        uint16_t bits = (uint16_t)_mm512_test_epi32_mask(count, _mm512_set1_epi32(1));
        if (_mm512_cmp_ps_mask(_mm512_cvtepi32_ps(count), value, _CMP_NEQ_UQ) | _mm512_cmpgt_epu32_mask(count, most))
            return -1;
        memcpy((char *)to.bits + i / 8, &bits, sizeof bits);
        all = _mm512_or_si512(all, count);
        if (_mm512_cmpgt_epu32_mask(count, _mm512_set1_epi32(1)))
            for (uint32_t p = 1; p < to.planes; p++) {
                bits = (uint16_t)_mm512_test_epi32_mask(count, _mm512_set1_epi32((int)(1u << p)));
                memcpy((char *)(to.bits + p * to.words) + i / 8, &bits, sizeof bits);
            }
    }
    return digits_of((uint32_t)_mm512_reduce_or_epi32(all));
}

AVX512 static int plane_bytes_avx512(const uint8_t *frame, uint32_t n, Target to)
{
    const __m512i most = _mm512_set1_epi8((char)((1u << to.planes) - 1)), one = _mm512_set1_epi8(1);
    uint32_t all = 0;
    for (uint32_t i = 0; i < n; i += 64) {
        const __mmask64 live = n - i < 64 ? ((__mmask64)1 << (n - i)) - 1 : ~(__mmask64)0;
        const uint32_t size = 4 * to.words - i / 8 < 8 ? 4 * to.words - i / 8 : 8;
        const __m512i count = _mm512_maskz_loadu_epi8(live, frame + i);
        uint64_t bits = _mm512_test_epi8_mask(count, one);
        memcpy((char *)to.bits + i / 8, &bits, size);
        all |= bits != 0;
        if (!_mm512_cmpgt_epu8_mask(count, one))
            continue;
        if (_mm512_cmpgt_epu8_mask(count, most))
            return -1;
        for (uint32_t p = 1; p < to.planes; p++) {
            bits = _mm512_test_epi8_mask(count, _mm512_set1_epi8((char)(1u << p)));
            memcpy((char *)(to.bits + p * to.words) + i / 8, &bits, size);
            all |= (uint32_t)(bits != 0) << p;
        }
    }
    return digits_of(all);
}

__attribute__((target("avx512f,avx512bw,avx512vpopcntdq"))) static uint32_t
count_shared_avx512(const uint32_t *rows, uint32_t words, uint32_t n, const uint32_t *bits, int32_t times, int fresh,
                    int32_t *counts)
{
    __m512i set = _mm512_setzero_si512();
    for (uint32_t w = 0; w < words; w += 16) {
        const __mmask16 live = words - w < 16 ? (__mmask16)((1u << (words - w)) - 1) : (__mmask16)0xFFFF;
        set = _mm512_add_epi32(set, _mm512_popcnt_epi32(_mm512_maskz_loadu_epi32(live, bits + w)));
    }
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t *row = rows + (size_t)i * words;
        __m512i sum = _mm512_setzero_si512();
        for (uint32_t w = 0; w < words; w += 16) {
            const __mmask16 live = words - w < 16 ? (__mmask16)((1u << (words - w)) - 1) : (__mmask16)0xFFFF;
            const __m512i shared = _mm512_and_si512(_mm512_maskz_loadu_epi32(live, bits + w),
                                                    _mm512_maskz_loadu_epi32(live, row + w));
            sum = _mm512_add_epi32(sum, _mm512_popcnt_epi32(shared));
        }
        counts[i] = (fresh ? 0 : counts[i]) + times * _mm512_reduce_add_epi32(sum);
    }
    return (uint32_t)_mm512_reduce_add_epi32(set);
}

/* Writes up to 15 behind the last. */
AVX512 static uint32_t list_bits_avx512(const uint32_t *bits, uint32_t from, uint32_t many, uint32_t base,
                                        uint32_t *list)
{
    __m512i place = _mm512_add_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                                     _mm512_set1_epi32((int)base));
    uint32_t n = 0;
    for (uint32_t i = 0; i < many; i += 32) {
        const uint32_t word = bits_at(bits, from + i, many - i < 32 ? many - i : 32);
        if (!word) {
            place = _mm512_add_epi32(place, _mm512_set1_epi32(32));
            continue;
        }
        _mm512_storeu_si512(list + n, _mm512_maskz_compress_epi32((__mmask16)word, place));
        n += (uint32_t)__builtin_popcount(word & 0xFFFFu);
        place = _mm512_add_epi32(place, _mm512_set1_epi32(16));
        _mm512_storeu_si512(list + n, _mm512_maskz_compress_epi32((__mmask16)(word >> 16), place));
        n += (uint32_t)__builtin_popcount(word >> 16);
        place = _mm512_add_epi32(place, _mm512_set1_epi32(16));
    }
    return n;
}

/* sum +- value, as the bits say: the sum waits for one addition only. */
AVX512 static inline __m512d add_real_avx512(__m512d sum, __m512d value, uint32_t bits)
{
    const __m512d minus = _mm512_sub_pd(_mm512_setzero_pd(), value);
    return _mm512_add_pd(sum, _mm512_mask_mov_pd(minus, (__mmask8)bits, value));
}

AVX512 static void add_reals_avx512(const uint32_t *rows, uint32_t words, const uint32_t *list, const float *values,
                                    uint32_t n, uint32_t lanes, double *sums)
{
    for (uint32_t j = 0; j < lanes; j += 16) {
        __m512d one = _mm512_loadu_pd(sums + j), other = _mm512_loadu_pd(sums + j + 8);
        for (size_t i = 0; i < n; i++) {
            const uint32_t row = rows[(size_t)list[i] * words] >> j;
            const __m512d value = _mm512_set1_pd((double)values[i]);
            one = add_real_avx512(one, value, row);
            other = add_real_avx512(other, value, row >> 8);
        }
        _mm512_storeu_pd(sums + j, one);
        _mm512_storeu_pd(sums + j + 8, other);
    }
}

#endif
