/*
 * Calls the page from code that counts on all that the kernel's emulation keeps: every register but
 * rax, every flag, the red zone, at any alignment of the stack. Then again without the vDSO: the
 * state of the injected segment is cleared. Prints the deepest byte of the stack that changed.
 *
 *	exact ROUNDS	status 0: all was kept, and each function did its work
 *
 * Built with DIRECT it calls the trampolines of injected.bin, named by injected.sym, itself:
 *
 *	direct ROUNDS DIRECTORY
 */
#define _GNU_SOURCE
#include <link.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

/* As exact.S has them: the general registers in their order in instructions, without rsp. */
struct registers {
	uint64_t general[15], flags;
	uint8_t vector[16][16];
};
enum { RAX, RCX, RDX, RBX, RBP, RSI, RDI };

struct registers exact_in, exact_out;
uint64_t exact_shift;			/* bytes that the stack is lower */
unsigned char *exact_stack;		/* the stack pointer at the call */
void exact_gettimeofday(void), exact_time(void), exact_getcpu(void);

#define DEPTH 4096			/* bytes that are watched below the call */
#define RED_ZONE 128
#define RETURN 8			/* what a call pushes into it */
#define FLAGS 0xcd5			/* CF, PF, AF, ZF, SF, DF, OF */
#define DF 0x400
#define YEAR_2020 1577836800l

extern unsigned char exact_below[];	/* copies of what is below the stack pointer, from its end on */
unsigned char exact_below[DEPTH], exact_below_after[DEPTH];

static uint64_t seed = 88172645463325252u;
static uint64_t some(void) { seed ^= seed << 13; seed ^= seed >> 7; return seed ^= seed << 17; }

static int deepest;

/* How many of ROUNDS calls kept all; the work is also checked. */
static int round_of(void (*call)(void), int function)
{
	struct timeval tv = { 0, 0 };
	long now = 0;
	unsigned cpu = ~0u;
	unsigned char *p = (void *)&exact_in;

	for (size_t i = 0; i < sizeof exact_in; i++)
		p[i] = some();
	for (int i = 0; i < DEPTH; i++)
		exact_below[i] = some();
	exact_in.flags = (some() & FLAGS) | 0x202;
	if (some() & 3)
		exact_in.flags &= ~DF;
	exact_in.general[RDI] = (uintptr_t)(function == 0 ? (void *)&tv : function == 1 ? (void *)&now : (void *)&cpu);
	if (function != 1)
		exact_in.general[RSI] = 0;
	exact_in.general[RDX] = 0;
	exact_shift = some() & 15;
	time_t first = time(NULL);
	call();
	int64_t rax = (int64_t)exact_out.general[RAX];
	int good = function == 0 ? rax == 0 && tv.tv_sec >= first - 1 && tv.tv_sec <= first + 60 :
		   function == 1 ? rax == now && now >= first - 1 && now <= first + 60 : rax == 0 && cpu < CPU_SETSIZE;

	if (!good || first < YEAR_2020)
		return printf("function %d: rax %ld\n", function, (long)rax), 0;
	exact_out.general[RAX] = exact_in.general[RAX];
	if (memcmp(exact_in.general, exact_out.general, sizeof exact_in.general))
		return puts("a general register changed"), 0;
	if ((exact_in.flags ^ exact_out.flags) & FLAGS)
		return printf("flags %#lx, were %#lx\n", exact_out.flags, exact_in.flags), 0;
	if (memcmp(exact_in.vector, exact_out.vector, sizeof exact_in.vector))
		return puts("a vector register changed"), 0;
	if (memcmp(exact_below + DEPTH - RED_ZONE, exact_below_after + DEPTH - RED_ZONE, RED_ZONE - RETURN))
		return puts("the red zone changed"), 0;
	for (int i = 0; i < DEPTH - RED_ZONE; i++)
		if (exact_below[i] != exact_below_after[i]) {
			if (DEPTH - i > deepest)
				deepest = DEPTH - i;
			break;
		}
	return 1;
}

static int rounds_of(int rounds, const char *how)
{
	static void (*const calls[])(void) = { exact_gettimeofday, exact_time, exact_getcpu };

	deepest = 0;
	for (int i = 0; i < rounds; i++)
		for (int f = 0; f < 3; f++)
			if (!round_of(calls[f], f))
				return printf("%s: round %d, function %d\n", how, i, f), 0;
	printf("%s: %d bytes of stack\n", how, deepest);
	return 1;
}

static char *injected;
#define PAGE 4096

#ifdef DIRECT
#include <fcntl.h>
#include <dlfcn.h>
#include <unistd.h>
void *exact_gettimeofday_at, *exact_time_at, *exact_getcpu_at;

/* The segment, as in a file, with the vDSO's functions in the state of the exact trampolines. */
static void map(const char *directory)
{
	static const char *const names[] = { "gettimeofday", "time", "getcpu" };
	void **const targets[] = { &exact_gettimeofday_at, &exact_time_at, &exact_getcpu_at };
	char path[4096], name[64], wanted[64];
	unsigned offset;

	snprintf(path, sizeof path, "%s/injected.bin", directory);
	int fd = open(path, O_RDONLY);
	injected = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (fd < 0 || read(fd, injected, PAGE) <= 0)
		exit(2);
	void *vdso = dlopen("linux-vdso.so.1", RTLD_LAZY | RTLD_NOLOAD);
	for (int i = 0; i < 3; i++) {
		snprintf(wanted, sizeof wanted, "vfix_keep_%s", names[i]);
		snprintf(path, sizeof path, "%s/injected.sym", directory);
		FILE *f = fopen(path, "r");
		while (f && fscanf(f, "%63s %x", name, &offset) == 2)
			if (!strcmp(name, wanted))
				*targets[i] = injected + offset;
		fclose(f);
		snprintf(wanted, sizeof wanted, "__vdso_%s", names[i]);
		((void **)(injected + PAGE))[3 + i] = dlsym(vdso, wanted);
		if (!vdso || !*targets[i] || !dlsym(vdso, wanted))
			exit(3);
	}
}
#endif

static __attribute__((unused)) int find(struct dl_phdr_info *info, size_t size, void *unused)
{
	(void)size, (void)unused;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		char *at = (char *)info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;

		if (info->dlpi_phdr[i].p_type == PT_LOAD && (info->dlpi_phdr[i].p_flags & PF_X) && !memcmp(at, "\177vfix", 5))
			injected = at;
	}
	return 0;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 1;

#ifdef DIRECT
	map(argv[2]);
#else
	dl_iterate_phdr(find, NULL);
#endif
	if (!rounds_of(rounds, injected ? "the vDSO" : "the page"))
		return 1;
	if (!injected)
		return 0;
	if (mprotect(injected + PAGE, PAGE, PROT_READ | PROT_WRITE))
		return 2;
	memset(injected + PAGE, 0, 6 * sizeof(void *));
	return !rounds_of(rounds, "a system call");
}
