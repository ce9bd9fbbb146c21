/* Threads of an IOC that put as clients, each with its own context of libca, as sequencer programs do. Apart from own_ioc.c,
 * since the headers of clients and of databases define the same names. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cadef.h>
#include <epicsThread.h>

/* A thread that puts as a client, when it is told to. */
static struct program {
    char name[40], pv[80];
    int told[2], done[2];
} programs[8];

static void written(struct event_handler_args unused)
{
    (void)unused;
}

/* These two have the names of the sequencer's functions, and call as they do: not as the last thing. */
__attribute__((noinline)) int pvVarPutNoBlock(chid channel, double *value)
{
    int status = ca_put(DBR_DOUBLE, channel, value);

    return status != ECA_NORMAL;
}

__attribute__((noinline)) int pvVarPutCallback(chid channel, double *value)
{
    int status = ca_put_callback(DBR_DOUBLE, channel, value, written, NULL);

    return status != ECA_NORMAL;
}

static int is_sequencer(const struct program *program)
{
    return !strncmp(program->name, "snc", 3);
}

static void run_program(void *own)
{
    struct program *program = own;
    double value;
    char how;
    chid channel;

    if (ca_context_create(ca_enable_preemptive_callback) != ECA_NORMAL ||
        ca_create_channel(program->pv, NULL, NULL, 0, &channel) != ECA_NORMAL || ca_pend_io(30) != ECA_NORMAL)
        exit(1);
    if (write(program->done[1], "", 1) != 1)
        exit(1);
    while (read(program->told[0], &how, 1) == 1 && read(program->told[0], &value, sizeof value) == sizeof value) {
        if (is_sequencer(program) && (how == 'n' ? pvVarPutCallback : pvVarPutNoBlock)(channel, &value))
            exit(1);
        else if (is_sequencer(program))
            ;
        else if (how == 'n')
            ca_put_callback(DBR_DOUBLE, channel, &value, written, NULL);
        else
            ca_put(DBR_DOUBLE, channel, &value);
        ca_flush_io();
        if (write(program->done[1], "", 1) != 1)
            exit(1);
    }
}

void start_program(char *name)
{
    char *pv = strchr(name, ' '), done;
    struct program *program = programs;

    while (program->name[0])
        program++;
    *pv = 0;
    snprintf(program->name, sizeof program->name, "%s", name);
    snprintf(program->pv, sizeof program->pv, "%s", pv + 1);
    if (pipe(program->told) || pipe(program->done))
        exit(1);
    epicsThreadCreate(program->name, epicsThreadPriorityMedium,
                      epicsThreadGetStackSize(epicsThreadStackMedium), run_program, program);
    if (read(program->done[0], &done, 1) != 1)
        exit(1);
}

void tell_program(char how, char *name)
{
    char *space = strchr(name, ' '), done;
    double value = strtod(space, NULL);
    struct program *program = programs;

    *space = 0;
    while (strcmp(program->name, name))
        program++;
    if (write(program->told[1], &how, 1) != 1 || write(program->told[1], &value, sizeof value) != sizeof value ||
        read(program->done[0], &done, 1) != 1)
        exit(1);
}
