/*
 * VFIX_LOG=1: one line per call site on stderr:
 * "vfix: /lib/libold.so+0x1234: time: healed".
 */
#include "heal.h"

struct line {
	char text[320];
	unsigned length;
};

static void add(struct line *l, const char *text)
{
	while (*text && l->length < sizeof l->text)
		l->text[l->length++] = *text++;
}

static void add_hex(struct line *l, uintptr_t value)
{
	int digits = 1;

	while (digits < 16 && value >> digits * 4)
		digits++;
	add(l, "0x");
	while (digits--)
		add(l, (char[]){ "0123456789abcdef"[value >> digits * 4 & 15], 0 });
}

void vfix_log_site(const struct mapping *map, uintptr_t ra, int function, const char *what)
{
	static const char names[VFIX_FUNCTIONS][sizeof "gettimeofday"] = { "gettimeofday", "time", "getcpu" };
	struct line l;

	l.length = 0;
	add(&l, "vfix: ");
	if (map && map->path[0]) {
		add(&l, map->path);
		add(&l, "+");
		add_hex(&l, ra - map->start + map->offset);
	} else {
		add(&l, "code at ");
		add_hex(&l, ra);
	}
	add(&l, ": ");
	add(&l, names[function]);
	add(&l, ": ");
	add(&l, what);
	add(&l, "\n");
	syscall3(SYS_write, 2, (long)l.text, l.length);
}
