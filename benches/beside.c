/* Times system calls of the thread that calls: CPU time, in nanoseconds a call, the fastest of some rounds.
 *
 * benches/beside compiles it as a library and loads it into an IOC and into a process that is none.
 */
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 25
#define CALLS 20000

static const char LINE[] = "2026-11-23 10:00:00 PS:DRIVE current limit exceeded, ramp held\n";

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

/* A line on standard error. */
static void print(void)
{
    if (write(2, LINE, sizeof LINE - 1) < 0)
        _exit(1);
}

/* The least that a system call does. */
static void ask(void)
{
    syscall(SYS_getppid);
}

/* A signal from the process to itself. */
static void signal_self(void)
{
    sigset_t set;
    int number;

    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    kill(getpid(), SIGUSR1);
    sigwait(&set, &number);
}

static double timed(void (*call)(void))
{
    double best = 0;

    for (int round = 0; round < ROUNDS; round++) {
        double begin = now(), took;

        for (int i = 0; i < CALLS; i++)
            call();
        took = (now() - begin) / CALLS;
        if (round == 0 || took < best)
            best = took;
    }
    return best;
}

/* The time of one kind of call: p(rint), a(sk) or s(ignal). */
double time_of(char kind)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    return timed(kind == 'p' ? print : kind == 'a' ? ask : signal_self);
}
