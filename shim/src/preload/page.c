/* The stand-in, the page that replaces the vsyscall page (fallback.h). */
#include <sys/mman.h>
#include "preload.h"

uintptr_t vfix_vdso;

static uintptr_t page;
static int refused;

static void copy(void *to, const void *from, size_t bytes)
{
	for (size_t i = 0; i < bytes / sizeof(uint64_t); i++)
		((volatile uint64_t *)to)[i] = ((const uint64_t *)from)[i];
}

/* Maps a writable page; 0 if the address is in use. */
static uintptr_t map(uintptr_t at)
{
	long got = syscall6(SYS_mmap, (long)at, PAGE_BYTES, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_NOREPLACE : 0), -1, 0);

	if (got < 0 && got > -(long)PAGE_BYTES)
		return 0;
	if (at && (uintptr_t)got != at) {
		syscall3(SYS_munmap, got, PAGE_BYTES, 0);
		return 0;
	}
	return (uintptr_t)got;
}

/* 1 if the page can be executed: a policy may forbid it (MemoryDenyWriteExecute, SELinux). */
static int seal(uintptr_t at)
{
	if (!syscall3(SYS_mprotect, (long)at, PAGE_BYTES, PROT_READ | PROT_EXEC))
		return 1;
	syscall3(SYS_munmap, (long)at, PAGE_BYTES, 0);
	return 0;
}

/* The functions' addresses: in the vDSO, or a stub. */
static int find(uintptr_t target[VFIX_FUNCTIONS])
{
	struct vfix_state found;
	uintptr_t stubs = 0;

	if (vfix_vdso_lookup(vfix_vdso, &found) < VFIX_FUNCTIONS) {
		stubs = map(0);
		if (!stubs)
			return 0;
		copy((void *)stubs, vfix_stubs, VFIX_FUNCTIONS * STUB_BYTES);
		if (!seal(stubs))
			return 0;
	}
	for (int i = 0; i < VFIX_FUNCTIONS; i++)
		target[i] = found.plain[i] ? found.plain[i] : stubs + (uintptr_t)i * STUB_BYTES;
	return 1;
}

static uintptr_t make(void)
{
	uintptr_t target[VFIX_FUNCTIONS], at = 0;

	if (!find(target))
		return 0;
	for (size_t i = 0; i < sizeof stand_in_tops && !at; i++)
		at = map(stand_in_at(stand_in_tops[i]));
	if (!at)
		return 0;
	copy((void *)at, vfix_stand_in, STAND_IN_BYTES);
	copy((void *)(at + SLOTS), target, sizeof target);
	return seal(at) ? at : 0;
}

/* Two threads may make one each: the first that is ready counts, the other one stays unused. */
uintptr_t vfix_page(void)
{
	uintptr_t have = __atomic_load_n(&page, __ATOMIC_ACQUIRE), made;

	if (have || refused)
		return have;
	made = make();
	if (!made)
		refused = 1;
	else if (!__atomic_compare_exchange_n(&page, &have, made, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return have;
	return made;
}
