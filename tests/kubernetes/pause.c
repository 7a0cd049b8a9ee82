/* pause: what a pod's sandbox runs; it waits for a signal to end. */
#include <signal.h>
#include <unistd.h>

static void end(int signal)
{
	(void)signal;
	_exit(0);
}

int main(void)
{
	signal(SIGTERM, end);
	signal(SIGINT, end);
	signal(SIGCHLD, SIG_IGN); /* whoever loses its parent becomes this one's child */
	for (;;)
		pause();
}
