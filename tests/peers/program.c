/* Calls the vsyscall page by a tail call, through a switch and in a loop, and prints "ok". */
#include <stdio.h>

typedef long (*time_f)(long *);
#define PAGE_TIME ((time_f)0xffffffffff600400ul)
#define PAGE_GTOD ((long (*)(long *, void *))0xffffffffff600000ul)
#define PAGE_GETCPU ((long (*)(unsigned *, unsigned *, void *))0xffffffffff600800ul)
#define NOINLINE __attribute__((noinline))

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
NOINLINE static long again(int n, long *t)
{
	time_f f = PAGE_TIME;
	long last = 0;
	while (n-- > 0)
		last = f(t);
	return last;
}
int main(void)
{
	long t;
	const long recent = 1000000000;
	int wrong = 0;
	for (int k = 0; k < 5; k++)
		wrong |= chosen(k, &t) <= recent;
	wrong |= again(3, &t) <= recent;
	if (!wrong)
		puts("ok");
	return wrong;
}
