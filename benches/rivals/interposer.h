/* The events of interposer.c, as LTTng-UST wants them: a header that it includes several times. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER ioc

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./interposer.h"

#if !defined(INTERPOSER_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define INTERPOSER_H
#include <lttng/tracepoint.h>
#include <stdint.h>

LTTNG_UST_TRACEPOINT_EVENT(
    ioc, process, LTTNG_UST_TP_ARGS(const char *, name, const void *, stack, uint8_t, active),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_string(name, name)
        lttng_ust_field_integer_hex(uint64_t, stack, (uintptr_t) stack)
        lttng_ust_field_integer(uint8_t, active, active)))

LTTNG_UST_TRACEPOINT_EVENT(
    ioc, complete,
    LTTNG_UST_TP_ARGS(const char *, name, const void *, stack, uint64_t, value, uint16_t, severity, uint16_t, status),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_string(name, name)
        lttng_ust_field_integer_hex(uint64_t, stack, (uintptr_t) stack)
        lttng_ust_field_integer_hex(uint64_t, value, value)
        lttng_ust_field_integer(uint16_t, severity, severity)
        lttng_ust_field_integer(uint16_t, status, status)))

LTTNG_UST_TRACEPOINT_EVENT(
    ioc, put,
    LTTNG_UST_TP_ARGS(const char *, name, const void *, stack, short, type, long, count, uint64_t, wanted,
                      uint64_t, before),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_string(name, name)
        lttng_ust_field_integer_hex(uint64_t, stack, (uintptr_t) stack)
        lttng_ust_field_integer(short, type, type)
        lttng_ust_field_integer(long, count, count)
        lttng_ust_field_integer_hex(uint64_t, wanted, wanted)
        lttng_ust_field_integer_hex(uint64_t, before, before)))
#endif
#include <lttng/tracepoint-event.h>
