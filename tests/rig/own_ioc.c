/* An IOC with a main program of its own, as sites build them, linked to the shared libraries of
 * epicscorelibs or with EPICS Base in it (-DREGISTER=register_all, see static_base.py).
 *
 *     own_ioc DBD-DIRECTORY DATABASE [leave | later | slow | alone]
 *
 * Says "ready" on stdout once it serves; then carries out each line of stdin as an iocsh command and
 * says "done". With "leave" a thread does that, and the main thread ends (as by
 * epicsThreadExitMain), which leaves a process without a living first thread. With "slow" it waits for a line of
 * stdin before each step of its start, and says "step" before it waits; the line "fork" makes a child first, which does
 * nothing. The command "exec DATABASE" starts the
 * program anew in the process, with another database. So does "reload DATABASE" with the IOC in the process, if it
 * was started "alone", which means without Channel Access: Base can end no other.
 *
 * More commands: "leave" ends the main thread, if it was started with "later"; "anonymous" takes the names from all
 * threads, as 3.14 has them; "fork PV" puts to a PV in a forked child and says how that ended;
 * "program NAME PV" starts a thread of that name that connects to a PV as a client, as a sequencer program
 * does, with functions of the sequencer's names if its name begins with "snc"; "put NAME VALUE" and "notify NAME VALUE" let it put, without and with callback;
 * "name TYPE ffs" makes libc's ffs() the function that processes the records of a type, and says its address; "name TYPE
 * inside" makes it an address one byte behind; "patch FUNCTION" changes the code of a function in memory, but not what
 * it does; "map FUNCTION" maps the file that has a function once more, as data; "load LIBRARY" loads a library; "say TEXT"
 * writes a line; "quit" ends it by epicsExit, as softIoc's shell does.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <dirent.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <callback.h>
#include <dbAccess.h>
#include <dbBase.h>
#include <dbCommon.h>
#include <dbNotify.h>
#include <dbScan.h>
#include <dbStaticLib.h>
#include <epicsExit.h>
#include <iocInit.h>
#include <iocsh.h>
#include <iocshRegisterCommon.h>

#ifndef REGISTER
#define REGISTER registerAllRecordDeviceDrivers
#endif

long REGISTER(DBBASE *);
void testdbCleanup(void);
#ifdef ROUTINES
#include ROUTINES
#endif
/* own_threads.c */
void start_program(char *name);
void tell_program(char how, char *name);

static const char *program, *definitions;
static int slow, alone;
static int leaving[2];

#ifdef FORWARDS
/* Takes the place of recGblFwdLink in all calls (ld --wrap), and does the same: as if each caller had its own copy. */
void __wrap_recGblFwdLink(void *record)
{
    dbCommon *common = record;

    dbScanFwdLink(&common->flnk);
    if (common->ppn)
        dbNotifyCompletion(common);
    if (common->rpro) {
        common->rpro = FALSE;
        scanOnce(common);
    }
    common->putf = FALSE;
}
#endif

#ifdef PADDING
/* Moves all that is behind it. */
__asm__(".text\n.skip 4099, 0x90\n");
#endif

static void anonymous(void)
{
    char path[300];
    struct dirent *thread;
    DIR *threads = opendir("/proc/self/task");

    while ((thread = readdir(threads))) {
        int file;

        if (thread->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", thread->d_name);
        file = open(path, O_WRONLY);
        if (file < 0 || write(file, "ioc", 3) != 3)
            exit(1);
        close(file);
    }
    closedir(threads);
}

static void nothing(CALLBACK *unused)
{
    (void)unused;
}

/* Base itself says that its threads and locks are not to be used in a forked child; these functions need none. */
static void fork_and_put(const char *pv)
{
    static const double value = 4711;
    static CALLBACK callback;
    int status;
    pid_t child;
    DBADDR address;

    if (dbNameToAddr(pv, &address))
        exit(1);
    callbackSetCallback(nothing, &callback);
    callbackSetPriority(priorityLow, &callback);
    fflush(stdout);
    child = fork();
    if (!child) {
        int i;

        alarm(20);
        for (i = 0; i < 100; i++) {
            callbackRequest(&callback);
            if (dbPut(&address, DBR_DOUBLE, &value, 1))
                _exit(1);
        }
        _exit(7);
    }
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status))
        printf("killed by %d\n", WTERMSIG(status));
    else
        printf("exit %d\n", WEXITSTATUS(status));
}

