/* Errors as a libc reports them. */
#include "preload.h"

extern int *__errno_location(void) __attribute__((weak));

long vfix_fail(long result)
{
	if (result >= 0)
		return result;
	if (__errno_location)
		*__errno_location() = -result;
	return -1;
}
