/* A part of runtime.c: the kernels for AVX2. */
#ifndef BITSPIKE_RUNTIME_AVX2_H
#define BITSPIKE_RUNTIME_AVX2_H

#include <immintrin.h>

#include "runtime_kernels.h"
#include "runtime_portable.h"

#define AVX2 __attribute__((target("avx2,bmi,popcnt")))

/* 1 in each of 32 bytes whose bit is set, as 0xFF. */
AVX2 static inline __m256i bytes_avx2(uint32_t bits)
{
    const __m256i spread = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3,
                                            3, 3, 3, 3, 3, 3);
    const __m256i bit = _mm256_set1_epi64x((long long)0x8040201008040201u);
    return _mm256_cmpeq_epi8(_mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32((int)bits), spread), bit), bit);
}

/* counts[0 .. 32) += times * bytes, whose `used` <= 8 binary digits are 4 bytes each at digits + 32 * k. */
AVX2 static inline void widen_avx2(const char *digits, uint32_t used, int32_t times, int fresh, int32_t *counts)
{
    __m256i bytes = _mm256_setzero_si256();
    uint8_t part[32];
    for (uint32_t k = 0; k < used; k++) {
        uint32_t lanes;
        memcpy(&lanes, digits + 32 * k, 4);
        bytes = _mm256_or_si256(bytes, _mm256_and_si256(bytes_avx2(lanes), _mm256_set1_epi8((char)(1u << k))));
    }
    _mm256_storeu_si256((__m256i *)part, bytes);
    for (int q = 0; q < 4; q++) {
        __m256i *to = (__m256i *)(counts + 8 * q);
        __m256i count = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(part + 8 * q)));
        count = _mm256_mullo_epi32(count, _mm256_set1_epi32(times));
        _mm256_storeu_si256(to, fresh ? count : _mm256_add_epi32(count, _mm256_loadu_si256(to)));
    }
}

AVX2 static inline void expand_avx2(const __m256i *digits, uint32_t used, uint32_t words, int32_t times, int fresh,
                                    int32_t *counts)
{
    for (uint32_t g = 0; g < words; g++) {
        const char *from = (const char *)digits + 4 * g;
        widen_avx2(from, used < 8 ? used : 8, times, fresh, counts + 32 * g);
        if (used > 8)
            widen_avx2(from + 32 * 8, DIGITS - 8, 256 * times, 0, counts + 32 * g);
    }
}

AVX2 static inline __m256i load_avx2(const uint32_t *from, uint32_t words)
{
    const __m256i place = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    if (words == 8)
        return _mm256_loadu_si256((const __m256i *)from);
    return _mm256_maskload_epi32((const int *)from, _mm256_cmpgt_epi32(_mm256_set1_epi32((int)words), place));
}

#define NAME(x) x##_avx2
#define TARGET AVX2
#define WORDS 8
#define Vector __m256i
#define ZERO _mm256_setzero_si256()
#define ONES(word) (uint32_t)__builtin_popcount(word)
#define LOAD(from, words) load_avx2(from, words)
#define SUM(a, b, c) ((a) ^ (b) ^ (c))
#define CARRY(a, b, c) (((a) & (b)) | ((c) & ((a) ^ (b))))
#include "runtime_rows.h"
#include "runtime_loops.h"
#include "runtime_undef.h"

AVX2 static int plane_floats_avx2(const float *frame, uint32_t n, Target to)
{
    const __m256i most = _mm256_set1_epi32((int)((1u << to.planes) - 1));
    uint32_t all = 0;
    for (uint32_t i = 0; i < n; i += 8) {
        uint8_t *bits = (uint8_t *)to.bits + i / 8;
        __m256 value;
        __m256i count, wrong;
        if (n - i < 8) {
            const Target rest = {to.bits + i / 32, to.words, to.planes};
            for (uint32_t j = i; j < n; j++) {
                const int32_t one = count_of(frame[j] == 0.0f ? 0.0f : frame[j], to.planes);
                if (one < 0)
                    return -1;
                set_count(rest, j % 32, (uint32_t)one);
                all |= (uint32_t)one;
            }
            break;
        }
        value = _mm256_loadu_ps(frame + i);
        count = _mm256_cvttps_epi32(value);
        wrong = _mm256_or_si256(_mm256_castps_si256(_mm256_cmp_ps(_mm256_cvtepi32_ps(count), value, _CMP_NEQ_UQ)),
                                _mm256_or_si256(_mm256_cmpgt_epi32(count, most), _mm256_srai_epi32(count, 31)));
        if (!_mm256_testz_si256(wrong, wrong))
            return -1;
        if (_mm256_testz_si256(count, count))
            continue;
        for (uint32_t p = 0; p < to.planes; p++, bits += 4 * to.words) {
            *bits = (uint8_t)_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_slli_epi32(count, 31 - (int)p)));
            all |= (uint32_t)(*bits != 0) << p;
        }
    }
    return digits_of(all);
}

AVX2 static inline __m256 current_avx2(const Firing *f, uint32_t i)
{
    __m256i sum;
    __m256 c;
    if (f->current)
        return _mm256_loadu_ps(f->current + i);
    sum = _mm256_loadu_si256((const __m256i *)(f->counts + i));
    c = _mm256_cvtepi32_ps(_mm256_sub_epi32(_mm256_add_epi32(sum, sum), _mm256_set1_epi32(f->less)));
    if (f->bias)
        c = _mm256_add_ps(c, _mm256_loadu_ps(f->bias + i));
    if (f->scale)
        c = _mm256_add_ps(_mm256_mul_ps(c, _mm256_loadu_ps(f->scale + i)), _mm256_loadu_ps(f->offset + i));
    return c;
}

/* 32 neurons at a time; the rest is left to portable C. */
AVX2 static void fire_avx2(const Firing *f)
{
    const __m256i bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    uint32_t i = 0;
    if (f->a || !f->theta) {
        fire_from(f, 0);
        return;
    }
    for (; i < f->n / 32 * 32; i += 8) {
        const __m256 decay = f->beta_step ? _mm256_loadu_ps(f->beta + i) : _mm256_set1_ps(*f->beta);
        const __m256 threshold = f->theta_step ? _mm256_loadu_ps(f->theta + i) : _mm256_set1_ps(*f->theta);
        uint8_t *bits = (uint8_t *)f->z + i / 8;
        const __m256i fired = _mm256_and_si256(_mm256_set1_epi32(*bits), bit);
        __m256 u = _mm256_mul_ps(decay, _mm256_loadu_ps(f->u + i));
        u = _mm256_add_ps(u, current_avx2(f, i));
        if (f->feedback)
            u = _mm256_add_ps(u, _mm256_loadu_ps(f->feedback + i));
        u = _mm256_sub_ps(u, _mm256_and_ps(threshold, _mm256_castsi256_ps(_mm256_cmpeq_epi32(fired, bit))));
        *bits = (uint8_t)_mm256_movemask_ps(_mm256_cmp_ps(u, threshold, _CMP_GE_OQ));
        _mm256_storeu_ps(f->u + i, u);
    }
    fire_from(f, i);
}

#endif
