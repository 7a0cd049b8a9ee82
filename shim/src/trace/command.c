/* Executes the command. */
#include <errno.h>
#include <string.h>
#include <unistd.h>
#include "trace.h"

_Noreturn void execute(char **command)
{
	execvp(command[0], command);
	if (errno == ENOENT || errno == ENOTDIR) {
		if (strchr(command[0], '/'))
			error("%s: %s", command[0], access(command[0], F_OK) ? strerror(errno) :
			      "the interpreter that it names is missing");
		else
			error("%s: not found in PATH", command[0]);
		_exit(STATUS_NOT_FOUND);
	}
	error("%s: %s", command[0], strerror(errno));
	_exit(STATUS_CANNOT_EXEC);
}
