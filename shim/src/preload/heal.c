/*
 * Healing: the first call of a site changes it so that the next one goes to the vDSO. A site is tried once;
 * if its form is not known, or it cannot be written, the handler serves each call.
 *
 * /proc/self/mem is opened with all signals blocked, so that no handler jumps away and leaves it open. If
 * the process has other threads, it is opened in a thread with its own table of open files, so that no
 * concurrently forked child inherits it.
 */
#include "heal.h"

/* The return addresses that were tried. Two that share a slot replace each other, and are tried again. */
#define TRIED 1024
static uintptr_t tried[TRIED];

static uintptr_t *place_of(uintptr_t ra)
{
	return &tried[(ra ^ ra >> 12) % TRIED];
}

/* Threads see changed code sooner if this is registered before there are many. */
void vfix_heal_start(void)
{
	syscall3(SYS_membarrier, MEMBARRIER_REGISTER_SYNC_CORE, 0, 0);
	vfix_lock_start();
}

/* Does nothing if another thread is healing. */
static void run_apart(struct job *job)
{
	uint64_t all = ~0ull, before;

	syscall4(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, (long)&before, sizeof all);
	if (vfix_lock()) {
		if (vfix_is_alone())
			vfix_beside(vfix_do_job, job);
		else
			vfix_in_thread(vfix_do_job, job);
		/* Not earlier: a thread that was killed before this has not tried it. */
		if (!job->finishes)
			__atomic_store_n(place_of(job->ra), job->ra, __ATOMIC_RELAXED);
		vfix_unlock();
	}
	syscall4(SYS_rt_sigprocmask, SIG_SETMASK, (long)&before, 0, sizeof before);
}

void vfix_heal(uintptr_t ra, int function)
{
	struct job job = { .ra = ra, .function = function };

	if ((vfix_heal_wanted | vfix_log_wanted) && __atomic_load_n(place_of(ra), __ATOMIC_RELAXED) != ra)
		run_apart(&job);
}

int vfix_on_change(greg_t *regs)
{
	struct job job = { .finishes = 1 };
	int stood_in = vfix_stand_in(regs);

	/* No thread is healing, so none will remove the hlt. */
	if (stood_in == 1 && vfix_heal_wanted)
		run_apart(&job);
	return stood_in != 0;
}

int vfix_heal_stop(void)
{
	int before = vfix_heal_wanted | vfix_log_wanted << 1;

	vfix_heal_wanted = vfix_log_wanted = 0;
	for (int i = 0; vfix_is_locked() && i < 10000; i++)
		syscall0(SYS_sched_yield);
	return before;
}

void vfix_heal_again(int before)
{
	vfix_heal_wanted = before & 1;
	vfix_log_wanted = before >> 1;
}
