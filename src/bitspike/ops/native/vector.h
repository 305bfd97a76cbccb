/* Eight floats, or sixteen small whole numbers, at once, wherever they lie. */
#ifndef BITSPIKE_VECTOR_H
#define BITSPIKE_VECTOR_H

#include <stdint.h>
#include <string.h>

#include "native/compiler.h"

typedef float Vector __attribute__((vector_size(32)));
typedef int16_t Shorts __attribute__((vector_size(32)));

INLINE Vector load(const float *from)
{
    Vector v;
    memcpy(&v, from, sizeof v);
    return v;
}

INLINE void store(float *to, Vector v)
{
    memcpy(to, &v, sizeof v);
}

INLINE Shorts load_shorts(const int16_t *from)
{
    Shorts v;
    memcpy(&v, from, sizeof v);
    return v;
}

#endif
