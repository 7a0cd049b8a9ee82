// The confined process gives up all rights that it does not need to compute on open files.

package examiner

import (
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"syscall"
	"time"
	"unsafe"

	"github.com/landlock-lsm/go-landlock/landlock"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// The bounds of the process: memory in bytes, and processor time. The largest programs of images take a tenth.
const (
	maxMemory = 256 << 20
	maxCPU    = 60 * time.Second
)

// nobody is the user and group of programs that root starts (Debian policy 9.2.2).
const nobody = 65534

// goRuntime is how much of RLIMIT_DATA an idle Go process uses, rounded up, in bytes: an arena of 64 MiB and its
// tables.
const goRuntime = 160 << 20

// confine permanently confines all threads of the process: files that are open stay open, and from then on it can only
// read, write to pipes and sockets, and compute, within memory bytes of data beside the Go runtime's, and cpu of processor
// time. An old kernel may lack Landlock. It returns an error if it cannot even restrict the system calls.
func confine(memory int64, cpu time.Duration) error {
	debug.SetMemoryLimit(memory)
	for resource, most := range map[int]uint64{
		unix.RLIMIT_DATA:  uint64(memory) + goRuntime,
		unix.RLIMIT_CPU:   uint64(math.Ceil(cpu.Seconds())) + 1,
		unix.RLIMIT_CORE:  0,
		unix.RLIMIT_FSIZE: 0,
	} {
		var caller unix.Rlimit // of the engine, by systemd: it may be lower
		err := unix.Getrlimit(resource, &caller)
		most = min(most, caller.Max)
		if err = errors.Join(err, unix.Setrlimit(resource, &unix.Rlimit{Cur: most, Max: most})); err != nil {
			return fmt.Errorf("setrlimit %d: %w", resource, err)
		}
	}
	// If the container's control group runs out of memory, the kernel kills this process first.
	if fd, err := unix.Open("/proc/self/oom_score_adj", unix.O_WRONLY|unix.O_CLOEXEC, 0); err == nil {
		_, _ = unix.Write(fd, []byte("1000"))
		unix.Close(fd)
	}
	// The filter gives it to all threads.
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	if err := closeFiles(); err != nil {
		return err
	}
	// In a user namespace without that user, only the filter protects.
	if syscall.Setgroups(nil) == nil && syscall.Setresgid(nobody, nobody, nobody) == nil {
		_ = syscall.Setresuid(nobody, nobody, nobody)
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return err
	}
	return filter()
}

// closeFiles denies all access to files by the first version of Landlock, if the kernel has it.
func closeFiles() error { return landlock.V1.BestEffort().RestrictPaths() }

// confinedCalls are the system calls of a Go program that computes, and reads and writes open files. None of them
// opens a file, creates a socket, or starts a program.
var confinedCalls = []uint32{
	unix.SYS_PREAD64, unix.SYS_WRITE, unix.SYS_FSTAT, unix.SYS_CLOSE,
	unix.SYS_MUNMAP, unix.SYS_MADVISE, unix.SYS_BRK, // for mmap and mprotect see confinedFilter
	unix.SYS_FUTEX, unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_CLOCK_GETTIME, unix.SYS_GETTIMEOFDAY, unix.SYS_SCHED_YIELD,
	unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_SIGALTSTACK, unix.SYS_RESTART_SYSCALL,
	unix.SYS_GETPID, unix.SYS_GETTID, unix.SYS_SCHED_GETAFFINITY, unix.SYS_GETRANDOM,
	unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT, unix.SYS_EVENTFD2, unix.SYS_READ, // timers
	unix.SYS_EXIT, unix.SYS_EXIT_GROUP,
}

// Offsets into struct seccomp_data, and AUDIT_ARCH_X86_64 (uapi/linux/seccomp.h and audit.h).
const (
	dataNr   = 0
	dataArch = 4
	dataArg0 = 16 // the low half of the first argument; each argument has 8 bytes
	dataArg2 = dataArg0 + 2*8
	auditX64 = 0xc000003e
)

// filter restricts the system calls of all threads. All others fail with EPERM.
func filter() error {
	program, err := bpf.Assemble(confinedFilter())
	if err != nil {
		return fmt.Errorf("seccomp: %w", err)
	}
	// bpf.RawInstruction has the fields of struct sock_filter (uapi/linux/filter.h).
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: (*unix.SockFilter)(unsafe.Pointer(&program[0]))}
	thread, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 || thread != 0 {
		return fmt.Errorf("seccomp: %w (thread %d)", errno, thread)
	}
	return nil
}

func confinedFilter() []bpf.Instruction {
	allow := bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}
	deny := bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)}
	is := func(nr uint32, then ...bpf.Instruction) []bpf.Instruction {
		return append([]bpf.Instruction{bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: nr, SkipTrue: uint8(len(then))}}, then...)
	}
	// Memory is never executable, and new threads belong to this process.
	noCode := []bpf.Instruction{
		bpf.LoadAbsolute{Off: dataArg2, Size: 4}, bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: unix.PROT_EXEC, SkipFalse: 1}, deny, allow,
	}
	thread := []bpf.Instruction{
		bpf.LoadAbsolute{Off: dataArg0, Size: 4}, bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: unix.CLONE_THREAD, SkipFalse: 1}, allow, deny,
	}
	program := []bpf.Instruction{
		bpf.LoadAbsolute{Off: dataArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: auditX64, SkipTrue: 1},
		bpf.RetConstant{Val: unix.SECCOMP_RET_KILL_PROCESS},
		bpf.LoadAbsolute{Off: dataNr, Size: 4},
	}
	program = append(program, is(unix.SYS_MMAP, noCode...)...)
	program = append(program, is(unix.SYS_MPROTECT, noCode...)...)
	program = append(program, is(unix.SYS_CLONE, thread...)...)
	for _, nr := range confinedCalls {
		program = append(program, is(nr, allow)...)
	}
	return append(program, deny)
}
