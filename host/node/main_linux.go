// The two doors: vfix-runtime in front of an OCI runtime, and as an OCI createRuntime hook.

package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
	"unicode"

	"golang.org/x/sys/unix"
)

// HookVerb is the first argument of vfix-runtime as a hook.
const HookVerb = "hook"

// memoryLimit is when Go's garbage collection begins, in bytes: most starts end before it.
const memoryLimit = 12 << 20

// Main runs vfix-runtime; args is its command line without its name. It returns the exit status of a hook, and of a
// runtime only if the real one is not executed.
func Main(args []string, o Options) int {
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(memoryLimit)
	if len(args) == 1 && args[0] == HookVerb {
		return hook(os.Stdin, &o)
	}
	c := parseArgs(args)
	if c.starts() {
		s := newStart(&o, "runtime", c.container)
		dir, config, err := c.bundleFiles()
		if err == nil {
			err = s.run(dir, config)
		}
		if errors.Is(err, errRequired) {
			c.report("error", err)
			return 1
		}
		if err != nil && (c.log != "" || s.unrecorded) { // stderr may be the container's, and the record has the reason
			c.report("warning", err)
		}
	}
	c.report("error", execute(args))
	return 1
}

// hook reads the state of a container (runtime-spec, runtime.md), and patches its files. The runtime refuses the
// container if the status is not 0.
func hook(stdin io.Reader, o *Options) int {
	var state struct {
		ID, Bundle string
		Pid        int
	}
	const maxState = 4 << 20
	s := newStart(o, HookVerb, "")
	err := json.NewDecoder(io.LimitReader(stdin, maxState)).Decode(&state)
	if err == nil {
		s.record.Container, s.pid = state.ID, state.Pid
		err = s.run(state.Bundle, filepath.Join(state.Bundle, "config.json"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "vfix: "+OneLine(err.Error()))
	}
	if errors.Is(err, errRequired) {
		return 1
	}
	return 0
}

// guard is a variable with the ID of the process that has been vfix-runtime: execve keeps the ID, so a process that
// finds its own was led back here by a link or a script.
const guard = "VFIX_RUNTIME_PID"

// execute replaces this process by the real runtime, and returns only if that is not possible.
func execute(args []string) error {
	pid := strconv.Itoa(os.Getpid())
	if os.Getenv(guard) == pid {
		return errors.New("the configured runtime leads back to vfix-runtime")
	}
	c, _ := LoadConfig() // an error was reported
	real, err := realRuntime(c.Runtime)
	if err == nil {
		err = os.Setenv(guard, pid)
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("runtime %s: %w", real, unix.Exec(real, append([]string{real}, args...), os.Environ()))
}

// usualPath is searched after PATH: engines start their runtimes with an environment of their own.
const usualPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// realRuntime returns the configured runtime, else runc or crun, whichever is found first. Neither is a link to this program.
func realRuntime(configured string) (string, error) {
	if configured != "" {
		return configured, nil
	}
	self, err := os.Stat("/proc/self/exe")
	if err != nil {
		return "", err
	}
	for _, name := range []string{"runc", "crun"} {
		for dir := range strings.SplitSeq(os.Getenv("PATH")+":"+usualPath, ":") {
			path := filepath.Join(dir, name)
			fi, err := os.Stat(path)
			if err == nil && filepath.IsAbs(dir) && fi.Mode().IsRegular() && unix.Access(path, unix.X_OK) == nil && !os.SameFile(fi, self) {
				return path, nil
			}
		}
	}
	return "", errors.New("neither runc nor crun is in PATH; name the runtime in " + ConfigPath())
}

// report writes one line to the log of the runtime, in the form of logrus, which engines read; to stderr without a log.
func (c *command) report(level string, err error) {
	text := "vfix: " + OneLine(err.Error())
	if c.log != "" {
		const logMode = 0o644 // as runc's
		now := time.Now().UTC().Format(time.RFC3339)
		line := fmt.Sprintf("time=%q level=%s msg=%q\n", now, level, text)
		if c.logFormat == "json" {
			b, _ := json.Marshal(map[string]string{"level": level, "msg": text, "time": now})
			line = string(b) + "\n"
		}
		if f, oerr := os.OpenFile(c.log, os.O_WRONLY|os.O_CREATE|os.O_APPEND|unix.O_NONBLOCK, logMode); oerr == nil {
			_, werr := f.WriteString(line)
			if errors.Join(werr, f.Close()) == nil {
				return
			}
		}
	}
	fmt.Fprintln(os.Stderr, text)
}

// OneLine returns a text without line breaks and terminal escapes, as the names in it come from an image.
func OneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '?'
		}
		return r
	}, strings.ReplaceAll(text, "\n", "; "))
}
