/*
 * Reads and writes this process's own code, and stores the site that is being changed. The kernel writes
 * through /proc/self/mem into a private copy of the page, which never becomes writable. If that is refused,
 * the page is made writable for the store, then restored.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include "heal.h"

struct site vfix_site;
static volatile int unfinished;	/* for a concurrently forked child */

int vfix_mapping_of(uintptr_t address, struct mapping *map)
{
	long fd = syscall3(SYS_open, (long)"/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
	int found = fd >= 0 && vfix_find_mapping(fd, address, map);

	if (fd >= 0)
		syscall1(SYS_close, fd);
	if (!found)
		map->end = 0;
	return found;
}

/* A thread that reaches a hlt may read it at any time: its start is 0 while it changes. */
void vfix_set_site(const struct site *site)
{
	struct site unset = *site;

	unset.start = 0;
	__atomic_store_n(&vfix_site.start, 0, __ATOMIC_SEQ_CST);
	vfix_site = unset;
	__atomic_store_n(&vfix_site.start, site->start, __ATOMIC_SEQ_CST);
}

int vfix_read(struct task *t, uintptr_t from, void *to, size_t size)
{
	return syscall4(SYS_pread64, t->memory, (long)to, (long)size, (long)from) == (long)size;
}

static int write_directly(const struct mapping *map, uintptr_t address, const unsigned char *bytes, size_t n)
{
	uintptr_t page = address & -PAGE_SIZE, length = address + n - page > PAGE_SIZE ? 2 * PAGE_SIZE : PAGE_SIZE;
	int protection = (map->readable ? PROT_READ : 0) | (map->executable ? PROT_EXEC : 0) | (map->writable ? PROT_WRITE : 0);

	if (!map->writable && syscall3(SYS_mprotect, page, length, protection | PROT_WRITE))
		return 0;
	for (size_t i = 0; i < n; i++)
		((volatile unsigned char *)address)[i] = bytes[i];
	if (!map->writable)
		syscall3(SYS_mprotect, page, length, protection);
	return 1;
}

int vfix_put(struct task *t, uintptr_t to, const void *from, size_t size)
{
	return syscall4(SYS_pwrite64, t->memory, (long)from, (long)size, (long)to) == (long)size ||
		write_directly(t->map, to, from, size);
}

static void sync_cores(struct task *t)
{
	(void)t;
	syscall3(SYS_membarrier, MEMBARRIER_SYNC_CORE, 0, 0);
}

int vfix_write_site(struct task *t)
{
	int changed;

	if (syscall3(SYS_membarrier, MEMBARRIER_SYNC_CORE, 0, 0) && vfix_threads() > 2)	/* the requesting one, and this one */
		return 0;
	unfinished = 1;
	changed = vfix_change(t, &vfix_site, sync_cores);
	unfinished = 0;
	return changed;
}

void vfix_finish_site(struct task *t)
{
	struct mapping map;

	if (!unfinished || !vfix_mapping_of(vfix_site.start, &map))
		return;
	t->map = &map;
	vfix_write_site(t);
}
