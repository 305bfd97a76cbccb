/* Training events that are moved, stretched and thinned (the definition is batches/event_jitter.py).
 *
 * Each sample is made by one thread. Its bins are taken a chunk at a time: first their random numbers, then their places.
 * Arithmetic is the definition's, in whole numbers; shifts to the right round down, of negative numbers as well.
 */
#include "native/compiler.h"
#include "native/philox.h"

enum {
    ONE = 1 << 16,
    MOST = 255,         /* events that a bin can hold */
    WAVE = 3 * ONE / 4, /* of a wave lie over the sensor */
    PLACE = 2,          /* the counter's last word, of a sample's draws */
    ENTRY_PLACE = 3,    /* and of its bins' */
    SHARED = 8,         /* bins that share a block of random numbers */
    BLOCKS = 64,        /* of a chunk */
    CHUNK = SHARED * BLOCKS,
};

enum { TIME, ACROSS, DOWN, COUNT, AXES };

/* Shared with `_CJitter` of batches/c.py, field by field. A row of channels has height 1 and is not `tall`. */
typedef struct {
    uint64_t key;
    int64_t steps, batch, size, height, width, tall, first_row;
    int64_t shift, time_shift, reach, zoom_reach, most_lost;
} Jitter;

/* How a sample moves: `Draws` of the definition. */
typedef struct {
    int64_t down, right, factor, later, zoom, lost, phase, upright;
} Draws;

typedef struct {
    uint32_t word[4][BLOCKS];
} Numbers;

INLINE int64_t even(uint32_t number, int64_t reach)
{
    return (int64_t)(number & 0x7FFFFFFF) % (2 * reach + 1) - reach;
}

INLINE Draws draws(const Jitter *j, uint32_t row)
{
    uint32_t moves[4] = {row, 0, 0, PLACE}, shares[4] = {row, 1, 0, PLACE};
    philox(j->key, moves, moves + 1, moves + 2, moves + 3);
    philox(j->key, shares, shares + 1, shares + 2, shares + 3);
    return (Draws){
        .down = even(moves[0], j->shift),
        .right = even(moves[1], j->shift),
        .factor = ONE + even(moves[2], j->reach),
        .later = even(moves[3], j->time_shift),
        .zoom = ONE + even(shares[0], j->zoom_reach),
        .lost = (int64_t)(shares[1] & 0x7FFFFFFF) % (j->most_lost + 1),
        .phase = (shares[2] & 0x7FFFFFFF) % ONE,
        .upright = (shares[3] & 0x7FFFFFFF) % 2,
    };
}

/* The random numbers of a chunk of bins, on one axis; `block` is the chunk's first. */
INLINE void draw_places(uint64_t key, uint32_t row, uint32_t block, uint32_t axis, Numbers *n)
{
    for (uint32_t i = 0; i < BLOCKS; i++) {
        uint32_t c0 = row, c1 = block + i, c2 = axis, c3 = ENTRY_PLACE;
        philox(key, &c0, &c1, &c2, &c3);
        n->word[0][i] = c0;
        n->word[1][i] = c1;
        n->word[2][i] = c2;
        n->word[3][i] = c3;
    }
}

/* Where a bin of the chunk is within its step or pixel, in parts of 2**-16. */
INLINE int64_t within(const Numbers *n, uint64_t bin)
{
    return n->word[bin % SHARED / 2][bin / SHARED] >> (bin % 2 * 16) & 0xFFFF;
}

/* Where on the wave a place is; numbers of 32 bits divide several times faster. */
INLINE int64_t along_wave(int64_t x, int64_t width)
{
    return width <= UINT32_MAX / WAVE ? (uint32_t)x * WAVE / (uint32_t)width : x * WAVE / width;
}

INLINE int64_t kept_share(const Jitter *j, const Draws *d, int64_t x, int64_t y)
{
    const int64_t along = d->upright && j->tall ? along_wave(y, j->height) : along_wave(x, j->width);
    const int64_t wave = (along + d->phase) % ONE * 2;
    return ONE - (d->lost * (wave > ONE ? 2 * ONE - wave : wave) >> 16);
}

INLINE int64_t zoomed(int64_t x, int64_t part, int64_t zoom, int64_t width)
{
    return ((x * ONE + part - (width << 15)) * zoom + (width << 31)) >> 32;
}

/* Add n bins of sample b to `out`, with the numbers of each axis that needs some. */
INLINE void add_bins(const Jitter *j, const Draws *d, const Numbers *numbers, int64_t b, const int32_t *index,
                     const uint8_t *count, int64_t n, uint8_t *out, const int tall)
{
    for (int64_t i = 0; i < n; i++) {
        /* 32 bits, which divide faster */
        const uint32_t place = (uint32_t)index[i], at = place % (uint32_t)j->size;
        int64_t t = place / (uint32_t)j->size, x = tall ? at % (uint32_t)j->width : at, y = 0, plane = 0;
        int64_t events = count[i];
        if (t >= j->steps)
            continue; /* no place of a sample; one below 0 has become a late time, too */
        if (tall) {
            y = at / (uint32_t)j->width % (uint32_t)j->height;
            plane = at / (uint32_t)(j->width * j->height);
        }
        if (j->most_lost)
            events = (events * kept_share(j, d, x, y) + within(&numbers[COUNT], (uint64_t)i)) >> 16;
        if (j->reach)
            t = (t * ONE + within(&numbers[TIME], (uint64_t)i)) * d->factor >> 32;
        if (j->zoom_reach)
            x = zoomed(x, within(&numbers[ACROSS], (uint64_t)i), d->zoom, j->width);
        if (j->zoom_reach && tall)
            y = zoomed(y, within(&numbers[DOWN], (uint64_t)i), d->zoom, j->height);
        t += d->later;
        x += d->right;
        y += tall ? d->down : 0;
        if (t < 0 || t >= j->steps || x < 0 || x >= j->width || y < 0 || y >= j->height)
            continue;
        uint8_t *bin = out + (t * j->batch + b) * j->size + (plane * j->height + y) * j->width + x;
        const int64_t sum = *bin + events;
        *bin = (uint8_t)(sum > MOST ? MOST : sum);
    }
}

static FOR_EACH_CPU void add_sample(const Jitter *j, int64_t b, const int32_t *index, const uint8_t *count, int64_t n,
                                    uint8_t *out)
{
    const uint32_t row = (uint32_t)(j->first_row + b);
    const Draws d = draws(j, row);
    const int needed[AXES] = {j->reach != 0, j->zoom_reach != 0, j->zoom_reach != 0 && j->tall, j->most_lost != 0};
    Numbers numbers[AXES];
    for (int64_t first = 0; first < n; first += CHUNK) {
        const int64_t bins = n - first < CHUNK ? n - first : CHUNK;
        for (uint32_t axis = 0; axis < AXES; axis++)
            if (needed[axis])
                draw_places(j->key, row, (uint32_t)(first / SHARED), axis, numbers + axis);
        if (j->tall)
            add_bins(j, &d, numbers, b, index + first, count + first, bins, out, 1);
        else
            add_bins(j, &d, numbers, b, index + first, count + first, bins, out, 0);
    }
}

/* out [steps, batch, size], zero before: sample b has `lengths[b]` bins from `starts[b]` on. */
EXPORT void event_jitter(const Jitter *j, const int32_t *index, const uint8_t *count, const int64_t *starts,
                         const int64_t *lengths, int threads, uint8_t *out)
{
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (int64_t b = 0; b < j->batch; b++)
        add_sample(j, b, index + starts[b], count + starts[b], lengths[b], out);
}
