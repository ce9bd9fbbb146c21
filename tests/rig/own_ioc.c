/* An IOC with a main program of its own, as sites build them, linked to the shared libraries of
 * epicscorelibs.
 *
 *     own_ioc DBD-DIRECTORY DATABASE [leave]
 *
 * Says "ready" on stdout once it serves; then carries out each line of stdin as an iocsh command and
 * says "done". With "leave" a thread does that, and the main thread ends (as by
 * epicsThreadExitMain), which leaves a process without a living first thread.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dbAccess.h>
#include <dbStaticLib.h>
#include <iocInit.h>
#include <iocsh.h>
#include <iocshRegisterCommon.h>

static void *obey(void *unused)
{
    char line[1000];

    (void)unused;
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        iocshCmd(line);
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
    iocshRegisterCommon();
    if (dbLoadDatabase("base.dbd", argv[1], NULL) || registerAllRecordDeviceDrivers(pdbbase)
        || dbLoadRecords(argv[2], "") || iocInit())
        return 1;
    if (argc == 3)
        obey(NULL);
    if (pthread_create(&thread, NULL, obey, NULL))
        return 1;
    pthread_exit(NULL);
}
