/*
 * Writing into code that other threads may be running. The kernel writes through
 * /proc/self/mem into a private copy of the page, which never becomes writable. Where that is
 * refused the page is made writable for the moment of the store, and then as it was.
 */
#include <errno.h>
#include <sys/mman.h>
#include "heal.h"

static void store(const struct site *site)
{
	if (site->length == 1)
		*(volatile uint8_t *)site->address = site->bytes;
	else
		*(volatile uint64_t *)site->address = site->bytes;
}

static long write_directly(const struct site *site)
{
	uintptr_t page = site->address & -PAGE_SIZE;
	struct mapping map;
	long error;

	if (!vfix_find_mapping(site->address, &map) || map.shared)
		return -EACCES;
	if (map.writable) {
		store(site);
		return 0;
	}
	int protection = (map.readable ? PROT_READ : 0) | (map.executable ? PROT_EXEC : 0);
	error = syscall3(SYS_mprotect, page, PAGE_SIZE, protection | PROT_WRITE);
	if (error)
		return error;
	store(site);
	return syscall3(SYS_mprotect, page, PAGE_SIZE, protection);
}

long vfix_write_code(int memory, const struct site *site)
{
	long n = syscall4(SYS_pwrite64, memory, (long)&site->bytes, site->length, site->address);

	return n == site->length ? 0 : write_directly(site);
}
