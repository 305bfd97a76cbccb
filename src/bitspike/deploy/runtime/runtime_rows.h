/* The loop that takes the time, written once and compiled for several processors: runtime.c includes this file again
 * and again, each time with other vectors.
 *
 * It needs NAME(x), a name for this copy; TARGET, an attribute for the compiler; Vector, which holds WORDS words of 32
 * bits, and ZERO, one of zeros; LOAD(from, words), which reads no more than these words; SUM(a, b, c) and
 * CARRY(a, b, c), the two binary digits of a + b + c in every bit; ONES(word), its set bits; and the function NAME(expand), which adds counters
 * to whole numbers.
 */

/* counts[i] += times * (how many of the n rows have bit i), or = if `fresh`; n < 2^DIGITS.
 *
 * The counters of all lanes lie side by side in binary: digits[k] holds digit k of each. Full adders add up eight rows
 * at a time, and only what they carry goes on to the higher digits. */
TARGET static void NAME(add_rows)(const uint32_t *rows, uint32_t words, const uint32_t *list, uint32_t n, int32_t times,
                                  int fresh, int32_t *counts)
{
    uint32_t used = 0;
    while (n >> used)
        used++;
    for (uint32_t w = 0; w < words; w += WORDS) {
        const uint32_t left = words - w < WORDS ? words - w : WORDS;
        Vector digits[DIGITS], ones = ZERO, twos = ZERO, fours = ZERO;
        uint32_t i = 0, k;
        for (k = 0; k < DIGITS; k++)
            digits[k] = ZERO;
#define ROW(j) LOAD(rows + (size_t)list[i + (j)] * words + w, left)
#define ADD(sum, x, y, carry) \
    do { \
        const Vector one = (x), other = (y), old = sum; \
        sum = SUM(old, one, other); \
        carry = CARRY(old, one, other); \
    } while (0)
        for (; i + 8 <= n; i += 8) {
            Vector a, b, c;
            ADD(ones, ROW(0), ROW(1), a);
            ADD(ones, ROW(2), ROW(3), b);
            ADD(twos, a, b, c);
            ADD(ones, ROW(4), ROW(5), a);
            ADD(ones, ROW(6), ROW(7), b);
            ADD(twos, a, b, a);
            ADD(fours, c, a, a);
            for (k = 3; k < used; k++) {
                b = digits[k] & a;
                digits[k] = digits[k] ^ a;
                a = b;
            }
        }
        digits[0] = ones;
        digits[1] = twos;
        digits[2] = fours;
        for (; i < n; i++) {
            Vector a = ROW(0);
            for (k = 0; k < used; k++) {
                const Vector b = digits[k] & a;
                digits[k] = digits[k] ^ a;
                a = b;
            }
        }
#undef ADD
#undef ROW
        NAME(expand)(digits, used, left, times, fresh, counts + 32 * (size_t)w);
    }
}

#ifndef ROWS_ONLY

/* to = from + base. */
TARGET static void NAME(move_list)(const uint32_t *restrict from, size_t n, uint32_t base, uint32_t *restrict to)
{
    for (size_t i = 0; i < n; i++)
        to[i] = from[i] + base;
}

/* counts[i] += times * (how many of `channels` bits of pixel i are set), or = if `fresh`. */
TARGET static void NAME(count_pixels)(const uint32_t *bits, uint32_t pixels, uint32_t channels, int32_t times, int fresh,
                                      int32_t *counts)
{
    for (uint32_t i = 0; i < pixels; i++) {
        int32_t count = 0;
        for (uint32_t done = 0; done < channels; done += 32)
            count += (int32_t)ONES(bits_at(bits, i * channels + done, channels - done < 32 ? channels - done : 32));
        counts[i] = (fresh ? 0 : counts[i]) + times * count;
    }
}

/* sums = 2 * (the sum of `size` columns of counts) - less; `sums` may be `counts`. */
TARGET static void NAME(pool_columns)(const int32_t *counts, uint32_t size, size_t channels, int32_t less, int32_t *sums)
{
    if (size == 2)
        for (size_t j = 0; j < channels; j++)
            sums[j] = 2 * (counts[j] + counts[j + channels]) - less;
    else
        for (size_t j = 0; j < channels; j++) {
            int32_t sum = 0;
            for (uint32_t i = 0; i < size; i++)
                sum += counts[i * channels + j];
            sums[j] = 2 * sum - less;
        }
}

/* current = (twice * sum - less) / divisor, + bias, * scale, + offset: of channels that lie side by side. */
TARGET static void NAME(to_current)(const bs_layer *layer, const int32_t *sums, int32_t twice, int32_t less,
                                    uint32_t divisor, bs_number *current)
{
    const size_t n = layer->channels;
    if (divisor == 1)
        for (size_t i = 0; i < n; i++)
            current[i] = mean_of(twice * sums[i] - less, 1);
    else
        for (size_t i = 0; i < n; i++)
            current[i] = mean_of(twice * sums[i] - less, divisor);
    if (layer->bias)
        for (size_t i = 0; i < n; i++)
            current[i] = plus(current[i], layer->bias[i]);
    if (layer->scale)
        for (size_t i = 0; i < n; i++)
            current[i] = plus(times(layer->scale[i], current[i]), layer->offset[i]);
}

#endif
