/* A part of runtime.c: the kernels in portable C, 32 lanes at a time. */
#ifndef BITSPIKE_RUNTIME_PORTABLE_H
#define BITSPIKE_RUNTIME_PORTABLE_H

#include "runtime_kernels.h"

static int plane_floats_portable(const float *frame, uint32_t n, Target to)
{
    uint32_t all = 0;
    for (uint32_t i = 0; i < n; i++) {
        const int32_t count = frame[i] == 0.0f ? 0 : count_of(frame[i], to.planes);
        if (count < 0)
            return -1;
        set_count(to, i, (uint32_t)count);
        all |= (uint32_t)count;
    }
    return digits_of(all);
}

static int plane_bytes_portable(const uint8_t *frame, uint32_t n, Target to)
{
    uint32_t all = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (frame[i] >> to.planes)
            return -1;
        set_count(to, i, frame[i]);
        all |= frame[i];
    }
    return digits_of(all);
}

/* The places of all set bits in bits[from .. from + many), from `base` on; returns how many. */
static uint32_t list_bits_portable(const uint32_t *bits, uint32_t from, uint32_t many, uint32_t base, uint32_t *list)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < many; i += 32)
        for (uint32_t word = bits_at(bits, from + i, many - i < 32 ? many - i : 32); word; word &= word - 1)
            list[n++] = base + i + lowest(word);
    return n;
}

static void expand_portable(const uint32_t *digits, uint32_t used, int32_t times, int fresh, int32_t *counts)
{
    for (uint32_t i = 0; i < 32; i++) {
        uint32_t count = 0;
        for (uint32_t k = 0; k < used; k++)
            count |= (digits[k] >> i & 1) << k;
        counts[i] = (fresh ? 0 : counts[i]) + times * (int32_t)count;
    }
}

/* Add a bit to the counters of 32 lanes, from digit k on. */
static inline void carry_on(uint32_t *digits, uint32_t k, uint32_t used, uint32_t carry)
{
    for (; k < used; k++) {
        const uint32_t next = digits[k] & carry;
        digits[k] ^= carry;
        carry = next;
    }
}

/* Add to the counters how many of the n rows have each bit; they end with at most `used` digits.
 *
 * The counters of 32 lanes lie side by side in binary: digits[k] holds digit k of each. Full adders add up eight rows at
 * a time, and only what they carry goes on to the higher digits. */
static void count_portable(const uint32_t *rows, uint32_t words, const uint32_t *list, uint32_t n, uint32_t used,
                           uint32_t *digits)
{
    uint32_t ones = digits[0], twos = digits[1], fours = digits[2], i = 0;
#define ROW(j) rows[(size_t)list[i + (j)] * words]
#define ADD(sum, x, y, carry) \
    do { \
        const uint32_t one = (x), other = (y), old = sum; \
        sum = old ^ one ^ other; \
        carry = (old & one) | (other & (old ^ one)); \
    } while (0)
    for (; i + 8 <= n; i += 8) {
        uint32_t a, b, c;
        ADD(ones, ROW(0), ROW(1), a);
        ADD(ones, ROW(2), ROW(3), b);
        ADD(twos, a, b, c);
        ADD(ones, ROW(4), ROW(5), a);
        ADD(ones, ROW(6), ROW(7), b);
        ADD(twos, a, b, a);
        ADD(fours, c, a, a);
        carry_on(digits, 3, used, a);
    }
    digits[0] = ones;
    digits[1] = twos;
    digits[2] = fours;
    for (; i < n; i++)
        carry_on(digits, 0, used, ROW(0));
#undef ADD
#undef ROW
}

/* counts[i] += times * (how many of the n rows have bit i), or = if `fresh`; n < 2^DIGITS. */
static void add_rows_portable(const uint32_t *rows, uint32_t words, const uint32_t *list, uint32_t n, int32_t times,
                              int fresh, int32_t *counts)
{
    const uint32_t used = (uint32_t)digits_of(n);
    for (uint32_t w = 0; w < words; w++) {
        uint32_t digits[DIGITS] = {0};
        count_portable(rows + w, words, list, n, used, digits);
        expand_portable(digits, used, times, fresh, counts + 32 * (size_t)w);
    }
}

