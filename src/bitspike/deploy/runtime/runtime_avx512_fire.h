/* A part of runtime.c: neurons with AVX-512. */
#ifndef BITSPIKE_RUNTIME_AVX512_FIRE_H
#define BITSPIKE_RUNTIME_AVX512_FIRE_H

#include "runtime_avx512.h"

#define INLINE inline __attribute__((always_inline))

/* What is known of all neurons before the loop, so that it needs no branches. */
enum { PLAIN = 1 /* they fire, without feedback and adaptation, all with one decay and one threshold */,
       GIVEN = 2 /* their current is */,
       COUNTED = 4 /* it is 2 * counts - less, and nothing more */,
       BIASED = 8 /* the same, plus a bias */ };

static int known_of(const Firing *f)
{
    const int plain = f->theta && !f->feedback && !f->a && !f->beta_step && !f->theta_step ? PLAIN : 0;
    return plain | (f->current ? GIVEN : f->scale ? 0 : f->bias ? BIASED : COUNTED);
}

/* A copy that no store can change, and what all neurons share. */
typedef struct {
    Firing f;
    __m512 decay, threshold;
    __m512i less;
} Common;

AVX512 static INLINE Common common_of(const Firing *f)
{
    Common c = {*f, _mm512_set1_ps(*f->beta), _mm512_setzero_ps(), _mm512_set1_epi32(f->less)};
    if (f->theta)
        c.threshold = _mm512_set1_ps(*f->theta);
    return c;
}

/* The current of 16 neurons of a dense layer that counted so much. */
AVX512 static INLINE __m512 current_avx512(const Common *c, __m512i count, __mmask16 live, uint32_t i, const int known)
{
    const Firing *f = &c->f;
    __m512 current = _mm512_cvtepi32_ps(_mm512_sub_epi32(_mm512_add_epi32(count, count), c->less));
    if (known & BIASED || (!(known & COUNTED) && f->bias))
        current = _mm512_add_ps(current, _mm512_maskz_loadu_ps(live, f->bias + i));
    if (!(known & (COUNTED | BIASED)) && f->scale) {
        current = _mm512_mul_ps(current, _mm512_maskz_loadu_ps(live, f->scale + i));
        current = _mm512_add_ps(current, _mm512_maskz_loadu_ps(live, f->offset + i));
    }
    return current;
}

/* 16 neurons, those of them that live; `fired` is the spikes before, and the spikes now are returned. */
AVX512 static INLINE __mmask16 fire_some(const Common *c, __mmask16 fired, __m512i count, __mmask16 live, uint32_t i,
                                         const int known)
{
    const Firing *f = &c->f;
    const int each = !(known & PLAIN);
    const __m512 decay = each && f->beta_step ? _mm512_maskz_loadu_ps(live, f->beta + i) : c->decay;
    __m512 threshold = each && f->theta_step ? _mm512_maskz_loadu_ps(live, f->theta + i) : c->threshold;
    __m512 u = _mm512_mul_ps(decay, _mm512_maskz_loadu_ps(live, f->u + i));
    if (known & GIVEN)
        u = _mm512_add_ps(u, _mm512_maskz_loadu_ps(live, f->current + i));
    else
        u = _mm512_add_ps(u, current_avx512(c, count, live, i, known));
    if (each && !f->theta) {
        _mm512_mask_storeu_ps(f->u + i, live, u);
        return 0;
    }
    if (each && f->feedback)
        u = _mm512_add_ps(u, _mm512_maskz_loadu_ps(live, f->feedback + i));
    if (each && f->a) {
        const __m512 theta = threshold, strength = _mm512_set1_ps(f->strength);
        __m512 a = _mm512_maskz_loadu_ps(live, f->a + i);
        u = _mm512_mask_sub_ps(u, fired, u, _mm512_add_ps(theta, _mm512_mul_ps(strength, a)));
        a = _mm512_mul_ps(_mm512_set1_ps(f->rho), a);
        a = _mm512_mask_add_ps(a, fired, a, _mm512_set1_ps(f->rest));
        _mm512_mask_storeu_ps(f->a + i, live, a);
        threshold = _mm512_add_ps(theta, _mm512_mul_ps(strength, a));
    } else {
        u = _mm512_mask_sub_ps(u, fired, u, threshold);
    }
    _mm512_mask_storeu_ps(f->u + i, live, u);
    return _mm512_mask_cmp_ps_mask(live, u, threshold, _CMP_GE_OQ);
}

