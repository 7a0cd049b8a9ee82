/* Calls the vsyscall page by a tail call, through a switch and through a pointer, and prints "ok". */
#include "lone.h"
NOINLINE static long direct(long *t) { return PAGE_TIME(t); }
NOINLINE static long chosen(int k, long *t)
{
	long tv[2];
	unsigned c;
	switch (k) {
	case 0: return PAGE_TIME(t);
	case 1: PAGE_GTOD(tv, 0); return tv[0];
	case 2: return PAGE_GETCPU(&c, 0, 0) ? 0 : 1500000000;
	case 3: return PAGE_TIME(0) + 1;
	case 4: return direct(t) + 2;
	}
	return 0;
}
NOINLINE static long pick(int k, long *t) { time_f f = k ? PAGE_TIME : direct; return f(t); }
int main(void)
{
	long t;
	for (int k = 0; k < 5; k++)
		CHECK(RECENT(chosen(k, &t)));
	CHECK(RECENT(pick(0, &t)) && RECENT(pick(1, &t)));
	OK();
}
