/* with mdwe COMMAND...: runs it so that memory which is not executable never becomes so (Linux
 * 6.3). Exit status 77 where the kernel does not know that. */
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define SET_MDWE 65 /* PR_SET_MDWE and PR_MDWE_REFUSE_EXEC_GAIN: include/uapi/linux/prctl.h */
#define REFUSE_EXEC_GAIN 1ul
#define NOT_HERE 77

int main(int argc, char **argv)
{
	if (argc < 3 || strcmp(argv[1], "mdwe"))
		return 2;
	if (prctl(SET_MDWE, REFUSE_EXEC_GAIN, 0, 0, 0))
		return NOT_HERE;
	execv(argv[2], argv + 2);
	return 127;
}
