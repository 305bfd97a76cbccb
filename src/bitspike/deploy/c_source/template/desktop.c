/* The console of a desktop. It takes no time: the system has tools for that. */
#include "console.h"

#include <stdio.h>

void console_write(const char *text)
{
    fputs(text, stdout);
}

void console_number(uint32_t number)
{
    printf("%lu", (unsigned long)number);
}

void clock_start(void)
{
}

void clock_stop(uint32_t what)
{
    (void)what;
}

void console_figures(void)
{
}
