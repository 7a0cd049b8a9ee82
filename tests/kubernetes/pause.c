/* pause: what a pod's sandbox runs; it does nothing until it is told to end. */
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
