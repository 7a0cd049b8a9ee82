/*
 * A static program cannot be preloaded: if it has call sites, it is executed by vfix-trace, which is beside this
 * library's directory. A shell that system or popen starts is preloaded itself. Everything else, and every error, is
 * left to the libc and the kernel.
 */
#include <elf.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "preload.h"

#define HEAD 4096	/* bytes: the program headers are in the first page, and an interpreter's name in much less */
#define NAME_BYTES 256	/* of an interpreter */
#define SCRIPTS_MOST 4	/* whose interpreters are scripts (fs/exec.c, exec_binprm) */
#define PATH_BYTES 4096
#define ARGUMENTS_MOST 100000	/* more are left alone: the copy is on the stack */
extern char **environ __attribute__((weak));

static int refers(const unsigned char *code, const unsigned char *end)
{
	for (const unsigned char *c = code; (c = vfix_find(c, end)) < end; c++)
		if ((c - code >= SITE_OPERAND && is_site(c - SITE_OPERAND)) || (end - c >= 8 && is_pointer(c)))
			return 1;
	return 0;
}

/* A 64-bit program without an interpreter that refers to the page. PT_INTERP precedes PT_LOAD (gABI, program header). */
static int is_static_caller(const unsigned char *file, size_t size)
{
	const Elf64_Ehdr *e = (const void *)file;
	const Elf64_Phdr *p = (const void *)(file + e->e_phoff);

	if (*(const uint32_t *)file != 0x464c457f || e->e_ident[EI_CLASS] != ELFCLASS64 || e->e_machine != EM_X86_64)
		return 0;
	if (e->e_phoff > HEAD || e->e_phentsize != sizeof *p || e->e_phoff + e->e_phnum * sizeof *p > HEAD)
		return 0;
	for (int i = 0; i < e->e_phnum; i++) {
		int in_file = p[i].p_filesz <= size && p[i].p_offset <= size - p[i].p_filesz;
		const unsigned char *at = file + p[i].p_offset;

		if (p[i].p_type == PT_INTERP)
			return 0;
		if (p[i].p_type == PT_LOAD && in_file && refers(at, at + p[i].p_filesz))
			return 1;
	}
	return 0;
}

/* A program that gains rights when it is executed would lose them if it were traced. */
static int gains_rights(long fd, const struct stat *st)
{
	if (st->st_mode & S_ISUID && st->st_uid != (uid_t)syscall0(SYS_geteuid))
		return 1;
	if (st->st_mode & S_ISGID && st->st_gid != (gid_t)syscall0(SYS_getegid))
		return 1;
	return syscall4(SYS_fgetxattr, fd, (long)"security.capability", 0, 0) > 0;
}

static int is_in(const char *set, char c)
{
	while (*set && *set != c)
		set++;
	return *set != 0;
}

/* Appends text, up to one of the stops, to a name that ends at end; returns its new end. */
static char *append(char *end, const char *limit, const char *text, const char *stops)
{
	while (*text && !is_in(stops, *text) && end < limit)
		*end++ = *text++;
	*end = 0;
	return end;
}

/* Reads the interpreter's name from the first line of a script: "#! INTERPRETER [ARGUMENT]". */
static void read_interpreter(const char *line, char name[NAME_BYTES])
{
	for (line += 2; *line == ' ' || *line == '\t'; line++)
		;
	append(name, name + NAME_BYTES - 1, line, " \t\n");
}

