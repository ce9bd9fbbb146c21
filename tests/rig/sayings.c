/* Subroutines of records that print, and that give up, in every way in which C code of a site does.
 *
 * ioc.py --routines loads it and calls register_routines(). A sub record names one of the functions in SNAM; A to C are
 * its arguments. The text has the values in it, so that a test knows who printed it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include <epicsAssert.h>
#include <epicsExit.h>
#include <errlog.h>
#include <registryFunction.h>
#include <subRecord.h>

/* Standard error, which is not kept back. */
static long complain(struct subRecord *record)
{
    fprintf(stderr, "%s complains of %g\n", record->name, record->a);
    return 0;
}

/* Standard output. */
static long say(struct subRecord *record)
{
    printf("%s says %g\n", record->name, record->a);
    return 0;
}

static long say_now(struct subRecord *record)
{
    say(record);
    fflush(stdout);
    return 0;
}

/* A line in three parts, with colours. */
static long stammer(struct subRecord *record)
{
    fprintf(stderr, "\033[31;1m%s", record->name);
    fprintf(stderr, "\033[0m stammers ");
    fprintf(stderr, "%g\n", record->a);
    return 0;
}

static long log_it(struct subRecord *record)
{
    errlogPrintf("%s logs %g\n", record->name, record->a);
    return 0;
}

static long log_severe(struct subRecord *record)
{
    errlogSevPrintf((int)record->b, "%s warns of %g\n", record->name, record->a);
    return 0;
}

static long log_error(struct subRecord *record)
{
    errPrintf(0, "sayings.c", 77, "%s errs by %g\n", record->name, record->a);
    return 0;
}

/* A long line; A is its length. */
static long ramble(struct subRecord *record)
{
    size_t length = (size_t)record->a;
    char *text = malloc(length + 1);

    memset(text, 'x', length);
    text[length] = '\n';
    if (write(2, text, length + 1) < 0)
        return -1;
    free(text);
    return 0;
}

/* A lines of one call each. */
static long flood(struct subRecord *record)
{
    int i;

    for (i = 0; i < (int)record->a; i++)
        fprintf(stderr, "flood %d\n", i);
    return 0;
}

/* In three pieces. */
static long pieces(struct subRecord *record)
{
    struct iovec parts[] = {{"*** ", 4}, {record->name, strlen(record->name)}, {" ***\n", 5}};

    return writev(2, parts, 3) < 0;
}

/* More pieces than are read. */
static long many_pieces(struct subRecord *record)
{
    struct iovec parts[40];
    int i;

    for (i = 0; i < 40; i++)
        parts[i] = (struct iovec){i < 39 ? "bit " : "\n", i < 39 ? 4 : 1};
    return writev(2, parts, 40) < 0;
}

/* Bytes that are no UTF-8, and a text that begins with an escape and never ends. */
static long garble(struct subRecord *record)
{
    fprintf(stderr, "garbled \xff\xfe\x01 \033]0;title");
    fprintf(stderr, "\n");
    return 0;
}

static long unfinished(struct subRecord *record)
{
    fprintf(stderr, "%s never ends", record->name);
    return 0;
}

static long quit(struct subRecord *record)
{
    exit((int)record->a);
}

/* As the shell does it: after the exit handlers. */
static long leave(struct subRecord *record)
{
    epicsExit((int)record->a);
    return 0;
}

static long suspend(struct subRecord *record)
{
    epicsAssert("sayings.c", 4711, "record->a == 7.5", NULL);
    return 0;
}

void register_routines(void)
{
#define ADD(name) registryFunctionAdd(#name, (REGISTRYFUNCTION)name)
    ADD(complain);
    ADD(say);
    ADD(say_now);
    ADD(stammer);
    ADD(log_it);
    ADD(log_severe);
    ADD(log_error);
    ADD(ramble);
    ADD(flood);
    ADD(pieces);
    ADD(many_pieces);
    ADD(garble);
    ADD(unfinished);
    ADD(quit);
    ADD(leave);
    ADD(suspend);
}
