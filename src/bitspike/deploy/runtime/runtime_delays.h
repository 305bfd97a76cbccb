/* A part of runtime.c: delays: what comes in now is written where it is read later. */
#ifndef BITSPIKE_RUNTIME_DELAYS_H
#define BITSPIKE_RUNTIME_DELAYS_H

#include "runtime_inputs.h"

/* The slot of the line that is `later` steps ahead. */
static size_t slot_at(const bs_layer *layer, const Parts *p, uint32_t later)
{
    const size_t slot = (size_t)*p->slot + later;
    return slot > layer->longest ? slot - layer->longest - 1 : slot;
}

/* The planes that arrive now; those that come in are kept. A slot holds `planes` of them. */
static Planes delayed(const Kernels *k, const bs_layer *layer, const Parts *p, Planes in, uint32_t planes)
{
    const uint32_t size = planes * in.words, slots = layer->longest + 1;
    const uint32_t channels = layer->kind == BS_CONV ? layer->in_channels : 0;
    const uint16_t *delays = layer->delays;
    uint32_t *line = p->line, *const here = line + (size_t)*p->slot * size;
    const ptrdiff_t back = (ptrdiff_t)slots * size; /* from behind the line's end to its start */
    const uint32_t before_end = slots - *p->slot;
    const Planes now = {here, planes, in.words};
    uint32_t list[PIECE + 16]; /* vector code writes behind the last */
    for (uint32_t plane = 0; plane < in.planes; plane++)
        for (uint32_t done = 0; done < 32 * in.words; done += PIECE) {
            const uint32_t left = 32 * in.words - done, many = left < PIECE ? left : PIECE;
            const uint32_t n = k->list_bits(in.bits + (size_t)plane * in.words, done, many, done, list);
            uint32_t *to = here + (size_t)plane * in.words;
            for (uint32_t i = 0; i < n; i++) {
                const uint32_t input = list[i], later = delays[channels ? input % channels : input];
                const ptrdiff_t around = -(ptrdiff_t)(later >= before_end) & back; /* no branch: delays are at random */
                to[(ptrdiff_t)later * size - around + input / 32] |= 1u << input % 32;
            }
        }
    return now;
}

static void forget_slot(const bs_layer *layer, const Parts *p, Planes now)
{
    const size_t size = (size_t)now.planes * now.words;
    zero((uint32_t *)p->line + *p->slot * size, size * sizeof(uint32_t));
    *p->slot = (uint32_t)slot_at(layer, p, 1);
}

static const float *delayed_frame(const bs_layer *layer, const Parts *p, const float *frame)
{
    const size_t inputs = inputs_of(layer), pixels = (size_t)layer->in_rows * layer->in_columns;
    float *line = p->line;
    const float *now = line + *p->slot * inputs;
    for (size_t i = 0; i < inputs; i++) { /* every input writes one slot a step, so none needs to be cleared */
        const uint32_t later = layer->delays[layer->kind == BS_CONV ? i / pixels : i];
        line[slot_at(layer, p, later) * inputs + i] = frame ? frame[i] : 0.0f;
    }
    *p->slot = (uint32_t)slot_at(layer, p, 1);
    return now;
}

#endif
