/* The call sites of calls.S, and a check of all three. */
#ifndef CALLS_H
#define CALLS_H

#include <stddef.h>
#include <sys/time.h>

#define YEAR_2020 1577836800l

long time_entry(long *now);
int gettimeofday_call(struct timeval *now, void *zone);
int getcpu_lea(unsigned *cpu, unsigned *node);

/* 0: all three work; else which one does not, from 1. */
static inline int wrong_call(void)
{
	struct timeval tv = { 0, 0 };
	unsigned cpu = ~0u;
	long now = 0;

	if (time_entry(&now) < YEAR_2020 || now < YEAR_2020)
		return 1;
	if (gettimeofday_call(&tv, NULL) || tv.tv_sec < YEAR_2020)
		return 2;
	return getcpu_lea(&cpu, NULL) || cpu == ~0u ? 3 : 0;
}

#endif
