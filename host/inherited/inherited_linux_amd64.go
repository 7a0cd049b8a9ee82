// Package inherited passes the state that a process was started with on to the program that it executes in
// its place: the signals that are blocked or ignored, and the signal that it gets when its parent ends.
//
// yum blocks SIGSEGV, a shell's background job ignores SIGINT. Go's runtime unblocks those that
// it needs and handles nearly all, before any Go code runs; so they are recorded in assembly,
// at the address that the linker was given (make: -ldflags '-E vfix.dev/vfix/host/inherited.entry').
package inherited

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// signals is filled by entry; a bit is a signal, from the first on.
var signals struct {
	blocked, ignored uint64
	recorded         uint64 // 1 where entry ran
}

func entry()

// Nothing in Go calls it: this keeps vet and staticcheck from calling it unused.
var _ = entry

// sigIgn is SIG_IGN, and sigaction the kernel's struct (asm/signal.h).
const sigIgn = 1

type sigaction struct{ handler, flags, restorer, mask uint64 }

// parent is the setting that this process was started with: PR_SET_PDEATHSIG is of a thread (prctl(2)), and
// package variables are made in the first one.
var parent = func() (p struct{ signal, pid int }) {
	var signal int32
	if unix.Prctl(unix.PR_GET_PDEATHSIG, uintptr(unsafe.Pointer(&signal)), 0, 0, 0) == nil {
		p.signal, p.pid = int(signal), unix.Getppid()
	}
	return p
}()

// Restore makes this thread's mask, the process's ignored signals and the signal of its parent's end what they
// were before vfix. The thread stays locked: it is the one that executes the program. The program
// starts with every other signal as after an execve.
func Restore() {
	runtime.LockOSThread()
	if parent.signal != 0 && unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(parent.signal), 0, 0, 0) == nil && unix.Getppid() != parent.pid {
		_ = unix.Kill(unix.Getpid(), unix.Signal(parent.signal)) // it ended before this thread could ask
	}
	if signals.recorded == 0 {
		return
	}
	ignore := sigaction{handler: sigIgn}
	for signal := uintptr(1); signal <= 64; signal++ {
		if signals.ignored>>(signal-1)&1 != 0 {
			unix.RawSyscall6(unix.SYS_RT_SIGACTION, signal, uintptr(unsafe.Pointer(&ignore)), 0, unsafe.Sizeof(ignore.mask), 0, 0)
		}
	}
	const setMask = 2 // SIG_SETMASK
	unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, setMask, uintptr(unsafe.Pointer(&signals.blocked)), 0, unsafe.Sizeof(signals.blocked), 0, 0)
}
