/* command: reads and runs one. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include "guest.h"

/* The list has the number of words, and the words, each with a NUL after it. */
static char *next_word(void)
{
	char *word = 0;
	size_t size = 0;

	return getdelim(&word, &size, 0, stdin) < 0 ? 0 : word;
}

char **next_command(void)
{
	char *number = next_word();

	if (!number)
		return 0;
	int n = atoi(number);
	char **words = calloc(n + 1, sizeof *words);

	for (int i = 0; i < n; i++)
		if (!(words[i] = next_word()))
			give_up("the list breaks off");
	return words;
}

static void redirect(int fd, const char *path, int flags)
{
	int file = open(path, flags, 0644);

	if (file < 0 || dup2(file, fd) < 0)
		give_up(path);
	close(file);
}

/* Its remaining processes are killed; its orphans are waited for here, as by any process 1. */
int run(const struct place *place, char **words)
{
	int status;
	pid_t pid;

	remove(STREAMS "stdout");
	remove(STREAMS "stderr");
	pid = fork();
	if (pid < 0)
		give_up("fork");
	if (pid == 0) {
		redirect(0, "/dev/null", O_RDONLY);
		redirect(1, STREAMS "stdout", O_WRONLY | O_CREAT);
		redirect(2, STREAMS "stderr", O_WRONLY | O_CREAT);
		enter(place, words);
	}
	while (wait(&status) != pid)
		;
	kill(-1, SIGKILL);
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