/* From the highest plane down: twice what there is, and one for each row. */
static void add_planes_portable(const Rows *r, int32_t *counts)
{
    const uint32_t used = (uint32_t)digits_of(r->total);
    for (uint32_t w = 0; w < r->words; w++) {
        uint32_t digits[WORTH_DIGITS] = {0};
        const uint32_t *list = r->list;
        for (uint32_t p = r->planes; p-- > 0; list += r->many[p]) {
            for (uint32_t k = WORTH_DIGITS - 1; k > 0; k--)
                digits[k] = digits[k - 1];
            digits[0] = 0;
            count_portable(r->rows + w, r->words, list, r->many[p], used, digits);
        }
        expand_portable(digits, used, 1, 1, counts + 32 * (size_t)w);
    }
}

#define NAME(x) x##_portable
#define TARGET
#define ONES(word) ones_of(word)
#include "runtime_loops.h"
#include "runtime_undef.h"

#ifndef BS_ONLY_COUNTS
static void add_reals_portable(const uint32_t *rows, uint32_t words, const uint32_t *list, const float *values,
                               uint32_t n, uint32_t lanes, Sum *sums)
{
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t *row = rows + (size_t)list[i] * words;
        const Sum value = sum_of(values[i]);
        for (uint32_t j = 0; j < lanes; j++)
            sums[j] += row[j / 32] >> j % 32 & 1 ? value : -value;
    }
}
#endif

static inline bs_number current_of(const Firing *f, uint32_t i)
{
    bs_number c;
    if (f->current)
        return f->current[i];
    c = mean_of(2 * f->counts[i] - f->less, 1);
    if (f->bias)
        c = plus(c, f->bias[i]);
    return f->scale ? plus(times(f->scale[i], c), f->offset[i]) : c;
}

/* One neuron: the new membrane; `z` is the spike before and becomes the spike now. Every operation is rounded. */
static inline bs_number step_of(const Firing *f, uint32_t i, uint32_t *z)
{
    bs_number threshold, u = plus(times(f->beta[f->beta_step * (size_t)i], f->u[i]), current_of(f, i));
    if (!f->theta)
        return u;
    threshold = f->theta[f->theta_step * (size_t)i];
    if (f->feedback)
        u = plus(u, f->feedback[i]);
    if (!f->a) {
        u = *z ? minus(u, threshold) : u;
    } else {
        const bs_number theta = threshold;
        u = *z ? minus(u, plus(theta, times(f->strength, f->a[i]))) : u;
        f->a[i] = plus(times(f->rho, f->a[i]), *z ? number_of(f->rest) : 0);
        threshold = plus(theta, times(f->strength, f->a[i]));
    }
    *z = u >= threshold;
    return u;
}

/* Neurons from `first`, a multiple of 32, to the last. */
static void fire_from(const Firing *f, uint32_t first)
{
    for (uint32_t w = first; w < f->n; w += 32) {
        const uint32_t many = f->n - w < 32 ? f->n - w : 32, before = f->z[w / 32];
        uint32_t now = 0;
        for (uint32_t i = 0; i < many; i++) {
            uint32_t z = before >> i & 1;
            f->u[w + i] = step_of(f, w + i, &z);
            now |= z << i;
        }
        f->z[w / 32] = now;
    }
}

static void fire_portable(const Firing *f)
{
    fire_from(f, 0);
}

static const Kernels portable = {
    .plane_floats = plane_floats_portable,
    .plane_bytes = plane_bytes_portable,
    .add_rows = add_rows_portable,
    .add_planes = add_planes_portable,
    .list_bits = list_bits_portable,
#ifndef BS_ONLY_COUNTS
    .add_reals = add_reals_portable,
    .reals_to_current = reals_to_current_portable,
#endif
#ifndef BS_SMALL
    .count_pixels = count_pixels_portable,
    .move_list = move_list_portable,
    .pool_columns = pool_columns_portable,
    .pool_sums = pool_sums_portable,
#endif
    .to_current = to_current_portable,
    .fire = fire_portable,
};

#endif
