/*
 * Runs a program without some of root's capabilities, or as nobody, which busybox cannot do.
 *
 * usage: without NAME... -- PROGRAM ARGUMENT...
 *
 * NAME is bpf, ipc_lock, perfmon, sys_admin or sys_resource, or root
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Bits of linux/capability.h. */
static const struct { const char *name; int bit; } capabilities[] = {
	{ "bpf", 39 }, { "ipc_lock", 14 }, { "perfmon", 38 }, { "sys_admin", 21 }, { "sys_resource", 24 },
};
#define NOBODY 65534

struct header { uint32_t version; int pid; };
struct set { uint32_t effective, permitted, inheritable; };

/* Drops the bit from the bounding set as well, or root would regain it with the next program. */
static int drop(int bit)
{
	struct header header = { 0x20080522, 0 };
	struct set sets[2];

	if (prctl(PR_CAPBSET_DROP, bit, 0, 0, 0) || syscall(SYS_capget, &header, sets))
		return -1;
	sets[bit / 32].effective &= ~(1u << bit % 32);
	sets[bit / 32].permitted &= ~(1u << bit % 32);
	sets[bit / 32].inheritable &= ~(1u << bit % 32);
	return syscall(SYS_capset, &header, sets);
}

static int drop_named(const char *name)
{
	if (!strcmp(name, "root"))
		return setgid(NOBODY) || setuid(NOBODY);
	for (size_t i = 0; i < sizeof(capabilities) / sizeof(capabilities[0]); i++)
		if (!strcmp(name, capabilities[i].name))
			return drop(capabilities[i].bit);
	return -1;
}

int main(int count, char **arguments)
{
	int at = 1;

	for (; at < count && strcmp(arguments[at], "--"); at++)
		if (drop_named(arguments[at])) {
			fprintf(stderr, "without: cannot drop %s\n", arguments[at]);
			return 125;
		}
	if (at + 1 >= count)
		return 125;
	execvp(arguments[at + 1], arguments + at + 1);
	perror(arguments[at + 1]);
	return 127;
}
