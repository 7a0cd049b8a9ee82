// The temporary directory of the measured programs, how one of them is run, and why one failed.

package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"vfix.dev/vfix/host/jail"
)

const (
	executable = 0o755
	// A sample takes milliseconds; a program that takes this long hangs.
	patience = time.Minute
)

type place struct {
	o      Options
	dir    string
	sample string // microseconds, as the programs take it
}

// newPlace writes the programs into a temporary directory from which programs may be executed.
func newPlace(o Options) (*place, error) {
	var errs []error
	for _, under := range []string{os.TempDir(), "/var/tmp", "/dev/shm", "."} {
		dir, err := os.MkdirTemp(under, "vfix-bench-")
		if err == nil {
			dir, err = filepath.Abs(dir)
		}
		p := &place{o: o, dir: dir, sample: strconv.Itoa(o.Sample)}
		if err == nil {
			if err = p.fill(); err == nil {
				return p, nil
			}
			p.close()
		}
		errs = append(errs, err)
	}
	return nil, fmt.Errorf("no directory from which programs may be executed: %w", errors.Join(errs...))
}

// fill writes the programs, and tries one.
func (p *place) fill() error {
	if strings.ContainsAny(p.dir, " :") { // ld.so splits LD_PRELOAD at these
		return fmt.Errorf("%s: has a space or colon in its name", p.dir)
	}
	for name, program := range map[string][]byte{
		measureProgram: p.o.Programs.Measure, libcProgram: p.o.Programs.MeasureLibc,
		twinStubs: p.o.Programs.TwinStubs, twinLibrary: p.o.Programs.TwinLibrary,
	} {
		if err := p.put(name, program); err != nil {
			return err
		}
	}
	_, err := p.run(context.Background(), candidate{args: []string{measureProgram, "probe", "syscall:time"}})
	return err
}

func (p *place) close() { os.RemoveAll(p.dir) }

func (p *place) path(name string) string { return filepath.Join(p.dir, name) }

func (p *place) put(name string, data []byte) error {
	return os.WriteFile(p.path(name), data, executable)
}

// putInto writes a program into a root filesystem, whatever symlinks it contains.
func putInto(dir, name string, data []byte) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return root.WriteFile(name, data, executable)
}

// run runs a candidate once and returns what it printed.
func (p *place) run(ctx context.Context, c candidate) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var cmd *exec.Cmd
	if c.root != "" {
		cmd = jail.Command(ctx, c.root, c.args[0], c.args[1:]...)
	} else {
		cmd = exec.CommandContext(ctx, p.path(c.args[0]), c.args[1:]...)
	}
	cmd.Env = append([]string{}, c.env...)
	var out, errout bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errout
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil, fmt.Errorf("did not end within %v", patience)
	}
	if said := strings.TrimSpace(errout.String()); err != nil && said != "" {
		return nil, fmt.Errorf("%w: %s", err, said)
	}
	return out.Bytes(), err
}

// signalOf returns the signal that ended a process, 0 without one.
func signalOf(err error) syscall.Signal {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return 0
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return status.Signal()
	}
	return 0
}

// died explains why a program of ours ended.
func died(err error) string {
	switch signalOf(err) {
	case syscall.SIGSEGV:
		return "this kernel does not serve the vsyscall page: a call is SIGSEGV"
	case syscall.SIGSYS:
		return "a seccomp filter kills what calls it"
	}
	return err.Error()
}

// noLibc explains a failure of programs that are linked with the libc of this system or of an image.
func noLibc(whose string) func(error) string {
	return func(err error) string {
		if errors.Is(err, fs.ErrNotExist) {
			return whose + " has no glibc for x86-64 (/lib64/ld-linux-x86-64.so.2)"
		}
		return died(err)
	}
}
