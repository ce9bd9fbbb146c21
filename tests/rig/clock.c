/* Preloaded: a wall clock that has begun at 1970 with the process, until the file $CLOCK_IS_RIGHT_WITH exists. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *time)
{
	static time_t start;
	const char *file = getenv("CLOCK_IS_RIGHT_WITH");
	int result = syscall(SYS_clock_gettime, clock, time);

	if (result == 0 && clock == CLOCK_REALTIME && file && access(file, F_OK) != 0) {
		if (!start)
			start = time->tv_sec;
		time->tv_sec -= start;
	}
	return result;
}
