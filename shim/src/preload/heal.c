/*
 * Healing: the first call of a site changes it so that the next one goes to the vDSO. A site is
 * tried once; where it is of no known form, or writing is refused, it is served by the handler
 * each time.
 */
#include <fcntl.h>
#include "heal.h"

/* The return addresses that were tried. Two that share a place drive each other out, and are
 * tried again. */
#define TRIED 1024
static uintptr_t tried[TRIED];

static uintptr_t *place_of(uintptr_t ra)
{
	return &tried[(ra ^ ra >> 12) % TRIED];
}

static enum healing heal_found(long memory, uintptr_t ra, int function)
{
	struct site site;
	enum healing found = vfix_find_site(memory, ra, function, &site);

	if (found != FOUND)
		return found;
	int top = vfix_neighbour(site.plain);

	if (top <= 0)
		return top == 0 ? NEVER_HEALED : LATER;
	vfix_aim(&site, top);
	return vfix_write_code(memory, &site) ? NEVER_HEALED : HEALED_NOW;
}

static enum healing heal_site(uintptr_t ra, int function)
{
	long memory = syscall3(SYS_open, (long)"/proc/self/mem", O_RDWR | O_CLOEXEC, 0);

	if (memory < 0)
		return NEVER_HEALED;
	enum healing outcome = heal_found(memory, ra, function);
	syscall1(SYS_close, memory);
	return outcome;
}

void vfix_heal(uintptr_t ra, int function)
{
	if (!(vfix_heal_wanted | vfix_log_wanted) || __atomic_exchange_n(place_of(ra), ra, __ATOMIC_RELAXED) == ra)
		return;
	enum healing outcome = vfix_heal_wanted && vfix_found[function] ? heal_site(ra, function) : NEVER_HEALED;

	if (outcome == LATER)
		__atomic_store_n(place_of(ra), 0, __ATOMIC_RELAXED);
	else if (vfix_log_wanted && outcome != HEALED_BEFORE)
		vfix_log_site(ra, function, outcome == HEALED_NOW ? "healed" : "served at each call");
}
