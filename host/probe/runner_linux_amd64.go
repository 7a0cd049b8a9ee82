// Running vfix-measure, from memory or from a temporary file.

package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"vfix.dev/vfix/internal/memfile"
)

// name is the name of the program in ps, and in the kernel's log.
const name = "vfix-measure"

// maxOutput bounds what is kept of a run's output, in bytes.
const maxOutput = 16 << 20

// killWait is how long a killed child may hold its output open.
const killWait = 5 * time.Second

// Runner starts vfix-measure.
type Runner struct {
	file *os.File // in memory, or
	path string   // on disk
}

// NewRunner makes program executable: in memory, or, if the kernel or a missing /proc does not allow that, in
// a temporary file.
func NewRunner(program []byte) (*Runner, error) {
	return place(program, (*Runner).try)
}

// Execute runs another program in that way. It errs if the program could not be started; if a place does not
// allow programs, it tries the next one.
func Execute(ctx context.Context, program []byte) (o Outcome, err error) {
	r, err := place(program, func(r *Runner) (err error) {
		o, err = r.Run(ctx, nil)
		return err
	})
	if err != nil {
		return Outcome{}, err
	}
	return o, r.Close()
}

// place makes program executable where try, which runs it, works.
func place(program []byte, try func(*Runner) error) (*Runner, error) {
	var errs []error
	for _, dir := range append([]string{""}, Dirs()...) {
		r, err := put(dir, program)
		if err == nil {
			if err = try(r); err == nil {
				return r, nil
			}
			r.Close()
		}
		errs = append(errs, err)
	}
	return nil, fmt.Errorf("no place from which %s may be executed: %w", name, errors.Join(errs...))
}

// Dirs are those in which most machines allow programs to be executed.
func Dirs() []string { return []string{os.TempDir(), "/var/tmp", "/dev/shm", "."} }

// put writes a program into a directory, "" for memory.
func put(dir string, program []byte) (*Runner, error) {
	if dir == "" {
		fd, err := memfile.New(name, bytes.NewReader(program))
		if err != nil {
			return nil, err
		}
		return &Runner{file: os.NewFile(uintptr(fd), name), path: fmt.Sprintf("/proc/self/fd/%d", fd)}, nil
	}
	f, err := os.CreateTemp(dir, name+"-")
	if err != nil {
		return nil, err
	}
	_, err = f.Write(program)
	const executable = 0o700
	if err = errors.Join(err, f.Chmod(executable), f.Close()); err != nil {
		os.Remove(f.Name())
	}
	return &Runner{path: f.Name()}, err
}

// try makes one plain system call.
func (r *Runner) try() error {
	o, err := r.Run(context.Background(), nil, "probe", "syscall:time")
	if err == nil && !o.OK() {
		err = fmt.Errorf("%s: %s", r.path, o)
	}
	return err
}

// Close removes the program.
func (r *Runner) Close() error {
	if r.file != nil {
		return r.file.Close()
	}
	return os.Remove(r.path)
}

// Run runs the program to its end, with stdin to read. The error is that it could not be
// started, or that ctx ended.
func (r *Runner) Run(ctx context.Context, stdin []byte, args ...string) (Outcome, error) {
	cmd, out, errout := r.command(ctx, args)
	cmd.Stdin = bytes.NewReader(stdin)
	err := cmd.Run()
	return outcome(ctx, cmd, out, errout, err)
}

// Start starts the program, which runs until stop is called. said returns its first line of output, or all
// output if it ended earlier.
func (r *Runner) Start(ctx context.Context, args ...string) (said func() (string, error), stop func() (Outcome, error), err error) {
	cmd, _, errout := r.command(ctx, args)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	cmd.Stdout = nil
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	said = func() (string, error) {
		const most = 256 // bytes of a line
		buf := make([]byte, most)
		n, err := stdout.Read(buf)
		return strings.TrimSpace(string(buf[:n])), err
	}
	stop = func() (Outcome, error) {
		stdin.Close()
		_, _ = io.Copy(io.Discard, stdout)
		err := cmd.Wait()
		return outcome(ctx, cmd, &Limited{}, errout, err)
	}
	return said, stop, nil
}

func (r *Runner) command(ctx context.Context, args []string) (cmd *exec.Cmd, out, errout *Limited) {
	cmd = exec.CommandContext(ctx, r.path, args...)
	cmd.Args[0] = name
	cmd.WaitDelay = killWait
	cmd.Env = []string{} // it needs nothing of the user's
	out, errout = &Limited{Most: maxOutput}, &Limited{Most: maxOutput}
	cmd.Stdout, cmd.Stderr = out, errout
	return cmd, out, errout
}

func outcome(ctx context.Context, cmd *exec.Cmd, out, errout *Limited, err error) (Outcome, error) {
	if ctx.Err() != nil {
		return Outcome{}, context.Cause(ctx)
	}
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		return Outcome{}, fmt.Errorf("%s: %w", name, err)
	}
	line, _, _ := strings.Cut(errout.String(), "\n")
	o := Outcome{Stdout: out.Bytes(), Stderr: line}
	if w, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		o.Signal = int(w.Signal())
	} else {
		o.Status = cmd.ProcessState.ExitCode()
	}
	return o, nil
}

// Limited keeps the first bytes written to it.
type Limited struct {
	bytes.Buffer
	Most int // bytes
}

func (l *Limited) Write(p []byte) (int, error) {
	l.Buffer.Write(p[:min(len(p), max(l.Most-l.Len(), 0))])
	return len(p), nil
}
