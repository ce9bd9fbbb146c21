/* A library that comes between a program and the C library, and passes on what is written. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>

ssize_t write(int file, const void *from, size_t bytes)
{
    ssize_t (*next)(int, const void *, size_t) = (ssize_t(*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");

    return next(file, from, bytes);
}
