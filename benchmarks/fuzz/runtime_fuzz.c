/* Networks, events, frames and images for the C runtime, drawn by libFuzzer. `make` in this folder builds and runs it;
 * with -DALONE it needs no libFuzzer, and draws as many inputs as its argument says.
 *
 * The runtime is built five times: with vectors and wide weights, small (-DBS_SMALL), for counts only, and both of the
 * first in fixed point. Every build gets the same network and the same acts. A byte that is read or written beside an
 * array, undefined arithmetic, or a build that answers otherwise than its twin ends the run.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime_plan.h"

typedef struct {
    const uint8_t *at, *end;
} Bytes;

static uint32_t byte(Bytes *b)
{
    return b->at < b->end ? *b->at++ : 0;
}

static uint32_t word(Bytes *b)
{
    const uint32_t low = byte(b);
    return low | byte(b) << 8;
}

static uint32_t whole(Bytes *b)
{
    const uint32_t low = word(b);
    return low | word(b) << 16;
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* The sizes of a convolution, such that its kernel and pools fit. */
static void plan_conv(Bytes *b, LayerPlan *p)
{
    const uint32_t side = least(p->in_rows, p->in_columns);
    p->kind = 1;
    p->kernel = 1 + byte(b) % least(side, 6);
    p->padding = byte(b) % p->kernel;
    p->stride = 1 + byte(b) % 3;
    p->channels = 1 + word(b) % 80;
    p->rows = (p->in_rows + 2 * p->padding - p->kernel) / p->stride + 1;
    p->columns = (p->in_columns + 2 * p->padding - p->kernel) / p->stride + 1;
    for (uint32_t n = byte(b) % (POOLS + 1); p->pools < n; p->pools++) {
        uint32_t *pool = p->pool[p->pools];
        pool[0] = byte(b) % 2;
        pool[1] = 1 + byte(b) % least(least(p->rows, p->columns), 4);
        pool[2] = 1 + byte(b) % 4;
        p->rows = (p->rows - pool[1]) / pool[2] + 1;
        p->columns = (p->columns - pool[1]) / pool[2] + 1;
    }
}

static void plan_dense(Bytes *b, LayerPlan *p, uint32_t inputs)
{
    p->kind = 0;
    p->in_channels = inputs;
    p->in_rows = p->in_columns = p->rows = p->columns = p->kernel = p->stride = 1;
    p->channels = 1 + word(b) % 1100;
}

/* The words of a row of gains: a bit for each input, or of a convolution `pixels` of them, if these are whole words. */
static uint32_t gain_words(const LayerPlan *p, uint32_t pixels)
{
    const uint32_t all = (p->in_channels * p->in_rows * p->in_columns + 31) / 32, bits = p->in_channels * pixels;
    return p->kind == 1 && bits && bits % 32 == 0 ? least(bits / 32, all) : all;
}

static void plan_layer(Bytes *b, LayerPlan *p, int is_last)
{
    const uint32_t inputs = p->in_channels * p->in_rows * p->in_columns, parts = word(b);
    if (parts & 1 && p->in_rows * p->in_columns > 1)
        plan_conv(b, p);
    else
        plan_dense(b, p, inputs);
    p->betas = parts & 2 ? p->channels * p->rows * p->columns : 1;
    p->thetas = parts & 4 ? p->channels * p->rows * p->columns : 1;
    p->bias = parts & 8;
    p->scale = parts & 16;
    p->delays = parts & 32;
    p->recurrent = (parts & 192) == 192;
    p->adaptive = (parts & 768) == 768;
    p->fires = !is_last || parts & 1024;
    p->loud = (parts & 6144) == 6144;
    p->longest = p->delays ? byte(b) * (parts & 8192 ? 2 : 1) % 600 : 0;
    p->gains = (parts & 49152) == 49152;
    p->largest_gain = p->gains ? 1 + byte(b) % (byte(b) % 2 ? 255 : 15) : 0;
    p->gain_words = p->gains ? gain_words(p, byte(b)) : 0;
    p->seed = whole(b);
}

