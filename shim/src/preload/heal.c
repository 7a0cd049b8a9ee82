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

static int first_time(uintptr_t ra)
{
	uintptr_t *place = &tried[(ra ^ ra >> 12) % TRIED];

	return __atomic_exchange_n(place, ra, __ATOMIC_RELAXED) != ra;
}

/* 1 where the site is healed now, HEALED where it was already. */
static int try(uintptr_t ra, int function)
{
	struct site site;
	long memory = syscall3(SYS_open, (long)"/proc/self/mem", O_RDWR | O_CLOEXEC, 0);
	int found, done = 0;

	if (memory < 0)
		return 0;
	found = vfix_find_site(memory, ra, function, &site);
	if (found == 1) {
		unsigned char top = vfix_neighbour(site.plain);

		if (top) {
			vfix_aim(&site, top);
			done = !vfix_write_code(memory, &site);
		}
	}
	syscall1(SYS_close, memory);
	return found == HEALED ? HEALED : done;
}

void vfix_heal(uintptr_t ra, int function)
{
	if (!(vfix_heal_wanted | vfix_log_wanted) || !first_time(ra))
		return;
	int healed = vfix_heal_wanted && vfix_found[function] ? try(ra, function) : 0;

	if (vfix_log_wanted && healed != HEALED)
		vfix_log_site(ra, function, healed ? "healed" : "served at each call");
}
