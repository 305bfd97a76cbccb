/* A part of runtime.c: takes back what a copy of runtime_rows.h was made with. */
#undef NAME
#undef TARGET
#undef WORDS
#undef Vector
#undef ZERO
#undef LOAD
#undef SUM
#undef CARRY
#undef ONES
