/*
 * Healing one site: it is found, its mapping is looked at, it and those around it
 * are changed, and logged. Only who holds the lock is here, with all signals blocked.
 */
#include <errno.h>
#include <fcntl.h>
#include "heal.h"

#define AROUND 8192	/* bytes before and behind a site that are searched for others */

enum healing {
	NEVER_HEALED,	/* of no form that is known, or its code cannot be written to */
	HEALED_NOW,
	HEALED_EARLIER,	/* another thread was faster, or an older value was still in a register */
};

int vfix_mapping_of(uintptr_t address, struct mapping *map)
{
	long fd = syscall3(SYS_open, (long)"/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
	int found = fd >= 0 && vfix_find_mapping(fd, address, map);

	if (fd >= 0)
		syscall1(SYS_close, fd);
	return found;
}

/* Whether the program may write there; what is there stays as it is. */
static int is_writable(uintptr_t address)
{
	char byte = *(volatile char *)address;
	uintptr_t from[2] = { (uintptr_t)&byte, sizeof byte }, to[2] = { address, sizeof byte };	/* struct iovec */

	return syscall6(SYS_process_vm_writev, syscall0(SYS_getpid), (long)from, 1, (long)to, 1, 0) == -EFAULT ? 0 : 1;
}

/* The mapping, unless it is shared: then it also belongs to other processes, and may be a file. The bytes
 * from before are still there, or it is not writable, and the kernel changes no such shared page. */
static int find_private(uintptr_t address, struct mapping *map)
{
	static struct mapping last;

	if (address >= last.start && address < last.end && !last.writable && !is_writable(address)) {
		*map = last;
		return 1;
	}
	if (!vfix_mapping_of(address, map) || map->shared)
		return map->end = 0;
	last = *map;
	return 1;
}

int vfix_is_stub(struct task *t, uintptr_t address)
{
	(void)t;
	return vfix_is_near(address);
}

/* Adds a site to those that will be changed; 0 if there was no room. */
static int add(struct task *t, const struct site *found)
{
	struct site site = *found;
	uintptr_t stub;

	if (vfix_site_count > 0 && site.start == vfix_sites->start)
		return 1;
	if (vfix_site_count == SITES)
		return 0;
	if ((stub = vfix_near(t, &site)) && vfix_encode(&site, stub))
		vfix_add_site(&site);
	return 1;
}

/* Once for each place. */
static void add_others(struct task *t, uintptr_t around)
{
	static uintptr_t swept, swept_end;
	const struct mapping *map = t->map;

	if (around >= swept && around < swept_end)
		return;
	swept = around - map->start > AROUND ? around - AROUND : map->start;
	swept_end = map->end - around > AROUND ? around + AROUND : map->end;
	vfix_sweep(t, swept, swept_end, add);
	if (vfix_site_count == SITES)
		swept_end = vfix_sites[SITES - 1].ra;
}

static enum healing heal_site(struct task *t, const struct job *job, struct mapping *map)
{
	struct site site;
	uintptr_t registers[16];

	for (int i = 0; i < 16; i++)
		registers[i] = (uintptr_t)job->regs[vfix_register_index[i]];
	enum finding found = vfix_find_site(t, registers, job->ra, job->function, &site);
	if (found != FOUND)
		return found == HEALED_BEFORE ? HEALED_EARLIER : NEVER_HEALED;
	if (!find_private(site.start, map))
		return NEVER_HEALED;
	t->map = map;
	vfix_site_count = 0;
	if (!add(t, &site) || !vfix_site_count)
		return NEVER_HEALED;
	add_others(t, site.start);
	vfix_write_sites(t);
	return vfix_sites->state == CHANGED ? HEALED_NOW : NEVER_HEALED;
}

static void log_job(const struct job *job, struct mapping *map, enum healing outcome)
{
	const struct mapping *known = map->end || vfix_mapping_of(job->ra, map) ? map : 0;

	if (outcome != HEALED_EARLIER)
		vfix_log_site(known, job->ra, job->function, outcome == HEALED_NOW ? "healed" : "served at each call");
	for (int i = 1; outcome == HEALED_NOW && i < vfix_site_count; i++)
		if (vfix_sites[i].state == CHANGED)
			vfix_log_site(known, vfix_sites[i].ra, vfix_sites[i].function, "healed before it was called");
}

static void work(struct task *t, struct job *job)
{
	struct mapping map = { 0 };
	enum healing outcome = NEVER_HEALED;

	vfix_finish_sites(t);
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
