/* An IOC with a main program of its own, as sites build them, linked to the shared libraries of
 * epicscorelibs or with EPICS Base in it (-DREGISTER=register_all, see static_base.py).
 *
 *     own_ioc DBD-DIRECTORY DATABASE [leave | slow | alone]
 *
 * Says "ready" on stdout once it serves; then carries out each line of stdin as an iocsh command and
 * says "done". With "leave" a thread does that, and the main thread ends (as by
 * epicsThreadExitMain), which leaves a process without a living first thread. With "slow" it waits for a line of
 * stdin before each step of its start, and says "step" before it waits. The command "exec DATABASE" starts the
 * program anew in the process, with another database. So does "reload DATABASE" with the IOC in the process, if it
 * was started "alone", which means without Channel Access: Base can end no other.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <dbAccess.h>
#include <dbStaticLib.h>
#include <iocInit.h>
#include <iocsh.h>
#include <iocshRegisterCommon.h>

#ifndef REGISTER
#define REGISTER registerAllRecordDeviceDrivers
#endif

long REGISTER(DBBASE *);
void testdbCleanup(void);

static const char *program, *definitions;
static int slow, alone;

static void step(void)
{
    char line[100];

    if (!slow)
        return;
    printf("step\n");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin))
        exit(1);
}

static int start(const char *database)
{
    step();
    if (dbLoadDatabase("base.dbd", definitions, NULL))
        return 1;
    step();
    if (REGISTER(pdbbase) || dbLoadRecords(database, ""))
        return 1;
    step();
    return alone ? iocBuildIsolated() || iocRun() : iocInit();
}

static void *obey(void *unused)
{
    char line[1000];

    (void)unused;
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        if (!strncmp(line, "exec ", 5)) {
            execl(program, program, definitions, line + 5, NULL);
            exit(1);
        } else if (strncmp(line, "reload ", 7)) {
            iocshCmd(line);
        } else {
            iocShutdown();
            testdbCleanup();
            if (start(line + 7))
                exit(1);
        }
        printf("done\n");
        fflush(stdout);
    }
    exit(0);
}

int main(int argc, char **argv)
{
    pthread_t thread;

    if (argc < 3)
        return 2;
    program = argv[0];
    definitions = argv[1];
    slow = argc > 3 && !strcmp(argv[3], "slow");
    alone = argc > 3 && !strcmp(argv[3], "alone");
    iocshRegisterCommon();
    if (start(argv[2]))
        return 1;
    if (argc == 3 || slow || alone)
        obey(NULL);
    if (pthread_create(&thread, NULL, obey, NULL))
        return 1;
    pthread_exit(NULL);
}
