/*
 * Healing: the first call of a site changes it so that the next one goes to the vDSO. A site is
 * tried once; where it is of no known form, or writing is refused, it is served by the handler
 * each time.
 *
 * /proc/self/mem is opened in a thread with its own table of open files, all signals blocked: no
 * child that is forked meanwhile inherits it, and no handler that jumps away leaves it open.
 */
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include "heal.h"

/* The return addresses that were tried. Two that share a place drive each other out, and are
 * tried again. */
#define TRIED 1024
static uintptr_t tried[TRIED];

/* Taken by who heals. In a child that is forked meanwhile it is free (Linux 4.14). */
static volatile int busy[PAGE_SIZE / sizeof(int)] __attribute__((aligned(PAGE_SIZE)));

struct job {
	uintptr_t ra;
	int function;
	int finishes;		/* what a fork left half done */
	enum healing outcome;
};

static uintptr_t *place_of(uintptr_t ra)
{
	return &tried[(ra ^ ra >> 12) % TRIED];
}

/* All threads are told of changed code in no time if that is announced before there are many. */
void vfix_heal_start(void)
{
	syscall3(SYS_membarrier, MEMBARRIER_REGISTER_SYNC_CORE, 0, 0);
	syscall3(SYS_madvise, (long)busy, PAGE_SIZE, MADV_WIPEONFORK);
}

static enum healing heal_site(long memory, const struct job *job, struct mapping *map)
{
	struct site site;
	enum healing found = vfix_find_site(memory, job->ra, job->function, &site);

	if (found != FOUND)
		return found;
	/* What is shared is other processes' too, and may be a file. */
	if (!vfix_find_mapping(site.start, map) || map->shared)
		return NEVER_HEALED;
	uintptr_t stub = vfix_near(&site, map);
	if (!stub)
		return NEVER_HEALED;
	vfix_site_count = 0;
	vfix_add_site(&site, stub);
	vfix_sweep(memory, map, site.start);
	return vfix_write_sites(memory, map) ? HEALED_NOW : NEVER_HEALED;
}

static void log_job(const struct job *job, struct mapping *map, enum healing outcome)
{
	const struct mapping *known = map->end || vfix_find_mapping(job->ra, map) ? map : 0;

	if (outcome != HEALED_BEFORE)
		vfix_log_site(known, job->ra, job->function, outcome == HEALED_NOW ? "healed" : "served at each call");
	for (int i = 1; outcome == HEALED_NOW && i < vfix_site_count; i++)
		vfix_log_site(known, vfix_sites[i].ra, vfix_sites[i].function, "healed before it was called");
}

/* In the thread apart, which closes what it leaves open. */
static void run(void *argument)
{
	struct job *job = argument;
	struct mapping map = { 0 };
	enum healing outcome = NEVER_HEALED;
	long memory = syscall3(SYS_open, (long)"/proc/self/mem", O_RDWR | O_CLOEXEC, 0);

	vfix_finish_sites(memory);
	if (job->finishes)
		return;
	if (memory >= 0 && vfix_heal_wanted && vfix_found[job->function])
		outcome = heal_site(memory, job, &map);
	if (vfix_log_wanted)
		log_job(job, &map, outcome);
}

/* 0 where another thread heals. */
static int run_apart(struct job *job)
{
	uint64_t all = ~0ull, before;

	if (busy[0])
		return 0;
	syscall4(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, (long)&before, sizeof all);
	int mine = !__atomic_exchange_n(&busy[0], 1, __ATOMIC_ACQUIRE);
	if (mine) {
		vfix_apart(run, job);
		__atomic_store_n(&busy[0], 0, __ATOMIC_RELEASE);
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
	if (stood_in == 1 && !busy[0] && vfix_heal_wanted)
		run_apart(&job);
	return stood_in != 0;
}

int vfix_heal_stop(void)
{
	int before = vfix_heal_wanted | vfix_log_wanted << 1;

	vfix_heal_wanted = vfix_log_wanted = 0;
	for (int i = 0; busy[0] && i < 10000; i++)
		syscall0(SYS_sched_yield);
	return before;
}

void vfix_heal_again(int before)
{
	vfix_heal_wanted = before & 1;
	vfix_log_wanted = before >> 1;
}
