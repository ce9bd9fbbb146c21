/* Subroutines of records that hold up their thread in every way in which device support of a site does.
 *
 * ioc.py --routines loads it and calls register_routines(). A sub record names one of the functions in SNAM; A is the
 * time in seconds, B a port on loopback.
 */
#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <callback.h>
#include <dbScan.h>
#include <epicsAssert.h>
#include <epicsEvent.h>
#include <epicsMutex.h>
#include <epicsThread.h>
#include <registryFunction.h>
#include <subRecord.h>

static epicsMutexId mutex;

static long doze(struct subRecord *record)
{
    if (record->a > 0)
        epicsThreadSleep(record->a);
    return 0;
}

/* Holds a mutex that is no record's. */
static long grab(struct subRecord *record)
{
    epicsMutexMustLock(mutex);
    doze(record);
    epicsMutexUnlock(mutex);
    return 0;
}

static int device(double port)
{
    struct sockaddr_in to;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    memset(&to, 0, sizeof to);
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons((unsigned short)port);
    if (connect(fd, (struct sockaddr *)&to, sizeof to) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Asks a device that never answers, as asyn does. */
static long ask(struct subRecord *record)
{
    struct pollfd wait = {device(record->b), POLLIN, 0};

    if (record->a > 0 && wait.fd >= 0)
        poll(&wait, 1, (int)(record->a * 1000));
    close(wait.fd);
    return 0;
}

/* The same with a receive that has a limit. */
static long receive(struct subRecord *record)
{
    struct timeval limit = {(long)record->a, 0};
    char byte;
    int fd = device(record->b);

    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (record->a > 0 && fd >= 0 && recv(fd, &byte, 1, 0) < 0)
        record->val = -1;
    close(fd);
    return 0;
}

/* Waits for an event that nobody signals. */
static long await(struct subRecord *record)
{
    epicsEventId event = epicsEventMustCreate(epicsEventEmpty);

    if (record->a > 0)
        epicsEventWaitWithTimeout(event, record->a);
    epicsEventDestroy(event);
    return 0;
}

/* Calculates for A seconds of time, with no system call. */
static long spin(struct subRecord *record)
{
    struct timespec now, end;

    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += (time_t)record->a;
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while (record->a > 0 && now.tv_sec < end.tv_sec);
    return 0;
}

static CALLBACK callback;
static int dozes;

static void idle(CALLBACK *unused)
{
    (void)unused;
}

/* Asks A times for a callback of low priority, or, with B, for itself to be processed by scanOnce, which first sleeps
 * C seconds. */
static long flood(struct subRecord *record)
{
    int left = (int)record->a;

    if (strcmp(epicsThreadGetNameSelf(), "scanOnce") == 0) {
        if (dozes) {
            dozes = 0;
            epicsThreadSleep(record->c);
        }
        return 0;
    }
    dozes = 1;
    callbackSetCallback(idle, &callback);
    callbackSetPriority(priorityLow, &callback);
    while (left-- > 0)
        if (record->b)
            scanOnce((struct dbCommon *)record);
        else
            callbackRequest(&callback);
    return 0;
}

/* Writes what Base says of its queues into the file named by QUEUES: high-water mark, size and overflows of the queue of
 * low priority, and of scanOnce. */
static long count(struct subRecord *record)
{
    callbackQueueStats callbacks;
    scanOnceQueueStats once;
    FILE *file = fopen(getenv("QUEUES"), "w");

    (void)record;
    if (!file || callbackQueueStatus(0, &callbacks) || scanOnceQueueStatus(0, &once))
        return -1;
    fprintf(file, "%d %d %d\n", callbacks.maxUsed[0], callbacks.size, callbacks.numOverflow[0]);
    fprintf(file, "%d %d %d\n", once.maxUsed, once.size, once.numOverflow);
    fclose(file);
    return 0;
}

static long give_up(struct subRecord *record)
{
    if (record->a > 0)
        epicsAssert("stuck.c", 4712, "record->a == 0", NULL);
    return 0;
}

void register_routines(void)
{
#define ADD(name) registryFunctionAdd(#name, (REGISTRYFUNCTION)name)
    mutex = epicsMutexMustCreate();
    ADD(doze);
    ADD(grab);
    ADD(ask);
    ADD(receive);
    ADD(await);
    ADD(give_up);
    ADD(spin);
    ADD(count);
    ADD(flood);
}