/* A process routine is the fifth pointer of a table that each record type has. */
static void name(const char *type, const char *what)
{
    int (*volatile ffs_of_libc)(int) = ffs;
    dbRecordType *found = (dbRecordType *)ellFirst(&pdbbase->recordTypeList);
    void **table = malloc(18 * sizeof *table);

    while (strcmp(found->name, type))
        found = (dbRecordType *)ellNext(&found->node);
    memcpy(table, found->prset, 18 * sizeof *table);
    if (strcmp(what, "ffs"))
        table[4] = (char *)table[4] + 1;
    else
        table[4] = (void *)ffs_of_libc;
    printf("%lx\n", (unsigned long)table[4]);
    found->prset = (void *)table;
}

static void patch(const char *function)
{
    unsigned char *code = dlsym(RTLD_DEFAULT, function);
    long page = sysconf(_SC_PAGESIZE);

    if (!code || mprotect((void *)((unsigned long)code & -page), page, PROT_READ | PROT_WRITE | PROT_EXEC))
        exit(1);
    /* it returns at once: nothing calls it */
    code[0] = 0xc3;
}

/* As programs do that look up symbols. The kernel places it below what is there. */
static void map(const char *function)
{
    Dl_info found;
    int file;

    if (!dladdr(dlsym(RTLD_DEFAULT, function), &found) || (file = open(found.dli_fname, O_RDONLY)) < 0
        || mmap(NULL, 1 << 24, PROT_READ, MAP_PRIVATE, file, 0) == MAP_FAILED)
        exit(1);
    close(file);
}

static void step(void)
{
    char line[100];

    if (!slow)
        return;
    do {
        printf("step\n");
        fflush(stdout);
        if (!fgets(line, sizeof line, stdin))
            exit(1);
        if (!strncmp(line, "fork", 4) && !fork()) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (;;)
                pause();
        }
    } while (!strncmp(line, "fork", 4));
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
        } else if (!strcmp(line, "anonymous")) {
            anonymous();
        } else if (!strcmp(line, "leave")) {
            if (write(leaving[1], "", 1) != 1)
                exit(1);
        } else if (!strncmp(line, "fork ", 5)) {
            fork_and_put(line + 5);
        } else if (!strncmp(line, "program ", 8)) {
            start_program(line + 8);
        } else if (!strncmp(line, "put ", 4)) {
            tell_program('p', line + 4);
        } else if (!strncmp(line, "notify ", 7)) {
            tell_program('n', line + 7);
        } else if (!strncmp(line, "name ", 5)) {
            char *space = strchr(line + 5, ' ');

            *space = 0;
            name(line + 5, space + 1);
        } else if (!strncmp(line, "patch ", 6)) {
            patch(line + 6);
        } else if (!strncmp(line, "map ", 4)) {
            map(line + 4);
        } else if (!strncmp(line, "load ", 5)) {
            if (!dlopen(line + 5, RTLD_NOW | RTLD_LOCAL))
                exit(1);
        } else if (!strncmp(line, "say ", 4)) {
            /* not by stdio, whose calls nothing can come between */
            line[strlen(line)] = '\n';
            if (write(1, line + 4, strcspn(line, "\n") - 3) < 0)
                exit(1);
        } else if (!strncmp(line, "quit", 4)) {
            epicsExit(3);
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
#ifdef ROUTINES
    register_routines();
#endif
    if (start(argv[2]))
        return 1;
    if (argc == 3 || slow || alone)
        obey(NULL);
    if (pipe(leaving) || pthread_create(&thread, NULL, obey, NULL))
        return 1;
    if (!strcmp(argv[3], "later")) {
        char told;

        if (read(leaving[0], &told, 1) != 1)
            return 1;
    }
    pthread_exit(NULL);
}
