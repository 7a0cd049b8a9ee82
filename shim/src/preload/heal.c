/*
 * Healing: the first call of a site changes it so that the next one goes to the vDSO. A site is
 * tried once; where it is of no known form, or writing is refused, it is served by the handler
 * each time.
 *
 * /proc/self/mem is opened with all signals blocked: no handler that jumps away leaves it open.
 * Where there are other threads, it is opened in a thread that has its own table of open files:
 * no child that is forked meanwhile inherits it.
 */
#include <errno.h>
#include <sched.h>
#include <sys/mman.h>
#include "heal.h"

/* The return addresses that were tried. Two that share a place drive each other out, and are
 * tried again. */
#define TRIED 1024
static uintptr_t tried[TRIED];

/* Zeros in a child that is forked (Linux 4.14): the process that heals, and the one that began with
 * this memory, which one of vfork shares. */
static volatile struct {
	int healer, process;
	char rest[PAGE_SIZE - 2 * sizeof(int)];
} own __attribute__((aligned(PAGE_SIZE)));

static uintptr_t *place_of(uintptr_t ra)
{
	return &tried[(ra ^ ra >> 12) % TRIED];
}

/* All threads are told of changed code in no time if that is announced before there are many. */
void vfix_heal_start(void)
{
	syscall3(SYS_membarrier, MEMBARRIER_REGISTER_SYNC_CORE, 0, 0);
	syscall3(SYS_madvise, (long)&own, PAGE_SIZE, MADV_WIPEONFORK);
	own.process = syscall0(SYS_getpid);
}

/* Whether no other thread can fork; a link of the folder is its only thread's, two its own. */
static int is_alone(void)
{
	unsigned long stat[24];	/* struct stat of x86-64: st_nlink is the third word */
	int process = syscall0(SYS_getpid);

	if (!own.process)
		own.process = process;
	return own.process == process && !syscall3(SYS_stat, (long)"/proc/self/task", (long)stat, 0) && stat[2] == 2 + 1;
}

/* Whether that process heals. One of vfork may be killed in the middle of it; who heals next
 * finishes what it began. */
static int is_healing(int process)
{
	return process && (process == syscall0(SYS_getpid) || syscall3(SYS_kill, process, 0, 0) != -ESRCH);
}

/* 0 where another thread heals. */
static int run_apart(struct job *job)
{
	uint64_t all = ~0ull, before;
	int healer = own.healer;

	if (is_healing(healer))
		return 0;
	syscall4(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, (long)&before, sizeof all);
	int mine = __atomic_compare_exchange_n(&own.healer, &healer, syscall0(SYS_getpid), 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
	if (mine) {
		if (is_alone())
			vfix_beside(vfix_do_job, job);
		else
			vfix_apart(vfix_do_job, job);
		__atomic_store_n(&own.healer, 0, __ATOMIC_RELEASE);
	}
	syscall4(SYS_rt_sigprocmask, SIG_SETMASK, (long)&before, 0, sizeof before);
	return mine;
}

void vfix_heal(uintptr_t ra, int function)
{
	struct job job = { .ra = ra, .function = function };

	if (!(vfix_heal_wanted | vfix_log_wanted) || __atomic_exchange_n(place_of(ra), ra, __ATOMIC_RELAXED) == ra)
		return;
	if (!run_apart(&job))
		__atomic_store_n(place_of(ra), 0, __ATOMIC_RELAXED);
}

int vfix_on_change(greg_t *regs)
{
	struct job job = { .finishes = 1 };
	int stood_in = vfix_stand_in(regs);

	/* Nobody heals, so nobody will take the hlt away. */
	if (stood_in == 1 && vfix_heal_wanted)
		run_apart(&job);
	return stood_in != 0;
}

int vfix_heal_stop(void)
{
	int before = vfix_heal_wanted | vfix_log_wanted << 1;

	vfix_heal_wanted = vfix_log_wanted = 0;
	for (int i = 0; is_healing(own.healer) && i < 10000; i++)
		syscall0(SYS_sched_yield);
	return before;
}

void vfix_heal_again(int before)
{
	vfix_heal_wanted = before & 1;
	vfix_log_wanted = before >> 1;
}
