package examiner

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// attempts are actions that a confined process must not be able to do.
var attempts = map[string]func(file string) error{
	"open":          func(file string) error { return opened(unix.Open(file, unix.O_RDONLY, 0)) },
	"open to write": func(file string) error { return opened(unix.Open(file, unix.O_WRONLY, 0)) },
	"create":        func(file string) error { return opened(unix.Open(file+".new", unix.O_WRONLY|unix.O_CREAT, 0o600)) },
	"openat2": func(file string) error {
		return opened(unix.Openat2(unix.AT_FDCWD, file, &unix.OpenHow{Flags: unix.O_RDONLY}))
	},
	"inet socket": func(string) error { return opened(unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)) },
	"unix socket": func(string) error { return opened(unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)) },
	"chmod":       func(file string) error { return unix.Chmod(file, 0o600) },
	"mkdir": func(file string) error {
		err := unix.Mkdir(file+".dir", 0o700)
		_ = unix.Rmdir(file + ".dir")
		return err
	},
	"signal":    func(string) error { return unix.Kill(os.Getppid(), 0) },
	"ptrace":    func(string) error { return errno(unix.SYS_PTRACE, unix.PTRACE_TRACEME) },
	"exec":      func(string) error { return errno(unix.SYS_EXECVE) },
	"vfork":     func(string) error { return errno(unix.SYS_VFORK) },
	"namespace": func(string) error { return errno(unix.SYS_UNSHARE, unix.CLONE_NEWUSER) },
	"io_uring":  func(string) error { return errno(unix.SYS_IO_URING_SETUP) },
	"x32":       func(string) error { return errno(0x40000000 + unix.SYS_GETPID) },
	"code": func(string) error {
		return errno(unix.SYS_MMAP, 0, 4096, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANON, ^uintptr(0))
	},
	"code later": func(string) error {
		b, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err != nil {
			return fmt.Errorf("control: %w", err)
		}
		return unix.Mprotect(b, unix.PROT_READ|unix.PROT_EXEC)
	},
	// The kernel itself would refuse these three with another error.
	"process":        func(string) error { return errno(unix.SYS_CLONE, unix.CLONE_SIGHAND) },
	"thread signal":  func(string) error { return errno(unix.SYS_TGKILL, 1<<30, 1<<30) },
	"unknown number": func(string) error { return errno(1 << 20) },
	"more memory": func(string) error {
		var old unix.Rlimit
		return unix.Prlimit(0, unix.RLIMIT_DATA, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}, &old)
	},
}

// permitted are actions that the filter leaves to the kernel, which refuses some of them with another error.
var permitted = map[string]func() error{
	"data for reading": func() error {
		b, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err != nil {
			return err
		}
		return unix.Mprotect(b, unix.PROT_READ)
	},
	"thread": func() error { return errno(unix.SYS_CLONE, unix.CLONE_THREAD) },
}

func opened(fd int, err error) error {
	if err == nil {
		unix.Close(fd)
	}
	return err
}

func errno(nr uintptr, a ...uintptr) error {
	a = append(a, make([]uintptr, 6)...)
	_, _, e := unix.Syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5])
	if e == 0 {
		return nil
	}
	return e
}

// harmless are the attempts whose control would end or change the process that makes them.
var harmless = []string{"open", "open to write", "create", "openat2", "inet socket", "unix socket", "chmod", "mkdir", "signal", "code", "code later"}

type outcome struct {
	Before, After map[string]syscall.Errno
	Error         string
	State         map[string]string // of the process, according to /proc
}

// stateFiles are read after the process has confined itself, and opened before.
var stateFiles = []string{"status", "limits", "oom_score_adj"}

func openState() (all []*os.File) {
	for _, name := range stateFiles {
		f, _ := os.Open("/proc/self/" + name)
		all = append(all, f)
	}
	return all
}

func (o *outcome) readState(all []*os.File) {
	o.State = map[string]string{}
	for i, f := range all {
		b := make([]byte, 1<<13)
		n, _ := unix.Pread(int(f.Fd()), b, 0)
		o.State[stateFiles[i]] = strings.Join(strings.Fields(string(b[:max(n, 0)])), " ")
	}
	o.State["memory"] = fmt.Sprint(debug.SetMemoryLimit(-1))
}

