/* Runs the network on its test vector and compares the answer bit for bit, but for the sign of a zero, which is not
 * defined. One line says how it went.
 *
 * `run` is also an example of how to use the network. There is one for images, and one for sequences.
 */
#include <stdint.h>

#include "console.h"
#include "model.h"
#include "test_vector.h"

#define LAST (MODEL_LAYERS - 1u)
#ifdef BS_SMALL
#define MISFIT 0 /* the desktop has checked the sizes of the same constants */
#else
#define MISFIT bs_check(&model)
#endif
#define WORDS ((MODEL_CLASSES + 31u) / 32u)

#if MODEL_EVENTS
typedef uint8_t value;
#else
typedef float value;
#endif

static uint64_t state[MODEL_STATE_WORDS];
static value input[MODEL_INPUTS];
static float scores[MODEL_CLASSES];

static uint32_t wrong_spikes, wrong_membranes, wrong_scores, fired;

/* The next input. For each value s becomes 1664525 s + 1013904223; where the bits 16..23 of s are at least `density`,
 * the value is 0, else a spike is 1, and a pixel the bits 24..31 of s, divided by 255. */
static void draw(uint32_t *s)
{
    for (uint32_t i = 0; i < MODEL_INPUTS; i++) {
        *s = 1664525u * *s + 1013904223u;
        input[i] = 0;
        if (((*s >> 16) & 255u) < vector.density) {
            input[i] = MODEL_IMAGE ? (value)((float)(*s >> 24) / 255.0f) : (value)1;
        }
    }
}

static uint32_t ones(uint32_t bits)
{
    uint32_t count = 0;
    for (; bits; bits &= bits - 1) {
        count++;
    }
    return count;
}

static void compare_spikes(uint32_t step)
{
    const uint32_t *spikes = bs_spikes(&model, state, LAST);
    for (uint32_t w = 0; vector.spikes && w < WORDS; w++) {
        wrong_spikes += ones(spikes[w] ^ vector.spikes[step * WORDS + w]);
        fired += ones(spikes[w]);
    }
}

#if MODEL_IMAGE
/* An image: shown at one place or several, from rest at each. */
static int run(void)
{
    const uint32_t each = vector.steps / MODEL_GLANCES;
    uint32_t s = vector.seed;
    draw(&s);
    for (uint32_t glance = 0; glance < MODEL_GLANCES; glance++) {
        clock_start();
        bs_rest(&model, state);
        bs_show(&model, state, input, model_places[glance][0], model_places[glance][1]);
        clock_stop(SHOWING);
        for (uint32_t t = 0; t < each; t++) {
            clock_start();
            if (bs_step(&model, state, NULL)) {
                return -1;
            }
            clock_stop(STEPPING);
            compare_spikes(glance * each + t);
        }
    }
    return 0;
}
#else
/* A sequence: the events of a step, then the step; or, where inputs are real numbers, all of them at once. */
static int run(void)
{
    uint32_t s = vector.seed;
    for (uint32_t t = 0; t < vector.steps; t++) {
        int failed = 0;
        draw(&s);
        clock_start();
#if MODEL_EVENTS
        for (uint32_t i = 0; i < MODEL_INPUTS; i++) {
            if (input[i]) {
                failed |= bs_event(&model, state, i, input[i]);
            }
        }
        failed |= bs_step(&model, state, NULL);
#else
        failed |= bs_step(&model, state, input);
#endif
        if (failed) {
            return -1;
        }
        clock_stop(STEPPING);
        compare_spikes(t);
    }
    return 0;
}
#endif

static void write_count(const char *before, uint32_t number, const char *after)
{
    console_write(before);
    console_number(number);
    console_write(after);
}

static void compare_numbers(void)
{
    const bs_number *membrane = bs_membrane(&model, state, LAST);
    bs_scores(&model, state, scores);
    for (uint32_t i = 0; i < MODEL_CLASSES; i++) {
#ifdef BS_FIXED
        const float u = (float)membrane[i] / 65536.0f;
#else
        const float u = membrane[i];
#endif
        wrong_membranes += u != vector.membrane[i];
        wrong_scores += scores[i] != vector.scores[i];
    }
}

static int report(void)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < MODEL_CLASSES; i++) {
        best = scores[i] > scores[best] ? i : best;
    }
    if (wrong_spikes || wrong_membranes || wrong_scores) {
        write_count("check: FAILED: ", wrong_spikes, " spikes, ");
        write_count("", wrong_membranes, " membranes and ");
        write_count("", wrong_scores, " scores differ from the test vector\n");
        return 1;
    }
    write_count("check: ok: ", vector.steps, " steps, ");
    write_count("", fired, " spikes of the last layer, ");
    write_count("", MODEL_CLASSES, " scores, all as expected; class ");
    write_count("", best, " (");
    console_write(model_class_names[best]);
    console_write(")\n");
    return 0;
}

int main(void)
{
    if (bs_state_bytes(&model) > sizeof state || MISFIT) {
        console_write("check: FAILED: the model does not fit this runtime\n");
        return 1;
    }
    bs_reset(&model, state);
    if (run()) {
        console_write("check: FAILED: the network refuses the test vector\n");
        return 1;
    }
    compare_numbers();
    console_figures();
    return report();
}
