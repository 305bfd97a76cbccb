/* What every kernel says to the compiler: what is exported, what is inlined, what is built for several processors. */
#ifndef BITSPIKE_COMPILER_H
#define BITSPIKE_COMPILER_H

#include <stdint.h> /* any of the C library's headers says whether it is glibc */

#define EXPORT __attribute__((visibility("default")))
#define INLINE static inline __attribute__((always_inline))

/* One copy for each generation of x86-64, chosen when loaded; needs glibc's loader and a recent GCC. */
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__) && __GNUC__ >= 12
#define FOR_EACH_CPU __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define FOR_EACH_CPU
#endif

#endif
