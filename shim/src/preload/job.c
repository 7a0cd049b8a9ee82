/*
 * Heals one site: finds it, checks its mapping, changes it, and logs that. Only the holder of the lock runs
 * this, with all signals blocked.
 */
#include <fcntl.h>
#include "heal.h"

enum healing {
	NEVER_HEALED,	/* of no known form, or its code cannot be written */
	HEALED_NOW,
	HEALED_EARLIER,	/* another thread was faster, or an older value was still in a register */
};

int vfix_is_stub(struct task *t, uintptr_t address)
{
	(void)t;
	return vfix_is_near(address);
}

static enum healing heal_site(struct task *t, const struct job *job, struct mapping *map)
{
	struct site site;
	enum finding found = vfix_find_site(t, job->ra, job->function, &site);

	if (found != FOUND)
		return found == HEALED_BEFORE ? HEALED_EARLIER : NEVER_HEALED;
	if (!vfix_mapping_of(site.start, map) || map->shared)	/* it also belongs to other processes, and may be a file */
		return NEVER_HEALED;
	t->map = map;
	uintptr_t stub = vfix_near(t, &site);
	if (!stub || !vfix_encode(&site, stub))
		return NEVER_HEALED;
	vfix_set_site(&site);
	return vfix_write_site(t) ? HEALED_NOW : NEVER_HEALED;
}

static void log_job(const struct job *job, struct mapping *map, enum healing outcome)
{
	const struct mapping *known = map->end || vfix_mapping_of(job->ra, map) ? map : 0;

	if (outcome != HEALED_EARLIER)
		vfix_log_site(known, job->ra, job->function, outcome == HEALED_NOW ? "healed" : "served at each call");
}

static void work(struct task *t, struct job *job)
{
	struct mapping map = { 0 };
	enum healing outcome = NEVER_HEALED;

	vfix_finish_site(t);
	if (job->finishes)
		return;
	if (t->memory >= 0 && vfix_heal_wanted && vfix_found.state.plain[job->function])
		outcome = heal_site(t, job, &map);
	if (vfix_log_wanted)
		log_job(job, &map, outcome);
}

void vfix_do_job(void *argument)
{
	struct task self = { .memory = syscall3(SYS_open, (long)"/proc/self/mem", O_RDWR | O_CLOEXEC, 0) };

	work(&self, argument);
	if (self.memory >= 0)
		syscall1(SYS_close, self.memory);
}
