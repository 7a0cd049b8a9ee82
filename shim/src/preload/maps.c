/*
 * What is mapped at an address, out of /proc/self/maps (proc(5)):
 * "START-END rwxp OFFSET DEV INODE   PATH". Only who holds the lock of healing is here.
 */
#include <fcntl.h>
#include "heal.h"

#define PIECE 4096
#define FIELD_PATH 5

struct reader {
	long fd;
	int at, n;
	char *piece;
};

static int next_char(struct reader *r)
{
	if (r->at == r->n) {
		r->n = syscall3(SYS_read, r->fd, (long)r->piece, PIECE);
		r->at = 0;
		if (r->n <= 0)
			return r->n = 0, -1;
	}
	return (unsigned char)r->piece[r->at++];
}

/* A hexadecimal number; *end is the character behind it. */
static uintptr_t number(struct reader *r, int *end)
{
	uintptr_t value = 0;

	for (;;) {
		int c = next_char(r);

		if (c >= '0' && c <= '9')
			value = value << 4 | (c - '0');
		else if (c >= 'a' && c <= 'f')
			value = value << 4 | (c - 'a' + 10);
		else
			return *end = c, value;
	}
}

/* The rest of a line: its path, or the path's end. */
static int read_path(struct reader *r, char path[static 200])
{
	int c, length = 0;

	while ((c = next_char(r)) == ' ')
		;
	for (; c >= 0 && c != '\n'; c = next_char(r)) {
		if (length == 199) {
			for (int i = 1; i < length; i++)
				path[i - 1] = path[i];
			length--;
		}
		path[length++] = c;
	}
	path[length] = 0;
	return c;
}

/* Reads one line; base stays where the line is a later part of the same file. */
static int read_line(struct reader *r, struct mapping *m)
{
	int c;

	m->start = number(r, &c);
	if (c != '-')
		return 0;
	m->end = number(r, &c);
	m->readable = next_char(r) == 'r';
	m->writable = next_char(r) == 'w';
	m->executable = next_char(r) == 'x';
	m->shared = next_char(r) == 's';
	next_char(r);
	uintptr_t offset = number(r, &c);
	for (int field = 3; field < FIELD_PATH && c >= 0; field++)
		while ((c = next_char(r)) != ' ' && c >= 0 && c != '\n')
			;
	if (c == '\n')
		m->path[0] = 0;
	else
		c = read_path(r, m->path);
	if (!offset || !m->path[0])
		m->base = m->start;
	return c == '\n';
}

int vfix_find_mapping(uintptr_t address, struct mapping *mapping)
{
	static char piece[PIECE];
	struct reader r = { .piece = piece, .fd = syscall3(SYS_open, (long)"/proc/self/maps", O_RDONLY | O_CLOEXEC, 0) };
	int found = 0;

	if (r.fd < 0)
		return 0;
	mapping->base = 0;
	while (!found && read_line(&r, mapping))
		found = address >= mapping->start && address < mapping->end;
	syscall1(SYS_close, r.fd);
	return found;
}
