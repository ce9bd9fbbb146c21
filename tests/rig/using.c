/* Subroutines of records that use the machine: CPU time, memory, descriptors, as much as they are told.
 *
 * ioc.py --routines loads it and calls register_routines(). A sub record names one of the functions in SNAM; A is its
 * argument.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <registryFunction.h>
#include <subRecord.h>

static double used(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec + now.tv_nsec * 1e-9;
}

/* Uses A milliseconds of CPU time. */
static long spin(struct subRecord *record)
{
    double until = used() + record->a / 1000;
    while (used() < until)
        ;
    return 0;
}

/* The compiler leaves out what nobody could read. */
char *taken;

/* Takes A MiB for ever, and writes to all of it. */
static long grow(struct subRecord *record)
{
    size_t size = (size_t)(record->a * 1024 * 1024);
    taken = malloc(size);
    if (taken)
        memset(taken, 7, size);
    return 0;
}

/* Opens A descriptors, which stay open. */
static long open_some(struct subRecord *record)
{
    int left;
    for (left = (int)record->a; left > 0; left--)
        open("/dev/null", O_RDONLY);
    return 0;
}

#define REGISTER(function) registryFunctionAdd(#function, (REGISTRYFUNCTION)function)

void register_routines(void)
{
    REGISTER(spin);
    REGISTER(grow);
    REGISTER(open_some);
}
