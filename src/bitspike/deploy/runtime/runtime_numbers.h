/* A part of runtime.c: the arithmetic of currents and membranes, in float32 or, with BS_FIXED, in whole numbers.
 *
 * Fixed point: a number is a whole number of 2^-16 between -32768 and 32768, a factor (decays, scales) one of 2^-24
 * between -128 and 128. Products are rounded to the nearest; what leaves the range stays at its end. Real inputs are
 * rounded to 2^-20. The sums of spikes and event counts are whole numbers in both.
 */
#ifndef BITSPIKE_RUNTIME_NUMBERS_H
#define BITSPIKE_RUNTIME_NUMBERS_H

#include "runtime.h"

#ifdef BS_FIXED

typedef int64_t Sum;   /* of real inputs, in 2^-20 */
typedef int64_t Total; /* of a membrane over time, in 2^-16 */

static inline bs_number limited(int64_t value)
{
    return value > INT32_MAX ? INT32_MAX : value < -INT32_MAX ? -INT32_MAX : (bs_number)value;
}

/* value / 2^bits, rounded to the nearest; compilers shift negative numbers arithmetically. */
static inline int64_t rounded(int64_t value, int bits)
{
    return (value + ((int64_t)1 << (bits - 1))) >> bits;
}

/* value / divisor, rounded to the nearest. */
static inline int64_t quotient(int64_t value, uint32_t divisor)
{
    const int64_t half = divisor / 2;
    return (value < 0 ? value - half : value + half) / (int64_t)divisor;
}

static inline bs_number plus(bs_number a, bs_number b)
{
    return limited((int64_t)a + b);
}

static inline bs_number minus(bs_number a, bs_number b)
{
    return limited((int64_t)a - b);
}

static inline bs_number times(bs_factor factor, bs_number number)
{
    return limited(rounded((int64_t)factor * number, 24));
}

/* A factor as a number. */
static inline bs_number number_of(bs_factor factor)
{
    return (bs_number)rounded(factor, 8);
}

static inline bs_number sum_times(bs_factor factor, int32_t sum)
{
    return limited(rounded((int64_t)factor * sum, 8));
}

static inline bs_number mean_of(int32_t sum, uint32_t divisor)
{
    return limited(divisor == 1 ? (int64_t)sum * 65536 : quotient((int64_t)sum * 65536, divisor));
}

static inline Sum sum_of(float value)
{
    const float most = 2047.0f, within = value > most ? most : value >= -most ? value : -most; /* NaN too */
    return (Sum)(int32_t)(within * 1048576.0f + (within < 0.0f ? -0.5f : 0.5f)); /* fits: 2047 * 2^20 < 2^31 */
}

static inline bs_number real_mean_of(Sum sum, uint32_t divisor)
{
    return limited(rounded(quotient(sum, divisor), 4));
}

static inline float float_of(bs_number number)
{
    return (float)number / 65536.0f;
}

static inline float count_score(uint32_t count, uint32_t steps)
{
    return (float)count / (float)steps;
}

static inline float membrane_score(Total total, uint32_t steps, bs_factor beta)
{
    return float_of(times((1 << 24) - beta, limited(quotient(total, steps))));
}

#else

typedef double Sum, Total;

static inline bs_number plus(bs_number a, bs_number b)
{
    return a + b;
}

static inline bs_number minus(bs_number a, bs_number b)
{
    return a - b;
}

static inline bs_number times(bs_factor factor, bs_number number)
{
    return factor * number;
}

static inline bs_number number_of(bs_factor factor)
{
    return factor;
}

static inline bs_number sum_times(bs_factor factor, int32_t sum)
{
    return factor * (float)sum;
}

/* A quotient of whole numbers below 2^24 is rounded once, in float32 as in float64. Small machines have no division:
 * none is made by 1. */
static inline bs_number mean_of(int32_t sum, uint32_t divisor)
{
    return divisor == 1 ? (float)sum : (float)sum / (float)divisor;
}

static inline Sum sum_of(float value)
{
    return (double)value;
}

/* Where the divisor is a power of two, a product with its inverse is the same number, and loops compute that once. */
static inline bs_number real_mean_of(Sum sum, uint32_t divisor)
{
#ifdef BS_SMALL
    return (float)(sum / (double)divisor);
#else
    return (float)(divisor & (divisor - 1) ? sum / (double)divisor : sum * (1.0 / (double)divisor));
#endif
}

static inline float float_of(bs_number number)
{
    return number;
}

static inline float count_score(uint32_t count, uint32_t steps)
{
    return (float)((double)count / (double)steps);
}

static inline float membrane_score(Total total, uint32_t steps, bs_factor beta)
{
    return (float)(total / (double)steps) * (1.0f - beta);
}

#endif

#endif
