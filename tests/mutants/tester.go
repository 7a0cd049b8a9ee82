package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A test is one function of a test program, with the time it takes, also of processors, and the mutants it comes by.
type test struct {
	binary, dir, name string
	took, cpu         time.Duration
	reaches           []byte
}

// tester runs tests with one mutant on, or none.
type tester struct {
	work    string
	mutants int
	tests   []*test
}

type verdict int

const (
	unreached verdict = iota
	survived
	noticed
)

// build compiles the test programs of packages with all mutants, and lists their tests.
func (t *tester) build(paths []string) error {
	for i, path := range paths {
		out, err := exec.Command("go", "list", "-f", "{{.Dir}}", path).Output()
		if err != nil {
			return fmt.Errorf("go list %s: %w", path, err)
		}
		dir := strings.TrimSpace(string(out))
		binary := filepath.Join(t.work, fmt.Sprintf("test%d", i))
		if out, err := exec.Command("go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", filepath.Join(t.work, overlay), "-o", binary, path).CombinedOutput(); err != nil {
			return fmt.Errorf("go test -c %s: %w: %s", path, err, out)
		}
		if _, err := os.Stat(binary); err != nil {
			continue // without tests
		}
		out, err = t.command(context.Background(), &test{binary: binary, dir: dir}, 0, "", "-test.list=.").Output()
		if err != nil {
			return fmt.Errorf("%s: list tests: %w", path, err)
		}
		for name := range strings.Lines(string(out)) {
			if name = strings.TrimSpace(name); !strings.HasPrefix(name, "Benchmark") {
				t.tests = append(t.tests, &test{binary: binary, dir: dir, name: name})
			}
		}
	}
	if len(t.tests) == 0 {
		return errors.New("there are no tests")
	}
	return nil
}

// record runs each test with no mutant on. A test that fails then can notice nothing, and is named.
func (t *tester) record() error {
	var mu sync.Mutex
	var good []*test
	each(t.tests, func(i int, s *test) {
		name := filepath.Join(t.work, fmt.Sprintf("reached%d", i))
		if err := os.WriteFile(name, make([]byte, t.mutants+1), 0o666); err != nil {
			panic(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		defer cancel()
		began := time.Now()
		c := t.command(ctx, s, 0, name, "-test.run=^"+s.name+"$")
		out, err := c.CombinedOutput()
		s.took = time.Since(began)
		if c.ProcessState != nil {
			s.cpu = c.ProcessState.UserTime() + c.ProcessState.SystemTime()
		}
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			lines := strings.Split(strings.TrimSpace(string(out)), "\n")
			fmt.Printf("left out, as it fails without a mutant: %s: %v\n    %s\n", s.name, err, strings.Join(lines[max(0, len(lines)-8):], "\n    "))
			return
		}
		s.reaches, _ = os.ReadFile(name)
		os.Remove(name)
		good = append(good, s)
	})
	if t.tests = good; len(good) == 0 {
		return errors.New("no test passes without a mutant")
	}
	slices.SortFunc(t.tests, func(a, b *test) int { return cmp.Or(cmp.Compare(a.cpu, b.cpu), cmp.Compare(a.name, b.name)) })
	return nil
}

// leaveOut removes the tests that take more time of processors, without a limit if it is 0: mutants that only these
// notice survive.
func (t *tester) leaveOut(longest time.Duration) {
	t.tests = slices.DeleteFunc(t.tests, func(s *test) bool {
		slow := longest > 0 && s.cpu > longest
		if slow {
			fmt.Printf("left out, as it takes %.1f s: %s\n", s.cpu.Seconds(), s.name)
		}
		return slow
	})
}

// all tests mutants, sets their verdicts, and names those that survive.
func (t *tester) all(mutants []*mutant, verbose bool) {
	each(mutants, func(_ int, m *mutant) {
		by := ""
		m.verdict, by = t.one(m)
		switch {
		case m.verdict == survived:
			fmt.Printf("survived: %s\n", m)
		case verbose && m.verdict == noticed:
			fmt.Printf("noticed: %s by %s\n", m, by)
		}
	})
}

// one tests one mutant: the tests that come by it, in processes of some tests each, the fastest first.
func (t *tester) one(m *mutant) (verdict, string) {
	var tests []*test
	for _, s := range t.tests {
		if s.reaches[m.number] != 0 {
			tests = append(tests, s)
		}
	}
	if len(tests) == 0 {
		return unreached, ""
	}
	for len(tests) > 0 {
		first := tests[0]
		names := []string{}
		var took, cpu time.Duration
		var rest []*test
		for _, s := range tests {
			if s.binary == first.binary && (len(names) == 0 || cpu < 500*time.Millisecond) {
				names = append(names, regexp.QuoteMeta(s.name))
				took += s.took
				cpu += s.cpu
			} else {
				rest = append(rest, s)
			}
		}
		tests = rest
		// Time of processors shows an endless loop, also on a busy machine; the other limit is for what waits without end.
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute+20*took)
		c := t.command(ctx, first, m.number, "", "-test.failfast", "-test.run=^("+strings.Join(names, "|")+")$")
		c.Env = append(c.Env, fmt.Sprintf("%s=%d", limitCPU, int(5+6*cpu.Seconds())))
		out, err := c.CombinedOutput()
		late := ctx.Err() != nil || bytes.HasPrefix(out, []byte("SIGXCPU"))
		cancel()
		if late {
			return noticed, "time: " + strings.Join(names, " ")
		}
		if err != nil {
			by, _, _ := bytes.Cut(out, []byte(" ("))
			return noticed, string(by)
		}
	}
	return survived, ""
}

