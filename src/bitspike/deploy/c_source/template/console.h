/* What main.c needs of the machine: desktop.c has it, and for a Cortex-M cortex_m.c. */
#ifndef CONSOLE_H
#define CONSOLE_H

#include <stdint.h>

void console_write(const char *text);
void console_number(uint32_t number);

/* The time between start and stop is that of showing an image, or of one step. */
enum { SHOWING, STEPPING };
void clock_start(void);
void clock_stop(uint32_t what);

/* Write what the clock has found, and the stack that was used, if the machine can tell. */
void console_figures(void);

#endif