func confined(how, file string) int {
	o := outcome{Before: map[string]syscall.Errno{}, After: map[string]syscall.Errno{}}
	for name, try := range attempts {
		var e syscall.Errno
		if slices.Contains(harmless, name) && how != "memory" && how != "time" {
			errors.As(try(file), &e)
			o.Before[name] = e
		}
	}
	files := openState()
	switch how {
	case "landlock":
		if err := closeFiles(); err != nil {
			o.Error = err.Error()
		}
	case "limited":
		if err := unix.Setrlimit(unix.RLIMIT_CPU, &unix.Rlimit{Cur: 1, Max: 1}); err != nil {
			o.Error = err.Error()
			break
		}
		fallthrough
	default:
		if err := confine(64<<20, time.Second); err != nil {
			o.Error = err.Error()
		}
	}
	switch how {
	case "memory":
		for all := [][]byte{}; ; {
			b := make([]byte, 1<<20)
			for i := 0; i < len(b); i += 4096 {
				b[i] = 1
			}
			all = append(all, b)
		}
	case "time":
		for n := 0; ; n++ {
			_ = n
		}
	}
	for name, try := range attempts {
		if how == "landlock" && !slices.Contains(harmless, name) {
			continue
		}
		var e syscall.Errno
		errors.As(try(file), &e)
		o.After[name] = e
	}
	for name, try := range permitted {
		var e syscall.Errno
		errors.As(try(), &e)
		o.After[name] = e
	}
	o.readState(files)
	text, _ := json.Marshal(o)
	_, _ = unix.Write(1, text)
	return 0
}

func runConfined(t *testing.T, how string) (*exec.Cmd, []byte) {
	t.Helper()
	dir := t.TempDir()
	file := dir + "/file"
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("text"), 0o666); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("/proc/self/exe", how, file)
	c.Args[0] = "confined"
	out, _ := c.Output()
	return c, out
}

// A caller's own limits, which nobody without rights can raise, stay in force.
func TestConfineBelowLimits(t *testing.T) {
	c := exec.Command("/proc/self/exe", "limited", t.TempDir()+"/file")
	c.Args[0] = "confined"
	if os.Geteuid() == 0 {
		const nobody = 65534
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	out, err := c.Output()
	var o outcome
	if json.Unmarshal(out, &o) != nil || o.Error != "" {
		t.Errorf("%v: %s: %q", err, o.Error, out)
	}
}

// Every forbidden action of a confined process fails with EPERM; before, it worked.
func TestConfine(t *testing.T) {
	c, out := runConfined(t, "all")
	var o outcome
	if err := json.Unmarshal(out, &o); err != nil || o.Error != "" {
		t.Fatalf("%v: %v %s: %q", c.ProcessState, err, o.Error, out)
	}
	for name := range attempts {
		if slices.Contains(harmless, name) && o.Before[name] != 0 {
			t.Errorf("%s: control: %v", name, o.Before[name])
		}
		if o.After[name] != unix.EPERM {
			t.Errorf("%s: got %v, want EPERM", name, o.After[name])
		}
	}
	for name := range permitted {
		if e, ok := o.After[name]; !ok || e == unix.EPERM {
			t.Errorf("%s: got %v", name, e)
		}
	}
	wants := map[string][]string{
		"limits": {"Max cpu time 2 2 seconds", fmt.Sprintf("Max data size %[1]d %[1]d bytes", 64<<20+goRuntime), "Max core file size 0 0 bytes", "Max file size 0 0 bytes"},
		"status": {"NoNewPrivs: 1", "Seccomp: 2"}, "oom_score_adj": {"1000"}, "memory": {fmt.Sprint(64 << 20)},
	}
	if os.Geteuid() == 0 {
		wants["status"] = append(wants["status"], "Uid: 65534 65534 65534 65534", "Gid: 65534 65534 65534 65534", "Groups: NStgid", "CapEff: 0000000000000000")
	}
	for name, texts := range wants {
		for _, want := range texts {
			if !strings.Contains(o.State[name], want) {
				t.Errorf("%s: got %s, want %s", name, o.State[name], want)
			}
		}
	}
}

func hasLandlock() bool {
	abi, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, 1)
	return e == 0 && abi > 0
}

// Landlock alone keeps files closed.
func TestLandlock(t *testing.T) {
	if !hasLandlock() {
		t.Skip("this kernel has no Landlock")
	}
	_, out := runConfined(t, "landlock")
	var o outcome
	if err := json.Unmarshal(out, &o); err != nil || o.Error != "" {
		t.Fatalf("%v %s: %q", err, o.Error, out)
	}
	for _, name := range []string{"open", "open to write", "create", "openat2", "mkdir"} {
		if o.Before[name] != 0 || o.After[name] != unix.EACCES {
			t.Errorf("%s: got %v before and %v after, want success and EACCES", name, o.Before[name], o.After[name])
		}
	}
	if o.After["code"] != 0 {
		t.Errorf("control: memory for code: %v", o.After["code"])
	}
}

func TestConfinedMemoryAndTime(t *testing.T) {
	c, _ := runConfined(t, "memory")
	if used := c.ProcessState.SysUsage().(*syscall.Rusage).Maxrss; c.ProcessState.ExitCode() != 2 || used > 300<<10 {
		t.Errorf("memory: %v with %d KiB, want the Go runtime's exit status 2 with less than 300 MiB", c.ProcessState, used)
	}
	begun := time.Now()
	c, _ = runConfined(t, "time")
	if status := c.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || c.ProcessState.UserTime() > 5*time.Second {
		t.Errorf("time: %v after %v", c.ProcessState, time.Since(begun))
	}
}
