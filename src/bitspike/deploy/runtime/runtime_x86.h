/* A part of runtime.c: the kernels for x86-64 with AVX2 or AVX-512, chosen when they run. The same bits come out. */
#ifndef BITSPIKE_RUNTIME_X86_H
#define BITSPIKE_RUNTIME_X86_H

#include <immintrin.h>

#include "runtime_kernels.h"

#define AVX2 __attribute__((target("avx2,bmi,popcnt")))
#define AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,bmi,popcnt")))

/* ---- AVX-512 ---- */

/* counts[0 .. 64) += times * bytes. */
AVX512 static inline void widen_avx512(__m512i bytes, int32_t times, int fresh, int32_t *counts)
{
    uint8_t part[64];
    _mm512_storeu_si512(part, bytes);
    for (int q = 0; q < 4; q++) {
        __m512i count = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(part + 16 * q)));
        if (times != 1)
            count = _mm512_mullo_epi32(count, _mm512_set1_epi32(times));
        if (!fresh)
            count = _mm512_add_epi32(count, _mm512_loadu_si512(counts + 16 * q));
        _mm512_storeu_si512(counts + 16 * q, count);
    }
}

AVX512 static inline void expand_avx512(const __m512i *digits, uint32_t used, uint32_t words, int32_t times, int fresh,
                                        int32_t *counts)
{
    for (uint32_t g = 0; 2 * g < words; g++) {
        __m512i bytes = _mm512_setzero_si512();
        for (uint32_t k = used; k-- > 0;) {
            uint64_t lanes;
            memcpy(&lanes, (const char *)(digits + k) + 8 * g, 8);
            bytes = _mm512_add_epi8(bytes, bytes);
            bytes = _mm512_mask_add_epi8(bytes, (__mmask64)lanes, bytes, _mm512_set1_epi8(1));
        }
        widen_avx512(bytes, times, fresh, counts + 64 * g);
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
#include "runtime_undef.h"

/* Rows of up to 64 bits. */
AVX512 static inline void expand_narrow_avx512(const uint64_t *digits, uint32_t used, uint32_t words, int32_t times,
                                               int fresh, int32_t *counts)
{
    __m512i bytes = _mm512_setzero_si512();
    (void)words;
    for (uint32_t k = 0; k < used; k++)
        bytes = _mm512_mask_add_epi8(bytes, (__mmask64)digits[k], bytes, _mm512_set1_epi8((char)(1u << k)));
    widen_avx512(bytes, times, fresh, counts);
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
#define ROWS_ONLY
#include "runtime_rows.h"
#undef ROWS_ONLY
#include "runtime_undef.h"

static void any_rows_avx512(const uint32_t *rows, uint32_t words, const uint32_t *list, uint32_t n, int32_t times,
                            int fresh, int32_t *counts)
{
    (words <= 2 ? add_rows_narrow_avx512 : add_rows_avx512)(rows, words, list, n, times, fresh, counts);
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
AVX512 static uint32_t list_bits_avx512(const uint32_t *bits, uint32_t from, uint32_t many, uint32_t *list)
{
    __m512i place = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
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

/* sum +- value, as the bits say. */
AVX512 static inline __m512d add_real_avx512(__m512d sum, __m512d value, uint32_t bits)
{
    return _mm512_mask_add_pd(_mm512_sub_pd(sum, value), (__mmask8)bits, sum, value);
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

AVX512 static inline __m512 each_avx512(__mmask16 live, const float *from, uint32_t step, uint32_t i)
{
    return step ? _mm512_maskz_loadu_ps(live, from + i) : _mm512_set1_ps(*from);
}

AVX512 static inline __m512 current_avx512(const Firing *f, __mmask16 live, uint32_t i)
{
    __m512i sum;
    __m512 c;
    if (f->current)
        return _mm512_maskz_loadu_ps(live, f->current + i);
    sum = _mm512_loadu_si512(f->counts + i); /* filled up to whole vectors */
    c = _mm512_cvtepi32_ps(_mm512_sub_epi32(_mm512_add_epi32(sum, sum), _mm512_set1_epi32(f->less)));
    if (f->bias)
        c = _mm512_add_ps(c, _mm512_maskz_loadu_ps(live, f->bias + i));
    if (f->scale) {
        c = _mm512_mul_ps(c, _mm512_maskz_loadu_ps(live, f->scale + i));
        c = _mm512_add_ps(c, _mm512_maskz_loadu_ps(live, f->offset + i));
    }
    return c;
}

/* What is known of all neurons before the loop, so that it needs no branches. */
enum { PLAIN = 1 /* they fire, without feedback and adaptation, all with one decay and one threshold */,
       GIVEN = 2 /* their current is */,
       COUNTED = 4 /* it is 2 * counts - less, and nothing more */ };

AVX512 static inline __attribute__((always_inline)) void
fire_some(const Firing *f, uint16_t *z, __mmask16 live, uint32_t i, const int known)
{
    const __m512 decay = each_avx512(live, f->beta, known & PLAIN ? 0 : f->beta_step, i);
    const __mmask16 fired = *z;
    __m512 threshold, u = _mm512_mul_ps(decay, _mm512_maskz_loadu_ps(live, f->u + i));
    if (known & COUNTED) {
        const __m512i sum = _mm512_loadu_si512(f->counts + i);
        const __m512i twice = _mm512_sub_epi32(_mm512_add_epi32(sum, sum), _mm512_set1_epi32(f->less));
        u = _mm512_add_ps(u, _mm512_cvtepi32_ps(twice));
    } else if (known & GIVEN) {
        u = _mm512_add_ps(u, _mm512_maskz_loadu_ps(live, f->current + i));
    } else {
        u = _mm512_add_ps(u, current_avx512(f, live, i));
    }
    if (known & PLAIN || f->theta) {
        if (!(known & PLAIN) && f->feedback)
            u = _mm512_add_ps(u, _mm512_maskz_loadu_ps(live, f->feedback + i));
        threshold = each_avx512(live, f->theta, known & PLAIN ? 0 : f->theta_step, i);
        if (known & PLAIN || !f->a) {
            u = _mm512_mask_sub_ps(u, fired, u, threshold);
        } else {
            const __m512 theta = threshold, strength = _mm512_set1_ps(f->strength);
            __m512 a = _mm512_maskz_loadu_ps(live, f->a + i);
            u = _mm512_mask_sub_ps(u, fired, u, _mm512_add_ps(theta, _mm512_mul_ps(strength, a)));
            a = _mm512_mul_ps(_mm512_set1_ps(f->rho), a);
            a = _mm512_mask_add_ps(a, fired, a, _mm512_set1_ps(f->rest));
            _mm512_mask_storeu_ps(f->a + i, live, a);
            threshold = _mm512_add_ps(theta, _mm512_mul_ps(strength, a));
        }
        *z = (uint16_t)_mm512_mask_cmp_ps_mask(live, u, threshold, _CMP_GE_OQ);
    }
    _mm512_mask_storeu_ps(f->u + i, live, u);
}

/* All neurons, 32 at a time, the rest with a mask. */
AVX512 static inline __attribute__((always_inline)) void fire_all(const Firing *given, const int known)
{
    const Firing f = *given; /* a copy that no store can change */
    for (uint32_t i = 0; i < f.n; i += 32) {
        uint16_t z[2];
        memcpy(z, (char *)f.z + i / 8, sizeof z);
        if (f.n - i >= 32) {
            fire_some(&f, z, 0xFFFF, i, known);
            fire_some(&f, z + 1, 0xFFFF, i + 16, known);
        } else {
            const uint32_t live = (1u << (f.n - i)) - 1;
            fire_some(&f, z, (__mmask16)live, i, known);
            fire_some(&f, z + 1, (__mmask16)(live >> 16), i + 16, known);
        }
        memcpy((char *)f.z + i / 8, z, sizeof z);
    }
}

AVX512 static void fire_avx512(const Firing *f)
{
    const int plain = f->theta && !f->feedback && !f->a && !f->beta_step && !f->theta_step;
    if (plain && f->current)
        fire_all(f, PLAIN | GIVEN);
    else if (plain && !f->bias && !f->scale)
        fire_all(f, PLAIN | COUNTED);
    else
        fire_all(f, 0);
}

/* ---- AVX2 ---- */

/* 1 in each of 32 bytes whose bit is set, as 0xFF. */
AVX2 static inline __m256i bytes_avx2(uint32_t bits)
{
    const __m256i spread = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3,
                                            3, 3, 3, 3, 3, 3);
    const __m256i bit = _mm256_set1_epi64x((long long)0x8040201008040201u);
    return _mm256_cmpeq_epi8(_mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32((int)bits), spread), bit), bit);
}

AVX2 static inline void expand_avx2(const __m256i *digits, uint32_t used, uint32_t words, int32_t times, int fresh,
                                    int32_t *counts)
{
    for (uint32_t g = 0; g < words; g++) {
        __m256i bytes = _mm256_setzero_si256();
        uint8_t part[32];
        for (uint32_t k = 0; k < used; k++) {
            uint32_t lanes;
            memcpy(&lanes, (const char *)(digits + k) + 4 * g, 4);
            bytes = _mm256_or_si256(bytes, _mm256_and_si256(bytes_avx2(lanes), _mm256_set1_epi8((char)(1u << k))));
        }
        _mm256_storeu_si256((__m256i *)part, bytes);
        for (int q = 0; q < 4; q++) {
            __m256i *to = (__m256i *)(counts + 32 * g + 8 * q);
            __m256i count = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(part + 8 * q)));
            count = _mm256_mullo_epi32(count, _mm256_set1_epi32(times));
            _mm256_storeu_si256(to, fresh ? count : _mm256_add_epi32(count, _mm256_loadu_si256(to)));
        }
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

/* ---- the choice ---- */

static const Kernels avx2 = {plane_floats_avx2, plane_bytes_portable, NULL,
                             add_rows_avx2,     list_bits_portable,   count_pixels_avx2,
                             move_list_avx2, pool_columns_avx2, add_reals_portable,   to_current_avx2,
                             fire_avx2};
static const Kernels avx512 = {plane_floats_avx512, plane_bytes_avx512, NULL,
                               any_rows_avx512,     list_bits_avx512,   count_pixels_avx512,
                               move_list_avx512, pool_columns_avx512, add_reals_avx512,   to_current_avx512,
                               fire_avx512};
static const Kernels avx512_popcount = {plane_floats_avx512, plane_bytes_avx512, count_shared_avx512,
                                        any_rows_avx512,     list_bits_avx512,   count_pixels_avx512,
                                        move_list_avx512, pool_columns_avx512, add_reals_avx512,   to_current_avx512,
                                        fire_avx512};

/* For tests: 0 chooses by the processor, 1 is portable, 2 AVX2, 3 AVX-512, 4 with its VPOPCNTDQ. */
int bs_vectors = 0;

static const Kernels *kernels(void)
{
    static const Kernels *const all[] = {&portable, &portable, &avx2, &avx512, &avx512_popcount};
    int level = 1;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("popcnt"))
        level = 2;
    if (level == 2 && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        level = __builtin_cpu_supports("avx512vpopcntdq") ? 4 : 3;
    return all[bs_vectors > 0 && bs_vectors < level ? bs_vectors : level];
}

#endif
