/* Subroutines of records that end their IOC, as faults in C code of a site do.
 *
 * ioc.py --routines loads it and calls register_routines(); so does own_ioc.c with -DROUTINES. A sub record names one of the functions in SNAM; what it does
 * then, it does in the thread that processes the record.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <registryFunction.h>

struct subRecord;

/* Writes where nothing is: 8 is no address of a process. */
static long crash(struct subRecord *record)
{
    *(volatile int *)8 = 1;
    return 0;
}

static long give_up(struct subRecord *record)
{
    abort();
}

static long leave(struct subRecord *record)
{
    _exit(3);
}

/* Takes memory, and uses it, until there is none: whoever bounds it ends the process, or malloc says no, and the record
 * goes on. */
static long eat(struct subRecord *record)
{
    const size_t piece = 1 << 20;
    char *memory;

    while ((memory = malloc(piece)))
        memset(memory, 1, piece);
    return -1;
}

/* An address of which the tests know. */
static long crash_at(struct subRecord *record)
{
    *(volatile int *)0x1230 = 1;
    return 0;
}

static long divide(struct subRecord *record)
{
    static volatile int one = 1, zero;

    return one / zero;
}

/* Calls itself until its stack is full. */
static volatile int endless = 1;

static __attribute__((noinline)) int deeper(int depth)
{
    volatile char frame[200];

    frame[0] = (char)depth;
    if (endless)
        depth += deeper(depth + 1);
    return depth + frame[0];
}

static long overflow(struct subRecord *record)
{
    return deeper(0);
}

/* Runs code where none is. */
static long jump(struct subRecord *record)
{
    ((void (*)(void))0x2340)();
    return 0;
}

static long leave_well(struct subRecord *record)
{
    exit(3);
}

/* As Python's faulthandler: says something, and ends by the same signal. */
static void report(int signal)
{
    static const char text[] = "a report\n";
    struct sigaction standard = { .sa_handler = SIG_DFL };

    if (write(2, text, sizeof text - 1) < 0)
        return;
    sigaction(signal, &standard, NULL);
    raise(signal);
}

static long handle(struct subRecord *record)
{
    struct sigaction handler = { .sa_handler = report };

    sigaction(SIGSEGV, &handler, NULL);
    sigaction(SIGTERM, &handler, NULL);
    return 0;
}

/* Signals that do no harm. */
static void go_on(int signal)
{
}

static long endure(struct subRecord *record)
{
    struct sigaction handler = { .sa_handler = go_on, .sa_flags = SA_RESTART };

    sigaction(SIGUSR1, &handler, NULL);
    return 0;
}

/* Writes to whom nobody reads, as to a client that has gone. */
static long hang_up(struct subRecord *record)
{
    int ends[2];

    if (pipe(ends))
        return -1;
    close(ends[0]);
    if (write(ends[1], "gone", 4) >= 0)
        abort();
    close(ends[1]);
    return 0;
}

/* A timer that ends the process, while any other one runs. */
static long wind_up(struct subRecord *record)
{
    struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGTERM };
    struct itimerspec soon = { .it_value = { 0, 300000000 } };
    timer_t timer;

    if (timer_create(CLOCK_MONOTONIC, &event, &timer) || timer_settime(timer, 0, &soon, NULL))
        return -1;
    return 0;
}

/* One fault after another: the handler faults, too. */
static void stumble(int signal)
{
    *(volatile int *)0x3450 = 1;
}

static long fall_twice(struct subRecord *record)
{
    struct sigaction handler = { .sa_handler = stumble };

    sigaction(SIGSEGV, &handler, NULL);
    *(volatile int *)0x1230 = 1;
    return 0;
}

/* A child that shares the memory crashes; the IOC goes on. */
static long lose_child(struct subRecord *record)
{
    if (vfork() == 0) {
        *(volatile int *)0x5670 = 1;
        _exit(1);
    }
    return 0;
}

void register_routines(void)
{
    registryFunctionAdd("wind_up", (REGISTRYFUNCTION) wind_up);
    registryFunctionAdd("fall_twice", (REGISTRYFUNCTION) fall_twice);
    registryFunctionAdd("lose_child", (REGISTRYFUNCTION) lose_child);
    registryFunctionAdd("hang_up", (REGISTRYFUNCTION) hang_up);
    registryFunctionAdd("endure", (REGISTRYFUNCTION) endure);
    registryFunctionAdd("crash_at", (REGISTRYFUNCTION) crash_at);
    registryFunctionAdd("divide", (REGISTRYFUNCTION) divide);
    registryFunctionAdd("overflow", (REGISTRYFUNCTION) overflow);
    registryFunctionAdd("jump", (REGISTRYFUNCTION) jump);
    registryFunctionAdd("leave_well", (REGISTRYFUNCTION) leave_well);
    registryFunctionAdd("handle", (REGISTRYFUNCTION) handle);
    registryFunctionAdd("crash", (REGISTRYFUNCTION) crash);
    registryFunctionAdd("give_up", (REGISTRYFUNCTION) give_up);
    registryFunctionAdd("leave", (REGISTRYFUNCTION) leave);
    registryFunctionAdd("eat", (REGISTRYFUNCTION) eat);
}
