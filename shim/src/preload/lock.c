/*
 * The lock for healing: for one thread of one of the processes that share this memory. Children of vfork
 * share it, and may be killed while they hold it: the lock has its process and the time of locking, so that
 * neither a process that has ended nor another with the same ID keeps it.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include "heal.h"

#define CLOCK_BOOTTIME 7	/* uapi/linux/time.h */
#define TICK 10000000		/* nanoseconds: proc(5) counts 100 in a second on x86-64 */
#define FIELD_START 22		/* of /proc/PID/stat */

/* Zero in a forked child (Linux 4.14). */
static volatile struct {
	uint64_t holder;	/* the process, and in the upper half its time; 0: not locked */
	int process;		/* that started with this memory */
	char rest[PAGE_SIZE - 2 * sizeof(uint64_t)];
} own __attribute__((aligned(PAGE_SIZE)));

void vfix_lock_start(void)
{
	syscall3(SYS_madvise, (long)&own, PAGE_SIZE, MADV_WIPEONFORK);
	own.process = syscall0(SYS_getpid);
}

/* The directory has one link for each thread, and two of its own. */
unsigned long vfix_threads(void)
{
	unsigned long stat[24];	/* struct stat of x86-64: st_nlink is the third word */

	return syscall3(SYS_stat, (long)"/proc/self/task", (long)stat, 0) ? ~0ul : stat[2] - 2;
}

int vfix_is_alone(void)
{
	int process = syscall0(SYS_getpid);

	if (!own.process)
		own.process = process;
	return own.process == process && vfix_threads() == 1;
}

/* Ticks since the machine's start. */
static uint32_t now(void)
{
	long time[2] = { 0 };	/* struct timespec */

	syscall3(SYS_clock_gettime, CLOCK_BOOTTIME, (long)time, 0);
	return (uint32_t)(time[0] * (1000000000 / TICK) + time[1] / TICK);
}

static int number(const char *digits)
{
	uint32_t n = 0;

	while (*digits >= '0' && *digits <= '9')
		n = n * 10 + (uint32_t)(*digits++ - '0');
	return (int)n;
}

/* The start of the process, in ticks; 0 if not known. Signals are blocked, as always with an open file. */
static int start_of(int process)
{
	char text[512], path[] = "/proc/0000000000/stat", *digit = path + 16;
	long n = syscall3(SYS_readlink, (long)"/proc/self", (long)text, sizeof text - 1);

	if (n <= 0 || (text[n] = 0, number(text) != syscall0(SYS_getpid)))
		return 0;	/* no /proc, or that of another PID namespace */
	for (int rest = process; rest; rest /= 10)
		*--digit = (char)('0' + rest % 10);
	*(digit -= 6) = '/';
	for (int i = 1; i < 6; i++)
		digit[i] = "/proc/"[i];
	long fd = syscall3(SYS_open, (long)digit, O_RDONLY | O_CLOEXEC, 0);
	n = fd < 0 ? 0 : syscall3(SYS_read, fd, (long)text, sizeof text - 1);
	if (fd >= 0)
		syscall1(SYS_close, fd);
	/* Fields are counted after the second one, a name that may have any characters. */
	const char *at = text + (n > 0 ? n : 0), *end = at;
	while (at > text && *at != ')')
		at--;
	for (int field = 2; at < end && field < FIELD_START; at++)
		field += *at == ' ';
	text[end - text] = 0;
	return number(at);
}

static int is_alive(int process)
{
	return process && (process == syscall0(SYS_getpid) || syscall3(SYS_kill, process, 0, 0) != -ESRCH);
}

/* Whether the process is still the one that took the lock. */
static int is_same(int process, int since)
{
	int start = process == syscall0(SYS_getpid) ? 0 : start_of(process);

	return !start || start - since <= 0;
}

int vfix_is_locked(void)
{
	return is_alive((int)own.holder);
}

int vfix_lock(void)
{
	uint64_t holder = own.holder;

	if (is_alive((int)holder) && is_same((int)holder, (int)(holder >> 32)))
		return 0;
	uint64_t mine = (uint32_t)syscall0(SYS_getpid) | (uint64_t)now() << 32;
	return __atomic_compare_exchange_n(&own.holder, &holder, mine, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

void vfix_unlock(void)
{
	__atomic_store_n(&own.holder, 0, __ATOMIC_RELEASE);
}
