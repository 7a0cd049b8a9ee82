// Signals that are passed on, in processes that record by hand what entry does.

package inherited

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	blocked = 1<<(unix.SIGSEGV-1) | 1<<(unix.SIGUSR1-1)
	ignored = 1<<(unix.SIGHUP-1) | 1<<(unix.SIGUSR2-1) | 1<<(unix.SIGWINCH-1) | 1<<(64-1)
)

// The tests run this program again, which restores and reports its state.
func TestMain(m *testing.M) {
	if len(os.Args) != 2 || os.Args[0] != "restore" {
		os.Exit(m.Run())
	}
	switch os.Args[1] {
	case "orphan":
		parent.pid++
	case "recorded":
		signals.recorded = 1
		fallthrough
	case "not recorded":
		signals.blocked, signals.ignored = blocked, ignored
	}
	signal.Notify(make(chan os.Signal, 1), unix.SIGHUP) // which what runs the tests may ignore
	_ = unix.Prctl(unix.PR_SET_PDEATHSIG, 0, 0, 0, 0)   // as in a thread that is not the first
	was := state("SigIgn")
	Restore()
	var death int32
	_ = unix.Prctl(unix.PR_GET_PDEATHSIG, uintptr(unsafe.Pointer(&death)), 0, 0, 0)
	fmt.Printf("%x %x %d", state("SigBlk"), state("SigIgn")&^was, death)
	os.Exit(0)
}

// state is a set of signals of this thread.
func state(name string) (set uint64) {
	status, _ := os.ReadFile("/proc/thread-self/status")
	_, line, _ := strings.Cut(string(status), name+":\t")
	_, _ = fmt.Sscanf(line, "%x", &set)
	return set
}

func TestRestore(t *testing.T) {
	for _, c := range []struct {
		how   string
		death syscall.Signal
		want  string // "" for a process that is killed
	}{
		{"recorded", 0, fmt.Sprintf("%x %x 0", uint64(blocked), uint64(ignored))},
		{"not recorded", 0, "0 0 0"},
		{"parent", unix.SIGKILL, fmt.Sprintf("0 0 %d", unix.SIGKILL)},
		{"parent", unix.SIGHUP, fmt.Sprintf("0 0 %d", unix.SIGHUP)},
		{"orphan", 0, "0 0 0"},
		{"orphan", unix.SIGKILL, ""},
	} {
		t.Run(fmt.Sprintf("%s %d", c.how, c.death), func(t *testing.T) {
			e := exec.Command("/proc/self/exe")
			e.Args, e.SysProcAttr = []string{"restore", c.how}, &syscall.SysProcAttr{Pdeathsig: c.death}
			out, _ := e.Output()
			if end := e.ProcessState.Sys().(syscall.WaitStatus); string(out) != c.want || end.Signaled() != (c.want == "") {
				t.Errorf("%v: got %q, want %q", e.ProcessState, out, c.want)
			}
		})
	}
}
