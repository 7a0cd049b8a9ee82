/* reopen LIBRARY: loads a library made of calls.S, calls it and unloads it, again and again,
 * while the environment changes under it. Exit status 0, or which step went wrong. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include "calls.h"

#define ROUNDS 60

int main(int argc, char **argv)
{
	for (int i = 0; argc == 2 && i < ROUNDS; i++) {
		void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL), *symbol;
		long (*now)(long *);

		if (!library)
			return 1;
		symbol = dlsym(library, "time_entry");
		if (!symbol)
			return 2;
		memcpy(&now, &symbol, sizeof now);
		if (now(NULL) < YEAR_2020)
			return 3;
		if (dlclose(library) || dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD))
			return 4; /* not unloaded: the next round would prove nothing */
		if (i == ROUNDS / 4)
			unsetenv("PATH");
		if (i == ROUNDS / 3)
			setenv("VFIX_REOPEN", "1", 1);
		if (i == ROUNDS / 2)
			clearenv();
	}
	return argc == 2 ? 0 : 5;
}
