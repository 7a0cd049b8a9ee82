/*
 * Finds the mapping at an address: "START-END rwxp OFFSET DEV INODE   PATH", line by line. For one caller
 * at a time.
 */
#include "core.h"
#include "../syscall.h"

#define PIECE 4096
#define FIELD_PATH 5

struct reader {
	long fd;
	int at, n;
	char piece[PIECE];
};

static int next_char(struct reader *r)
{
	if (r->at == r->n) {
		r->n = (int)syscall3(SYS_read, r->fd, (long)r->piece, PIECE);
		r->at = 0;
		if (r->n <= 0)
			return r->n = 0, -1;
	}
	return (unsigned char)r->piece[r->at++];
}

/* Reads a hexadecimal number; *end is the character after it. */
static uintptr_t number(struct reader *r, int *end)
{
	uintptr_t value = 0;

	for (;;) {
		int c = next_char(r);

		if (c >= '0' && c <= '9')
			value = value << 4 | (unsigned)(c - '0');
		else if (c >= 'a' && c <= 'f')
			value = value << 4 | (unsigned)(c - 'a' + 10);
		else
			return *end = c, value;
	}
}

/* Reads the rest of a line; returns its end. */
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
		path[length++] = (char)c;
	}
	path[length] = 0;
	return c;
}

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
	m->offset = number(r, &c);
	for (int field = 3; field < FIELD_PATH && c >= 0; field++)
		while ((c = next_char(r)) != ' ' && c >= 0 && c != '\n')
			;
	m->path[0] = 0;
	return (c == '\n' ? c : read_path(r, m->path)) == '\n';
}

int vfix_find_mapping(long fd, uintptr_t address, struct mapping *m)
{
	static struct reader r;

	r.fd = fd;
	r.at = r.n = 0;
	while (read_line(&r, m))
		if (address >= m->start && address < m->end)
			return 1;
	return 0;
}
