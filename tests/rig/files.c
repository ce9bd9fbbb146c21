/* Subroutines of records that use files and a device in a known way.
 *
 * ioc.py --routines loads it and calls register_routines(). A sub record names one of the functions in SNAM. Files are
 * made in the directory of the environment variable FILES_DIR; B is the device's port on loopback.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <registryFunction.h>
#include <subRecord.h>

static char *in_dir(const char *name)
{
    static char path[8192];
    snprintf(path, sizeof path, "%s/%s", getenv("FILES_DIR"), name);
    return path;
}

static char buffer[8192] __attribute__((aligned(4096)));

/* Every call that is counted, once or some times: VAL is the number of those that did what they should. */
static long work(struct subRecord *record)
{
    struct stat info;
    struct iovec parts[2] = {{buffer, 10}, {buffer + 20, 30}};
    char to[8192];
    int good = 0, fd, other, count;

    fd = open(in_dir("main.dat"), O_RDWR | O_CREAT | O_TRUNC, 0640);
    good += fd >= 0;
    for (count = 0; count < 3; count++)
        good += write(fd, buffer, 50) == 50;
    good += write(fd, buffer + 1, 5000) == 5000;
    good += pwrite(fd, buffer, 100, 10000) == 100;
    good += pread(fd, buffer, 60, 0) == 60;
    good += lseek(fd, 4096, SEEK_SET) == 4096;
    good += read(fd, buffer, 200) == 200;
    good += read(fd, buffer, 200) == 200;
    good += fsync(fd) == 0;
    good += fdatasync(fd) == 0;
    good += fdatasync(fd) == 0;
    good += fstat(fd, &info) == 0;
    other = dup(fd);
    good += other > fd;
    close(fd);
    /* through what is left of it */
    good += write(other, buffer, 7) == 7;
    close(other);

    fd = open(in_dir("vector.dat"), O_WRONLY | O_CREAT, 0600);
    good += writev(fd, parts, 2) == 40;
    close(fd);
    fd = open(in_dir("append.dat"), O_WRONLY | O_CREAT | O_APPEND, 0600);
    good += write(fd, buffer, 11) == 11;
    close(fd);
    /* as autosave saves */
    for (count = 0; count < 5; count++) {
        strcpy(to, in_dir("auto.sav"));
        fd = open(in_dir("auto.savB"), O_WRONLY | O_CREAT | O_TRUNC, 0644);
        good += write(fd, buffer, 1000 + count) == 1000 + count;
        good += fsync(fd) == 0;
        close(fd);
        good += rename(in_dir("auto.savB"), to) == 0;
    }
    good += open(in_dir("missing/file"), O_RDONLY) < 0;
    good += stat(in_dir("auto.sav"), &info) == 0;
    fd = open(in_dir("odd\n\xff name"), O_WRONLY | O_CREAT, 0600);
    good += write(fd, buffer, 1) == 1;
    close(fd);
    memset(to, 'x', 4095);
    to[4095] = 0;
    good += open(to, O_RDONLY) < 0;
    record->val = good;
    return 0;
}

/* Descriptors that come and go by other ways: all reads and writes must count for what the descriptor then is. */
static long reuse(struct subRecord *record)
{
    int ends[2], fd, event;
    unsigned long long one = 1;
    pid_t child;
    int status;

    fd = open(in_dir("ranged.dat"), O_WRONLY | O_CREAT, 0600);
    write(fd, buffer, 100);
    close_range(fd, fd, 0);
    event = eventfd(0, 0);
    if (event == fd)
        write(event, &one, 8);
    close(event);
    pipe(ends);
    write(ends[1], buffer, 33);
    read(ends[0], buffer, 100);
    close(ends[0]);
    close(ends[1]);
    fd = open(in_dir("first.dat"), O_WRONLY | O_CREAT, 0600);
    event = open(in_dir("second.dat"), O_WRONLY | O_CREAT, 0600);
    dup2(fd, event);
    write(event, buffer, 21);
    close(fd);
    close(event);
    fd = open(in_dir("parent.dat"), O_WRONLY | O_CREAT, 0600);
    child = fork();
    if (!child) {
        write(fd, buffer, 1234);
        _exit(0);
    }
    waitpid(child, &status, 0);
    write(fd, buffer, 12);
    close(fd);
    record->val = event;
    return 0;
}

/* Asks a device A times as asyn does. VAL is the longest time in poll, in seconds. */
static long ask(struct subRecord *record)
{
    struct sockaddr_in to;
    struct pollfd wait = {socket(AF_INET, SOCK_STREAM, 0), POLLIN, 0};
    int count;
    double most = 0;

    memset(&to, 0, sizeof to);
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons((unsigned short)record->b);
    if (connect(wait.fd, (struct sockaddr *)&to, sizeof to) < 0)
        return -1;
    for (count = 0; count < (int)record->a; count++) {
        struct timespec begin, end;
        double time;
        send(wait.fd, "READ?\n", 6, 0);
        clock_gettime(CLOCK_MONOTONIC, &begin);
        poll(&wait, 1, 5000);
        clock_gettime(CLOCK_MONOTONIC, &end);
        recv(wait.fd, buffer, 100, 0);
        time = end.tv_sec - begin.tv_sec + (end.tv_nsec - begin.tv_nsec) / 1e9;
        if (time > most)
            most = time;
    }
    poll(&wait, 1, 20);
    close(wait.fd);
    record->val = most;
    return 0;
}

#define REGISTER(function) registryFunctionAdd(#function, (REGISTRYFUNCTION)function)

void register_routines(void)
{
    REGISTER(work);
    REGISTER(reuse);
    REGISTER(ask);
}
