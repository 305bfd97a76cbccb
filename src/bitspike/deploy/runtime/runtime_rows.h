/* The loop that takes the time, written once for vectors of any size: runtime_x86.h includes this file again and again.
 * The twin in portable C is `add_rows_portable`, which is smaller.
 *
 * It needs NAME(x), a name for this copy; TARGET, an attribute for the compiler; Vector, which holds WORDS words of 32
 * bits, and ZERO, one of zeros; LOAD(from, words), which reads no more than these words; SUM(a, b, c) and
 * CARRY(a, b, c), the two binary digits of a + b + c in every bit; and the function NAME(expand), which adds counters
 * to whole numbers.
 */

#define ROW(j) LOAD(rows + (size_t)list[i + (j)] * words, left)

/* sum + x + y = sum + 2 * carry. */
#define ADD(sum, x, y, carry) \
    do { \
        const Vector one_ = (x), other_ = (y), old_ = sum; \
        sum = SUM(old_, one_, other_); \
        carry = CARRY(old_, one_, other_); \
    } while (0)
#define ADD_FOUR(j, carry) \
    do { \
        Vector a_, b_; \
        ADD(d0, ROW(j), ROW((j) + 1), a_); \
        ADD(d0, ROW((j) + 2), ROW((j) + 3), b_); \
        ADD(d1, a_, b_, carry); \
    } while (0)
#define ADD_EIGHT(j, carry) \
    do { \
        Vector c_, e_; \
        ADD_FOUR(j, c_); \
        ADD_FOUR((j) + 4, e_); \
        ADD(d2, c_, e_, carry); \
    } while (0)

/* Add a carry to digit k, and what that carries to those above. */
#define UP(k, more) \
    if (used > k) { \
        const Vector b_ = d##k & carry; \
        d##k = d##k ^ carry; \
        carry = b_; \
        more \
    }
#define UP_FROM_4 UP(4, UP(5, UP(6, UP(7, UP(8, UP(9, ))))))
#define UP_FROM_2 UP(2, UP(3, UP_FROM_4))

/* Add to the counters how many of the n rows have each bit: digits[k] holds digit k of all, and they end with at most
 * `used` digits. With `fresh` they begin at 0.
 *
 * The counters of all lanes lie side by side in binary. Full adders add up sixteen rows at a time, and only what they
 * carry goes on to the higher digits. All digits have names of their own, so that they stay in registers. */
TARGET static inline void NAME(count)(const uint32_t *rows, uint32_t words, uint32_t left, const uint32_t *list,
                                      uint32_t n, uint32_t used, const int fresh, Vector *digits)
{
#define FIRST(k) fresh ? ZERO : digits[k]
    Vector d0 = FIRST(0), d1 = FIRST(1), d2 = FIRST(2), d3 = FIRST(3), d4 = FIRST(4), d5 = FIRST(5), d6 = FIRST(6);
    Vector d7 = FIRST(7), d8 = FIRST(8), d9 = FIRST(9), carry;
    uint32_t i = 0;
    for (; i + 16 <= n; i += 16) {
        Vector other;
        ADD_EIGHT(0, carry);
        ADD_EIGHT(8, other);
        ADD(d3, carry, other, carry);
        UP_FROM_4
    }
    if (i + 8 <= n) {
        ADD_EIGHT(0, carry);
        UP(3, UP_FROM_4)
        i += 8;
    }
    if (i + 4 <= n) {
        ADD_FOUR(0, carry);
        UP_FROM_2
        i += 4;
    }
    if (i + 2 <= n) {
        ADD(d0, ROW(0), ROW(1), carry);
        UP(1, UP_FROM_2)
        i += 2;
    }
    if (i < n) {
        carry = ROW(0);
        UP(0, UP(1, UP_FROM_2))
    }
    digits[0] = d0, digits[1] = d1, digits[2] = d2, digits[3] = d3, digits[4] = d4;
    digits[5] = d5, digits[6] = d6, digits[7] = d7, digits[8] = d8, digits[9] = d9;
}

/* counts[i] += times * (how many of the n rows have bit i), or = if `fresh`; n < 2^DIGITS. */
TARGET static void NAME(add_rows)(const uint32_t *rows, uint32_t words, const uint32_t *list, uint32_t n, int32_t times,
                                  int fresh, int32_t *counts)
{
    const uint32_t used = (uint32_t)digits_of(n);
    for (uint32_t w = 0; w < words; w += WORDS) {
        const uint32_t left = words - w < WORDS ? words - w : WORDS;
        Vector digits[DIGITS];
        NAME(count)(rows + w, words, left, list, n, used, 1, digits);
        NAME(expand)(digits, used, left, times, fresh, counts + 32 * (size_t)w);
    }
}

/* The counters of what the rows are worth, of words w to w + left. From the highest plane down: twice what there is, and
 * one for each row. */
TARGET static inline void NAME(count_planes)(const Rows *r, uint32_t w, uint32_t left, uint32_t used, Vector *digits)
{
    const uint32_t *list = r->list + (r->planes ? r->many[r->planes - 1] : 0);
    NAME(count)(r->rows + w, r->words, left, r->list, (uint32_t)(list - r->list), used, 1, digits);
    for (uint32_t p = r->planes; p-- > 1; list += r->many[p - 1]) {
        for (uint32_t k = DIGITS - 1; k > 0; k--)
            digits[k] = digits[k - 1];
        digits[0] = ZERO;
        NAME(count)(r->rows + w, r->words, left, list, r->many[p - 1], used, 0, digits);
    }
}

TARGET static void NAME(add_planes)(const Rows *r, int32_t *counts)
{
    const uint32_t used = (uint32_t)digits_of(r->total);
    for (uint32_t w = 0; w < r->words; w += WORDS) {
        const uint32_t left = r->words - w < WORDS ? r->words - w : WORDS;
        Vector digits[DIGITS];
        NAME(count_planes)(r, w, left, used, digits);
        NAME(expand)(digits, used, left, 1, 1, counts + 32 * (size_t)w);
    }
}

#undef ROW
#undef FIRST
#undef ADD
#undef ADD_FOUR
#undef ADD_EIGHT
#undef UP
#undef UP_FROM_4
#undef UP_FROM_2
