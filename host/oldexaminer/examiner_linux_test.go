package oldexaminer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/host/jail"
	"vfix.dev/vfix/internal/tinyelf"
	"vfix.dev/vfix/rewriter/patch"
)

// The confined process is this program, called by another name.
func TestMain(m *testing.M) {
	if os.Args[0] == Name {
		_, _ = os.ReadFile("/proc/self/stat") // as libraries of vfix-nri read files before main: Go's runtime opens its epoll
		os.Exit(Main())
	}
	os.Exit(m.Run())
}

func examiner(t *testing.T) *Examiner {
	t.Helper()
	e := &Examiner{Memory: 256 << 20, Until: time.Now().Add(time.Minute)}
	t.Cleanup(e.Close)
	return e
}

func file(t *testing.T, b []byte) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if _, err := f.Write(b); err != nil {
		t.Fatal(err)
	}
	return f
}

// The confined process finds and writes the same as the rewriter does here.
func TestExamineAndPatch(t *testing.T) {
	e := examiner(t)
	original := tinyelf.Bytes(1)
	f := file(t, original)
	found, err := e.Examine(int(f.Fd()), int64(len(original)))
	if err != nil || found.Sites != 1 || found.Stay != 0 || found.Size <= int64(len(original)) {
		t.Fatalf("got %+v, %v", found, err)
	}
	to := file(t, nil)
	if err := e.Patch(int(f.Fd()), int64(len(original)), int(to.Fd()), found.Size); err != nil {
		t.Fatal(err)
	}
	p, _, err := planOf(bytes.NewReader(original), int64(len(original)), nil)
	if err != nil {
		t.Fatal(err)
	}
	want, _ := io.ReadAll(p.Apply(bytes.NewReader(original)))
	if got, _ := os.ReadFile(to.Name()); !bytes.Equal(got, want) {
		t.Errorf("got %d bytes, want %d others", len(got), len(want))
	}
	if v, err := patch.Verify(bytes.NewReader(original), int64(len(original)), to, found.Size, patch.Options{}); err != nil || len(v.Patches) != 1 {
		t.Errorf("got %+v, %v", v, err)
	}
	if err := e.Patch(int(f.Fd()), int64(len(original)), int(file(t, nil).Fd()), found.Size+1); err == nil {
		t.Error("a copy of another size was made")
	}
	nothing := file(t, []byte("text"))
	if found, err := e.Examine(int(nothing.Fd()), 4); err != nil || found != (Finding{}) {
		t.Errorf("text: got %+v, %v", found, err)
	}
	holds := strings.Join(e.Holds, " ")
	if !strings.Contains(holds, jail.Seccomp) || !strings.Contains(holds, jail.Rlimits) {
		t.Errorf("it is confined by %q", holds)
	}
}

// It has nothing open but its socket, and the null device as stdout and stderr.
func TestNothingIsInherited(t *testing.T) {
	e := examiner(t)
	f := file(t, []byte("text"))
	if fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD, 100); err != nil { // no O_CLOEXEC
		t.Fatal(err)
	} else {
		defer unix.Close(fd)
	}
	if _, err := e.Examine(int(f.Fd()), 4); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir("/proc/" + strconv.Itoa(e.process.Pid) + "/fd")
	if err != nil || len(entries) == 0 {
		t.Fatalf("got %v, %v", entries, err)
	}
	for _, d := range entries {
		to, _ := os.Readlink("/proc/" + strconv.Itoa(e.process.Pid) + "/fd/" + d.Name())
		if !strings.HasPrefix(to, "socket:") && to != "/dev/null" && !strings.HasPrefix(to, "anon_inode:") {
			t.Errorf("descriptor %s is %s", d.Name(), to)
		}
	}
}

// A file that ends the process has not been examined; the next one is, by another process.
func TestEnded(t *testing.T) {
	e := examiner(t)
	f := file(t, tinyelf.Bytes(1))
	examine := func() error {
		_, err := e.Examine(int(f.Fd()), int64(len(tinyelf.Bytes(1))))
		return err
	}
	if err := examine(); err != nil {
		t.Fatal(err)
	}
	first := e.process.Pid
	if err := unix.Kill(first, unix.SIGSEGV); err != nil { // as a fault does
		t.Fatal(err)
	}
	until(t, first, 'Z')
	if err := examine(); err == nil || !strings.Contains(err.Error(), "ended") {
		t.Errorf("got %v, want it to say that the process ended", err)
	}
	if err := examine(); err != nil || e.process.Pid == first {
		t.Errorf("the next file: %v", err)
	}
	// One that works on and on, as far as its time goes.
	if err := unix.Kill(e.process.Pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	until(t, e.process.Pid, 'T')
	e.Until = time.Now().Add(50 * time.Millisecond)
	if err := examine(); !errors.Is(err, ErrTime) {
		t.Errorf("got %v, want %v", err, ErrTime)
	}
	if e.process != nil {
		t.Error("it was left")
	}
}

// until waits for a process to be in a state of proc_pid_stat(5): a signal that was sent may take a while, in which
// it still answers.
func until(t *testing.T, pid int, state byte) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(stat), ") "+string(state)+" ") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not in state %c: %s", state, stat)
		}
	}
}

// An impossible answer is not one: the process may be in the hands of a file.
func TestLies(t *testing.T) {
	for _, a := range []string{
		`{"size":-1}`, `{"stay":1}`, `{"left":"x"}`, `{"fix":"java-cgroups"}`, `{"sites":-5}`, `{"size":"x"}`, `[]`, ``, `{"stay":1,"left":"` + strings.Repeat("x", 2*maxReason) + `"}`,
		`{"size":1}` + strings.Repeat(" ", maxMessage),
	} {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		e := examiner(t)
		e.socket, e.buf = pair[0], make([]byte, maxMessage)
		e.process, _ = os.FindProcess(1 << 30) // nobody
		if err := unix.Sendmsg(pair[1], []byte(a), nil, nil, 0); err != nil {
			t.Fatal(err)
		}
		if a == "" {
			unix.Close(pair[1])
		}
		if found, err := e.Examine(pair[0], 1); err == nil || found != (Finding{}) {
			t.Errorf("%.40s: got %+v, %v, want an error", a, found, err)
		}
	}
}