/* The neurons i to i + 63, or what there is of them. `z` may be read and written up to 8 bytes: parts are filled up. */
AVX512 static INLINE void fire_64(const Common *c, const __m512i *count, uint32_t i, const int known)
{
    const uint32_t left = c->f.n - i;
    char *z = (char *)c->f.z + i / 8;
    uint64_t before, now;
    memcpy(&before, z, sizeof before);
    if (left >= 64) {
        const __mmask16 one = fire_some(c, (__mmask16)before, count[0], 0xFFFF, i, known);
        const __mmask16 two = fire_some(c, (__mmask16)(before >> 16), count[1], 0xFFFF, i + 16, known);
        const __mmask16 three = fire_some(c, (__mmask16)(before >> 32), count[2], 0xFFFF, i + 32, known);
        const __mmask16 four = fire_some(c, (__mmask16)(before >> 48), count[3], 0xFFFF, i + 48, known);
        now = _mm512_kunpackd(_mm512_kunpackw(four, three), _mm512_kunpackw(two, one));
    } else {
        const uint64_t live = ((uint64_t)1 << left) - 1;
        now = 0;
        for (uint32_t q = 0; 16 * q < left; q++)
            now |= (uint64_t)fire_some(c, (__mmask16)(before >> 16 * q), count[q], (__mmask16)(live >> 16 * q),
                                       i + 16 * q, known)
                   << 16 * q;
    }
    memcpy(z, &now, sizeof now);
}

AVX512 static INLINE void fire_all(const Firing *f, const int known)
{
    const Common c = common_of(f);
    for (uint32_t i = 0; i < f->n; i += 64) {
        __m512i count[4];
        for (uint32_t q = 0; q < 4; q++) /* counts are filled up to whole vectors */
            count[q] = known & GIVEN ? _mm512_setzero_si512() : _mm512_loadu_si512(c.f.counts + i + 16 * q);
        fire_64(&c, count, i, known);
    }
}

/* The counters stay in registers on their way from the rows to the neurons. */
AVX512 static INLINE void count_and_fire(const Rows *r, const Firing *f, const int known)
{
    const Common c = common_of(f);
    const uint32_t used = (uint32_t)digits_of(r->total);
    for (uint32_t w = 0; w < r->words; w += 16) {
        const uint32_t left = r->words - w < 16 ? r->words - w : 16;
        __m512i digits[DIGITS];
        count_planes_avx512(r, w, left, used, digits);
        for (uint32_t g = 0; 2 * g < left; g++) {
            const __m512i bytes = bytes_avx512((const char *)digits + 8 * g, used);
            const __m512i count[4] = {_mm512_cvtepu8_epi32(_mm512_castsi512_si128(bytes)),
                                      _mm512_cvtepu8_epi32(_mm512_extracti32x4_epi32(bytes, 1)),
                                      _mm512_cvtepu8_epi32(_mm512_extracti32x4_epi32(bytes, 2)),
                                      _mm512_cvtepu8_epi32(_mm512_extracti32x4_epi32(bytes, 3))};
            fire_64(&c, count, 32 * w + 64 * g, known);
        }
    }
}

/* One copy of the loop for each kind of neurons that is common, and one for all others. */
#define CHOOSE(loop, known) \
    switch (known) { \
    case PLAIN | GIVEN: \
        loop(PLAIN | GIVEN); \
        break; \
    case PLAIN | COUNTED: \
        loop(PLAIN | COUNTED); \
        break; \
    case PLAIN | BIASED: \
        loop(PLAIN | BIASED); \
        break; \
    case PLAIN: \
        loop(PLAIN); \
        break; \
    default: \
        if ((known)&GIVEN) \
            loop(GIVEN); \
        else \
            loop(0); \
    }

AVX512 static void fire_avx512(const Firing *f)
{
#define LOOP(known) fire_all(f, known)
    CHOOSE(LOOP, known_of(f))
#undef LOOP
}

AVX512 static void fire_rows_avx512(const Rows *rows, const Firing *f)
{
#define LOOP(known) count_and_fire(rows, f, known)
    CHOOSE(LOOP, known_of(f) & ~GIVEN)
#undef LOOP
}

#undef CHOOSE

#endif
