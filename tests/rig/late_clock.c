/* Preloaded: a wall clock that is late by so many seconds: $CLOCK_IS_LATE_BY. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *time)
{
	const char *late = getenv("CLOCK_IS_LATE_BY");
	int result = syscall(SYS_clock_gettime, clock, time);

	if (result == 0 && clock == CLOCK_REALTIME && late)
		time->tv_sec -= atoi(late);
	return result;
}
