/*
 * What healing one site comes to: it is found, its mapping is looked at, it and those around it
 * are changed, and logged. Only who holds the lock is here, with all signals blocked.
 */
#include <errno.h>
#include <fcntl.h>
#include "heal.h"

/* Whether the program may write there; what is there stays as it is. */
static int is_writable(uintptr_t address)
{
	char byte = *(volatile char *)address;
	uintptr_t from[2] = { (uintptr_t)&byte, sizeof byte }, to[2] = { address, sizeof byte };	/* struct iovec */

	return syscall6(SYS_process_vm_writev, syscall0(SYS_getpid), (long)from, 1, (long)to, 1, 0) == -EFAULT ? 0 : 1;
}

/* The mapping, unless it is shared: then it is other processes' too, and may be a file. What was
 * there before is there still, or it is not writable, and the kernel changes no such shared page. */
static int find_private(uintptr_t address, struct mapping *map)
{
	static struct mapping last;

	if (address >= last.start && address < last.end && !last.writable && !is_writable(address)) {
		*map = last;
		return 1;
	}
	if (!vfix_find_mapping(address, map) || map->shared)
		return map->end = 0;
	last = *map;
	return 1;
}

static enum healing heal_site(long memory, const struct job *job, struct mapping *map)
{
	struct site site;
	enum healing found = vfix_find_site(memory, job->ra, job->function, &site);

	if (found != FOUND)
		return found;
	if (!find_private(site.start, map))
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

static void work(long memory, struct job *job)
{
	struct mapping map = { 0 };
	enum healing outcome = NEVER_HEALED;

	vfix_finish_sites(memory);
	if (job->finishes)
		return;
	if (memory >= 0 && vfix_heal_wanted && vfix_found[job->function])
		outcome = heal_site(memory, job, &map);
	if (vfix_log_wanted)
		log_job(job, &map, outcome);
}

void vfix_do_job(void *argument)
{
	long memory = syscall3(SYS_open, (long)"/proc/self/mem", O_RDWR | O_CLOEXEC, 0);

	work(memory, argument);
	if (memory >= 0)
		syscall1(SYS_close, memory);
}
