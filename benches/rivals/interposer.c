/* A library that an IOC is started with (LD_PRELOAD): its functions stand before those of EPICS Base, tell LTTng-UST what
 * iocrec's hits carry, and call Base's. It sees the calls that go through the table of linkage: all of dbProcess and
 * recGblFwdLink, and dbPut within dbPutField; none in an IOC that is linked statically. */
#define _GNU_SOURCE
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "interposer.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* Offsets of dbCommon's PACT, STAT and SEVR and of calc's VAL in Base 7.0.6 and later, 64-bit. */
enum { PACT = 505, STAT = 410, SEVR = 412, VALUE = 688 };

static void *base(const char *function)
{
    /* Python loads Base for itself alone, so RTLD_NEXT does not find it. */
    void *library = dlopen(getenv("BENCH_LIBRARY"), RTLD_LAZY | RTLD_NOLOAD);
    void *found = library ? dlsym(library, function) : NULL;
    if (!found)
        abort();
    return found;
}

static uint64_t word(const void *address)
{
    uint64_t value;
    memcpy(&value, address, sizeof value);
    return value;
}

static uint16_t half(const void *address)
{
    uint16_t value;
    memcpy(&value, address, sizeof value);
    return value;
}

long dbProcess(char *record)
{
    static long (*next)(void *);
    lttng_ust_tracepoint(ioc, process, record, __builtin_frame_address(0), (uint8_t) record[PACT]);
    if (!next)
        next = base("dbProcess");
    return next(record);
}

void recGblFwdLink(char *record)
{
    static void (*next)(void *);
    lttng_ust_tracepoint(ioc, complete, record, __builtin_frame_address(0), word(record + VALUE), half(record + SEVR),
                         half(record + STAT));
    if (!next)
        next = base("recGblFwdLink");
    next(record);
}

/* A dbAddr begins with the record and the field. */
long dbPut(void **address, short type, const void *buffer, long count)
{
    static long (*next)(void **, short, const void *, long);
    lttng_ust_tracepoint(ioc, put, address[0], __builtin_frame_address(0), type, count, word(buffer), word(address[1]));
    if (!next)
        next = base("dbPut");
    return next(address, type, buffer, count);
}