static void plan_network(Bytes *b, Plan *plan)
{
    const uint32_t kinds = byte(b);
    plan->layers = 1 + kinds % 3;
    plan->input = kinds >> 2 & 1;
    plan->image = kinds >> 3 & 1;
    plan->shift = kinds >> 4 & 1 ? 8 : 0;
    plan->planes = 1 + (kinds >> 5);
    plan->in_channels = kinds & 2 ? 1 + byte(b) % 40 : 1 + word(b) % 900;
    plan->in_rows = kinds & 2 ? 1 + byte(b) % 14 : 1;
    plan->in_columns = kinds & 2 ? 1 + byte(b) % 14 : 1;
    plan->layer[0].in_channels = plan->in_channels;
    plan->layer[0].in_rows = plan->in_rows;
    plan->layer[0].in_columns = plan->in_columns;
    for (uint32_t l = 0; l < plan->layers; l++) {
        LayerPlan *p = &plan->layer[l];
        plan_layer(b, p, l + 1 == plan->layers);
        if (l + 1 < plan->layers) {
            p[1].in_channels = p->channels;
            p[1].in_rows = p->rows;
            p[1].in_columns = p->columns;
        }
    }
}

/* Other sizes here and there: what bs_check lets pass must run all the same. */
static void overwrite(Bytes *b, Plan *plan)
{
    const uint32_t many = byte(b);
    for (uint32_t i = 0; many > 200 && i < many % 4; i++) {
        const uint32_t where = byte(b), field = byte(b), how = byte(b);
        uint32_t *at = where % 4 == 3 ? (uint32_t *)plan + field % MODEL_FIELDS
                                      : (uint32_t *)&plan->layer[where % 4] + field % LAYER_FIELDS;
        *at = how < 100 ? *at + how % 5 - 2 : how < 150 ? how - 100 : whole(b);
    }
}

static void plan_acts(Bytes *b, Plan *plan)
{
    const uint32_t inputs = plan->in_channels * plan->in_rows * plan->in_columns;
    for (; plan->acts < MOST_ACTS && (b->at < b->end || plan->acts < 3); plan->acts++) {
        Act *act = &plan->act[plan->acts];
        const uint32_t how = byte(b);
        act->act = how % ACTS;
        act->style = how / ACTS;
        act->seed = act->act >= FRAME && act->act <= SHOW ? word(b) : 0;
        if (act->act != EVENT && act->act != SHOW)
            continue;
        act->index = how >= 248 ? whole(b) : act->act == SHOW ? byte(b) % 5 - 2 : word(b) % (inputs ? inputs : 1);
        act->count = how >= 248 ? whole(b) : act->act == SHOW ? byte(b) % 5 - 2 : byte(b);
    }
}

static void require_equal(const char *what, Outcome one, Outcome other)
{
    if (one.end == other.end && (one.end != RAN || one.digest == other.digest))
        return;
    fprintf(stderr, "fuzz: %s: builds answer otherwise\n", what);
    abort();
}

/* Whether a network is fed with nothing but counts. */
static int is_counted(const Plan *plan)
{
    for (uint32_t i = 0; i < plan->acts; i++)
        if (plan->act[i].act == SHOW)
            return 0;
    return plan->input == 0 && plan->image == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static Plan plan;
    Bytes bytes = {data, data + size};
    int vectors;
    Outcome found;
    memset(&plan, 0, sizeof plan);
    vectors = 2 + (int)byte(&bytes) % 3; /* AVX2, AVX-512, with VPOPCNTDQ: a smaller one where the processor has less */
    plan_network(&bytes, &plan);
    overwrite(&bytes, &plan);
    plan_acts(&bytes, &plan);
    found = run_float_small(&plan, 0);
    require_equal("vectors", found, run_float(&plan, vectors));
    require_equal("portable with wide weights", found, run_float(&plan, 1));
    if (is_counted(&plan))
        require_equal("counts only", found, run_float_counts(&plan, 0));
    require_equal("fixed point", run_fixed(&plan, 0), run_fixed_small(&plan, 0));
    return found.end == RAN ? 0 : -1; /* what did not run is no seed for others */
}

#ifdef ALONE
int main(int argc, char **argv)
{
    const long many = argc > 1 ? atol(argv[1]) : 1000;
    uint32_t s = 1;
    long ran = 0;
    for (long i = 0; i < many; i++) {
        uint8_t data[96];
        for (size_t j = 0; j < sizeof data; j++)
            data[j] = (uint8_t)(draw(&s) >> 8);
        ran += LLVMFuzzerTestOneInput(data, sizeof data) == 0;
    }
    printf("fuzz: %ld of %ld networks ran\n", ran, many);
    return 0;
}
#endif
