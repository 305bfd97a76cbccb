/* What a Cortex-M needs before and after main: vectors, start, a console and a clock. Nothing of a vendor.
 *
 * The console is semihosting: a breakpoint that a debugger or qemu answers. Without either it stops the program, so
 * replace `console_write` and `leave` on a board of your own. The clock is SysTick.
 */
#include <stdint.h>

#include "console.h"

extern uint32_t stack_top[], data_start[], data_end[], data_load[], bss_start[], bss_end[];

int main(void);
void reset(void);

/* Operations of semihosting: the number is in r0, its argument in r1, and the answer in r0. */
#define SYS_WRITE0 0x04u
#define SYS_EXIT_EXTENDED 0x20u

static void semihost(uint32_t operation, const void *argument)
{
    register uint32_t r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
}

void console_write(const char *text)
{
    semihost(SYS_WRITE0, text);
}

void console_number(uint32_t number)
{
    char digits[11];
    char *first = digits + sizeof digits - 1;
    *first = 0;
    do {
        *--first = (char)('0' + number % 10u);
        number /= 10u;
    } while (number);
    console_write(first);
}

static void leave(int status)
{
    const uint32_t argument[2] = {0x20026, (uint32_t)status}; /* the application has ended by itself */
    semihost(SYS_EXIT_EXTENDED, argument);
    for (;;) {
    }
}

/* SysTick: control, reload and current value. It counts 24 bits down, at the clock of the processor. */
#define SYSTICK ((volatile uint32_t *)0xE000E010)
#define SYSTICK_LARGEST 0xFFFFFFu

static uint32_t started;
static struct {
    uint32_t times, all, longest; /* ticks */
} taken[2];

void clock_start(void)
{
    SYSTICK[1] = SYSTICK_LARGEST;
    SYSTICK[0] = 5; /* on, the processor's clock, no interrupt */
    started = SYSTICK[2];
}

void clock_stop(uint32_t what)
{
    const uint32_t ticks = (started - SYSTICK[2]) & SYSTICK_LARGEST;
    taken[what].times++;
    taken[what].all += ticks;
    if (ticks > taken[what].longest) {
        taken[what].longest = ticks;
    }
}

/* The stack is filled with a pattern, so that main can say how much of it was used. */
#define UNUSED 0xB175B17Eu

extern uint32_t stack_bottom[];

static uint32_t stack_bytes_used(void)
{
    const uintptr_t top = (uintptr_t)stack_top;
    const uint32_t *word = stack_bottom;
    while ((uintptr_t)word < top && *word == UNUSED) {
        word++;
    }
    return (uint32_t)(top - (uintptr_t)word);
}

static void write_ticks(const char *what, uint32_t index)
{
    console_write(what);
    console_number(taken[index].times);
    console_write(" times, ");
    console_number(taken[index].all);
    console_write(" ticks, the longest ");
    console_number(taken[index].longest);
    console_write("\n");
}

void console_figures(void)
{
    write_ticks("shown: ", SHOWING);
    write_ticks("steps: ", STEPPING);
    console_write("stack: ");
    console_number(stack_bytes_used());
    console_write(" bytes\n");
}

void reset(void)
{
    const uint32_t *from = data_load;
    uint32_t *to;
    uintptr_t used;

    for (to = data_start; (uintptr_t)to < (uintptr_t)data_end; to++) {
        *to = *from++;
    }
    for (to = bss_start; (uintptr_t)to < (uintptr_t)bss_end; to++) {
        *to = 0;
    }
    __asm__ volatile("mov %0, sp" : "=r"(used));
    for (to = stack_bottom; (uintptr_t)to < used; to++) {
        *to = UNUSED;
    }
#ifdef __ARM_FP
    *(volatile uint32_t *)0xE000ED88 |= 0xFu << 20; /* the floating-point unit is off after a reset */
    __asm__ volatile("dsb\n\tisb" ::: "memory");
#endif
    leave(main());
}

static void fault(void)
{
    console_write("error: the processor has met a fault\n");
    leave(2);
}

/* The first words of memory: the stack's top, reset, and the other exceptions of the processor. */
struct vectors {
    uint32_t *stack;
    void (*exception[15])(void);
};

extern const struct vectors vectors;
__attribute__((section(".vectors"), used)) const struct vectors vectors = {
    stack_top,
    {reset, fault, fault, fault, fault, fault, fault, fault, fault, fault, fault, fault, fault, fault, fault},
};