/* Whether the program, or the interpreter of the script, can run under the tracer only. */
static int needs_tracer(const char *path)
{
	char name[NAME_BYTES];
	int script = 1, needs = 0;

	for (int scripts = 0; script && scripts <= SCRIPTS_MOST; scripts++, path = name) {
		long fd = syscall3(SYS_open, (long)path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
		struct stat st = { .st_mode = 0 };

		if (fd < 0 || syscall3(SYS_fstat, fd, (long)&st, 0) || !S_ISREG(st.st_mode))
			st.st_size = 0;
		long map = syscall6(SYS_mmap, 0, st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);	/* an error for size 0 */
		const char *file = (const char *)map;

		script = map > 0 && file[0] == '#' && file[1] == '!';
		if (script)
			read_interpreter(file, name);
		else if (map > 0)
			needs = !gains_rights(fd, &st) && is_static_caller((const unsigned char *)file, (size_t)st.st_size);
		if (map > 0)
			syscall3(SYS_munmap, map, st.st_size, 0);
		syscall1(SYS_close, fd);
	}
	return needs;
}

/* DIR/x86_64/libvfix.so has DIR/vfix-trace. 1 if that is executable. */
static int find_tracer(char tracer[PATH_BYTES])
{
	static const char name[] = "vfix-trace";
	char *end = append(tracer, tracer + PATH_BYTES - sizeof name, vfix_own_path(), "");

	for (int slashes = 0; end > tracer && (slashes += end[-1] == '/') < 2; end--)
		;
	append(end, tracer + PATH_BYTES - 1, name, "");
	return !syscall3(SYS_access, (long)tracer, X_OK, 0);
}

static size_t count(char *const argv[])
{
	size_t n = 0;

	while (argv && argv[n] && n <= ARGUMENTS_MOST)
		n++;
	return n <= ARGUMENTS_MOST ? n : 0;
}

/* Calls start with the tracer's path and command line: vfix-trace --exec PATH ARGV... */
#define TRACED(path, argv, start) do { \
	char tracer[PATH_BYTES]; \
	size_t n_ = count(argv); \
	if (n_ && needs_tracer(path) && find_tracer(tracer)) { \
		char *own[n_ + 4]; \
		own[0] = tracer, own[1] = "--exec", own[2] = (char *)(path); \
		for (size_t i_ = 0; i_ <= n_; i_++) \
			own[i_ + 3] = (argv)[i_]; \
		start; \
	} \
} while (0)

PUBLIC int execve(const char *path, char *const argv[], char *const envp[])
{
	TRACED(path, argv, syscall3(SYS_execve, (long)tracer, (long)own, (long)envp));
	return (int)vfix_fail(syscall3(SYS_execve, (long)path, (long)argv, (long)envp));
}

PUBLIC int execv(const char *path, char *const argv[])
{
	return execve(path, argv, environ);
}

/* The file that a search in PATH finds first, in path; 0 if none. */
static int search(const char *name, char path[PATH_BYTES])
{
	const char *dirs = vfix_variable(&environ ? environ : 0, "PATH="), *limit = path + PATH_BYTES - 1;

	if (!dirs)
		dirs = "/bin:/usr/bin";
	if (is_in(name, '/'))
		dirs = "";
	for (;; dirs++) {
		char *end = append(path, limit, dirs, ":");

		dirs += end - path;
		if (end > path)
			end = append(end, limit, "/", "");
		append(end, limit, name, "");
		if (!syscall3(SYS_access, (long)path, X_OK, 0))
			return 1;
		if (!*dirs)
			return 0;
	}
}

PUBLIC int execvpe(const char *name, char *const argv[], char *const envp[])
{
	char path[PATH_BYTES];

	if (search(name, path))
		TRACED(path, argv, syscall3(SYS_execve, (long)tracer, (long)own, (long)envp));
	return envp == environ ? NEXT(execvp)(name, argv) : NEXT(execvpe)(name, argv, envp);
}

PUBLIC int execvp(const char *name, char *const argv[])
{
	return execvpe(name, argv, environ);
}

/* Defines a function with a list of arguments, and the environment behind its NULL if it takes one. */
#define LIST(name, run, environment) \
PUBLIC int name(const char *file, const char *first, ...) \
{ \
	size_t n = 1; \
	va_list list; \
	va_start(list, first); \
	while (first && va_arg(list, char *)) \
		n++; \
	va_end(list); \
	char *argv[n + 1]; \
	argv[0] = (char *)first; \
	va_start(list, first); \
	for (size_t i = 1; i <= n && first; i++) \
		argv[i] = va_arg(list, char *); \
	char *const *envp = environment; \
	va_end(list); \
	return run(file, argv, envp); \
}
LIST(execl, execve, environ)
LIST(execlp, execvpe, environ)
LIST(execle, execve, va_arg(list, char **))

PUBLIC int posix_spawn(pid_t *restrict pid, const char *restrict path, const posix_spawn_file_actions_t *actions,
		       const posix_spawnattr_t *restrict attributes, char *const argv[restrict], char *const envp[restrict])
{
	TRACED(path, argv, return NEXT(posix_spawn)(pid, tracer, actions, attributes, own, envp));
	return NEXT(posix_spawn)(pid, path, actions, attributes, argv, envp);
}

PUBLIC int posix_spawnp(pid_t *restrict pid, const char *restrict name, const posix_spawn_file_actions_t *actions,
			const posix_spawnattr_t *restrict attributes, char *const argv[restrict], char *const envp[restrict])
{
	char path[PATH_BYTES];

	if (search(name, path))
		TRACED(path, argv, return NEXT(posix_spawn)(pid, tracer, actions, attributes, own, envp));
	return NEXT(posix_spawnp)(pid, name, actions, attributes, argv, envp);
}
