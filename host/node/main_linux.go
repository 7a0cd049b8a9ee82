// The two doors: vfix-runtime in front of an OCI runtime, and as an OCI createRuntime hook.

package node

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
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
	config, err := LoadConfig() // the error is that of a start
	if len(args) == 1 && args[0] == HookVerb {
		return hook(os.Stdin, newStart(&o, HookVerb, config, err))
	}
	c := parseArgs(args)
	if c.starts() {
		s := newStart(&o, "runtime", config, err)
		s.record.Container = c.container
		err := s.run(c.bundle, c.config)
		if errors.Is(err, errRequired) {
			c.report("error", err)
			return 1
		}
		if err != nil && (c.log != "" || s.unrecorded) { // stderr may be the container's, and the record has the reason
			c.report("warning", err)
		}
	}
	c.report("error", execute(config.Runtime, args))
	return 1
}

// hook reads the state of a container (runtime-spec, runtime.md), and patches its files. The runtime refuses the
// container if the status is not 0.
func hook(stdin io.Reader, s *start) int {
	var state struct {
		ID, Bundle string
		Pid        int
	}
	err := json.NewDecoder(stdin).Decode(&state)
	if err == nil {
		s.record.Container, s.pid = state.ID, state.Pid
		err = s.run(state.Bundle, filepath.Join(state.Bundle, "config.json"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "vfix: "+oneLine(err.Error()))
	}
	if errors.Is(err, errRequired) {
		return 1
	}
	return 0
}

// guard is a variable with the ID of the process that has been vfix-runtime: execve keeps the ID, so a process that
// finds its own was led back here by a link or a script.
const guard = "VFIX_RUNTIME_PID"

// execute replaces this process by the configured runtime, else by runc or crun, whichever is found first. It returns only
// if that is not possible.
func execute(configured string, args []string) error {
	real, pid := cmp.Or(configured, findRuntime()), strconv.Itoa(os.Getpid())
	switch {
	case os.Getenv(guard) == pid:
		return fmt.Errorf("the runtime leads back to vfix-runtime; name the real one in %s", ConfigPath())
	case real == "":
		return fmt.Errorf("neither runc nor crun is in PATH; name the runtime in %s", ConfigPath())
	}
	_ = os.Setenv(guard, pid) // both are valid
	return fmt.Errorf("runtime %s: %w", real, unix.Exec(real, append([]string{real}, args...), os.Environ()))
}

// usualPath is searched after PATH: engines start their runtimes with an environment of their own.
const usualPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// findRuntime does not find this program, which may be linked to under another name.
func findRuntime() string {
	self, _ := os.Stat("/proc/self/exe")
	for _, name := range []string{"runc", "crun"} {
		for dir := range strings.SplitSeq(os.Getenv("PATH")+":"+usualPath, ":") {
			path, err := exec.LookPath(filepath.Join(dir, name))
			if fi, serr := os.Stat(path); err == nil && serr == nil && filepath.IsAbs(path) && !os.SameFile(fi, self) {
				return path
			}
		}
	}
	return ""
}

// report writes one line to the log of the runtime: of one in JSON, engines read these members. Without a log, it is on
// stderr.
func (c *command) report(level string, err error) {
	text := "vfix: " + oneLine(err.Error())
	line := text
	if c.logFormat == "json" {
		b, _ := json.Marshal(map[string]string{"level": level, "msg": text, "time": time.Now().UTC().Format(time.RFC3339)})
		line = string(b)
	}
	const logMode = 0o644 // as runc's
	f, err := os.OpenFile(c.log, os.O_WRONLY|os.O_CREATE|os.O_APPEND|unix.O_NONBLOCK, logMode)
	if err == nil {
		_, err = f.WriteString(line + "\n")
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, text)
	}
}

// oneLine returns a text without line breaks and terminal escapes, as the names in it come from an image.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '?'
		}
		return r
	}, strings.ReplaceAll(text, "\n", "; "))
}
