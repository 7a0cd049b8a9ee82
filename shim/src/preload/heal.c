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

/* 1 where the site is healed now, HEALED where it was already, LATER where it may be. */
static int try(uintptr_t ra, int function)
{
	struct site site;
	long memory = syscall3(SYS_open, (long)"/proc/self/mem", O_RDWR | O_CLOEXEC, 0);
	int found, done = 0;

	if (memory < 0)
		return 0;
	found = vfix_find_site(memory, ra, function, &site);
	if (found == 1) {
		int top = vfix_neighbour(site.plain);

		if (top == LATER)
			found = LATER;
		if (top > 0) {
			vfix_aim(&site, top);
			done = !vfix_write_code(memory, &site);
		}
	}
	syscall1(SYS_close, memory);
	return found == HEALED || found == LATER ? found : done;
}

void vfix_heal(uintptr_t ra, int function)
{
	if (!(vfix_heal_wanted | vfix_log_wanted) || __atomic_exchange_n(place_of(ra), ra, __ATOMIC_RELAXED) == ra)
		return;
	int healed = vfix_heal_wanted && vfix_found[function] ? try(ra, function) : 0;

	if (healed == LATER)
		__atomic_store_n(place_of(ra), 0, __ATOMIC_RELAXED);
	else if (vfix_log_wanted && healed != HEALED)
		vfix_log_site(ra, function, healed ? "healed" : "served at each call");
}
