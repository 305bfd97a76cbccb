/* A part of runtime.c: the kernels for x86-64 with AVX2 or AVX-512, chosen when they run. The same bits come out. */
#ifndef BITSPIKE_RUNTIME_X86_H
#define BITSPIKE_RUNTIME_X86_H

#include "runtime_avx2.h"
#include "runtime_avx512.h"
#include "runtime_avx512_fire.h"

static const Kernels avx2 = {
    .plane_floats = plane_floats_avx2,
    .plane_bytes = plane_bytes_portable,
    .add_rows = add_rows_avx2,
    .add_planes = add_planes_avx2,
    .list_bits = list_bits_portable,
    .count_pixels = count_pixels_avx2,
    .move_list = move_list_avx2,
    .pool_columns = pool_columns_avx2,
    .add_reals = add_reals_portable,
    .pool_sums = pool_sums_avx2,
    .reals_to_current = reals_to_current_avx2,
    .to_current = to_current_avx2,
    .fire = fire_avx2,
};

#define KERNELS_AVX512 \
    .plane_floats = plane_floats_avx512, \
    .plane_bytes = plane_bytes_avx512, \
    .add_rows = any_rows_avx512, \
    .add_planes = any_planes_avx512, \
    .list_bits = list_bits_avx512, \
    .count_pixels = count_pixels_avx512, \
    .move_list = move_list_avx512, \
    .pool_columns = pool_columns_avx512, \
    .add_reals = add_reals_avx512, \
    .pool_sums = pool_sums_avx512, \
    .reals_to_current = reals_to_current_avx512, \
    .to_current = to_current_avx512, \
    .fire = fire_avx512, \
    .fire_rows = fire_rows_avx512
static const Kernels avx512 = {KERNELS_AVX512};
static const Kernels avx512_popcount = {KERNELS_AVX512, .count_shared = count_shared_avx512};

/* For tests: 0 chooses by the processor, 1 is portable, 2 AVX2, 3 AVX-512, 4 with its VPOPCNTDQ. */
int bs_vectors = 0;

static const Kernels *kernels(void)
{
    static const Kernels *const all[] = {&portable, &portable, &avx2, &avx512, &avx512_popcount};
    int level = 1;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("popcnt"))
        level = 2;
    if (level == 2 && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        level = __builtin_cpu_supports("avx512vpopcntdq") ? 4 : 3;
    return all[bs_vectors > 0 && bs_vectors < level ? bs_vectors : level];
}

#endif
