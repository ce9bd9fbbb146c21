/* Subroutines of records that end their IOC, as faults in C code of a site do.
 *
 * ioc.py --routines loads it and calls register_routines(). A sub record names one of the functions in SNAM; what it does
 * then, it does in the thread that processes the record.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
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

void register_routines(void)
{
    registryFunctionAdd("crash", (REGISTRYFUNCTION) crash);
    registryFunctionAdd("give_up", (REGISTRYFUNCTION) give_up);
    registryFunctionAdd("leave", (REGISTRYFUNCTION) leave);
    registryFunctionAdd("eat", (REGISTRYFUNCTION) eat);
}
