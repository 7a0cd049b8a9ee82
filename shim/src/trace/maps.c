/*
 * The mappings of a task: /proc/PID/maps, line by line. Which one code belongs to decides
 * whether it may be changed, and names it.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "trace.h"

#define LINE_MAX_SIZE 4400	/* PATH_MAX and what stands before it */

/* A line is "start-end mode offset device inode   path". */
static void parse(char *line, struct mapping *m)
{
	char *at = line;

	memset(m, 0, sizeof *m);
	m->path = "";
	m->start = strtoul(at, &at, 16);
	if (*at != '-')
		return;
	m->end = strtoul(at + 1, &at, 16);
	if (strlen(at) < 6)
		return;
	m->is_private = at[4] == 'p';
	m->offset = strtoul(at + 5, &at, 16);
	at = strpbrk(at, "/[");
	if (at)
		m->path = at;
}

/* Fills m from the line that the address is in; text is where its path stays. */
static int find(int fd, uintptr_t addr, char text[LINE_MAX_SIZE], struct mapping *m)
{
	size_t have = 0;

	for (;;) {
		ssize_t n = read(fd, text + have, LINE_MAX_SIZE - 1 - have);

		if (n <= 0)
			return 0;
		have += (size_t)n;
		text[have] = 0;
		char *line = text, *end;
		for (; (end = strchr(line, '\n')); line = end + 1) {
			*end = 0;
			parse(line, m);
			if (addr >= m->start && addr < m->end)
				return 1;
		}
		have -= (size_t)(line - text);
		memmove(text, line, have);
	}
}

int proc_mapping(pid_t tid, uintptr_t addr, struct mapping *m)
{
	static char text[LINE_MAX_SIZE];
	int fd = proc_fd(tid, "maps");

	if (fd < 0)
		return 0;
	int found = find(fd, addr, text, m);
	close(fd);
	return found;
}
