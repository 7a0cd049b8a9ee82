// The programs on disk, and running one of them.

package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/shim"
)

// Measure is the name of vfix-measure in a Dir, in ps and in the kernel's log.
const Measure = "vfix-measure"

const (
	executable = 0o755
	// killWait is how long a killed child may hold its output open.
	killWait = time.Second
)

// Dir is a temporary directory with programs.
type Dir string

// NewDir writes vfix-measure, and more programs by name, to a temporary directory, and tries vfix-measure. The caller
// must Remove it.
func NewDir(more map[string][]byte) (Dir, error) {
	name, err := os.MkdirTemp("", "vfix-")
	d := Dir(name)
	if err == nil {
		err = d.fill(more)
	}
	if err != nil {
		_ = d.Remove()
		return "", hinterr.With(fmt.Errorf("a program to measure with cannot be executed: %w", err),
			"set TMPDIR to a directory from which programs may be executed")
	}
	return d, nil
}

// fill writes the programs, and runs vfix-measure once.
func (d Dir) fill(more map[string][]byte) error {
	if strings.ContainsAny(string(d), " :") { // ld.so splits LD_PRELOAD at these
		return fmt.Errorf("%s: a space or colon in its name", d)
	}
	programs := map[string][]byte{Measure: shim.Measure()}
	maps.Copy(programs, more)
	for name, program := range programs {
		if err := os.WriteFile(d.Path(name), program, executable); err != nil {
			return err
		}
	}
	o, err := d.Run(context.Background(), nil, "probe", "syscall:time")
	if err == nil && !o.OK() {
		err = fmt.Errorf("%s ended with %s", Measure, o)
	}
	return err
}

// Path returns the path of a program.
func (d Dir) Path(name string) string { return filepath.Join(string(d), name) }

// Remove removes the directory, if it was made.
func (d Dir) Remove() error { return os.RemoveAll(string(d)) }

// Run runs vfix-measure to its end, with stdin to read.
func (d Dir) Run(ctx context.Context, stdin []byte, args ...string) (Outcome, error) {
	cmd := exec.CommandContext(ctx, d.Path(Measure), args...)
	cmd.Args[0] = Measure
	cmd.Stdin = bytes.NewReader(stdin)
	return Run(ctx, cmd)
}

// Run runs a command to its end, with no environment but its own. It returns an error if the command could not be
// started, or if ctx ended.
func Run(ctx context.Context, cmd *exec.Cmd) (Outcome, error) {
	var out, errout bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &errout, killWait
	cmd.Env = append([]string{}, cmd.Env...)
	err := cmd.Run()
	if ctx.Err() != nil {
		return Outcome{}, context.Cause(ctx)
	}
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		return Outcome{}, err
	}
	line, _, _ := strings.Cut(errout.String(), "\n")
	o := Outcome{Stdout: out.Bytes(), Stderr: line, Status: cmd.ProcessState.ExitCode()}
	if w, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		o.Signal, o.Status = int(w.Signal()), 0
	}
	return o, nil
}
