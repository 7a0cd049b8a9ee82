// The signals that this process was started with blocked or ignored are its program's affair:
// yum blocks SIGSEGV, a shell's background job ignores SIGINT. Go's runtime unblocks those that
// it needs and handles nearly all, before any Go code runs; so they are recorded in assembly,
// where the linker was told to start (make: -ldflags '-E vfix.dev/vfix/host/run.entry').

package run

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// inherited is filled by entry; a bit is a signal, from the first on.
var inherited struct {
	blocked, ignored uint64
	recorded         uint64 // 1 where entry ran
}

func entry()

// Nothing in Go calls it: this keeps vet and staticcheck from calling it unused.
var _ = entry

// sigIgn is SIG_IGN, and sigaction the kernel's struct (asm/signal.h).
const sigIgn = 1

type sigaction struct{ handler, flags, restorer, mask uint64 }

// restoreSignals makes this thread's mask and the process's ignored signals what they were
// before vfix. The thread stays locked: it is the one that executes the program. The program
// starts with every other signal as the kernel has it after an execve.
func restoreSignals() {
	if inherited.recorded == 0 {
		return
	}
	runtime.LockOSThread()
	ignore := sigaction{handler: sigIgn}
	for signal := uintptr(1); signal <= 64; signal++ {
		if inherited.ignored>>(signal-1)&1 != 0 {
			unix.RawSyscall6(unix.SYS_RT_SIGACTION, signal, uintptr(unsafe.Pointer(&ignore)), 0, unsafe.Sizeof(ignore.mask), 0, 0)
		}
	}
	const setMask = 2 // SIG_SETMASK
	unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, setMask, uintptr(unsafe.Pointer(&inherited.blocked)), 0, unsafe.Sizeof(inherited.blocked), 0, 0)
}