const (
	inside   = "-inside"
	limitCPU = "VFIX_MUTANT_SECONDS" // of processors, for a test with a mutant
)

// command runs a test program in a confinement of its own (confine).
func (t *tester) command(ctx context.Context, s *test, mutant int, reached string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, "/proc/self/exe", append([]string{inside, s.dir, s.binary, reached}, args...)...)
	c.Env = append(os.Environ(), fmt.Sprintf("VFIX_MUTANT=%d", mutant), "VFIX_MUTANTS_REACHED=")
	if reached != "" {
		c.Env = append(c.Env, "VFIX_MUTANTS_REACHED=/dev/shm/reached")
	}
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC,
		Pdeathsig:  syscall.SIGKILL,
	}
	c.WaitDelay = time.Second
	return c
}

// confine makes the process the first of its own process namespace, which may write to temporary
// directories alone, and executes a test program: DIR PROGRAM REACHED ARGUMENT...
func confine(args []string) error {
	dir, program, reached := args[0], args[1], args[2]
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("private mounts: %w", err)
	}
	binary, err := os.Open(program)
	if err != nil {
		return err
	}
	file := -1
	if reached != "" {
		if file, err = unix.OpenTree(unix.AT_FDCWD, reached, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC); err != nil {
			return fmt.Errorf("%s: %w", reached, err)
		}
	}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return fmt.Errorf("read-only mounts: %w", err)
	}
	for _, to := range []string{"/tmp", "/var/tmp", "/dev/shm", "/run"} {
		if err := unix.Mount("tmpfs", to, "tmpfs", 0, "mode=1777"); err != nil {
			return fmt.Errorf("%s: %w", to, err)
		}
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("/proc: %w", err)
	}
	if file >= 0 {
		if err := os.WriteFile("/dev/shm/reached", nil, 0o666); err != nil {
			return err
		}
		if err := unix.MoveMount(file, "", unix.AT_FDCWD, "/dev/shm/reached", unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return fmt.Errorf("record of what is reached: %w", err)
		}
	}
	if err := loopback(); err != nil {
		return fmt.Errorf("loopback: %w", err)
	}
	limit := unix.Rlimit{Cur: 8 << 30, Max: 8 << 30}
	if err := unix.Setrlimit(unix.RLIMIT_AS, &limit); err != nil {
		return err
	}
	if seconds, err := strconv.ParseUint(os.Getenv(limitCPU), 10, 64); err == nil {
		if err := unix.Setrlimit(unix.RLIMIT_CPU, &unix.Rlimit{Cur: seconds, Max: seconds + 1}); err != nil {
			return err
		}
	}
	if err := os.Chdir(dir); err != nil {
		return err
	}
	// A test may execute its own program, which the new /tmp hides.
	copied := "/run/" + filepath.Base(program) + ".test"
	if err := os.WriteFile(copied, nil, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(fmt.Sprintf("/proc/self/fd/%d", binary.Fd()), copied, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("%s: %w", program, err)
	}
	return unix.Exec(copied, append([]string{copied}, args[3:]...), os.Environ())
}

// loopback starts the loopback device of a new network namespace.
func loopback() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	r, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	r.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, r)
}

// each calls do for each element, two side by side.
func each[T any](list []T, do func(int, T)) {
	var wg sync.WaitGroup
	next := make(chan int)
	for range 2 {
		wg.Go(func() {
			for i := range next {
				do(i, list[i])
			}
		})
	}
	for i := range list {
		next <- i
	}
	close(next)
	wg.Wait()
}
