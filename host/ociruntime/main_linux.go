// Main of vfix-runtime: it prepares the container, then executes the real runtime, and never itself.

package ociruntime

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/host/inherited"
	"vfix.dev/vfix/host/policy"
	"vfix.dev/vfix/host/starts"
)

// Main runs vfix-runtime; args is its command line without its name. It returns only if the real runtime cannot be
// executed, or if the container may not start (fail-closed); the error is for stderr.
func Main(args []string, o Options) error {
	c := parseArgs(args)
	switch c.name {
	case HookCommand:
		return hook(&c, o)
	case startedCommand:
		return started(&c, o)
	}
	log := newLogger(&c, o.Stderr)
	p := inForce(&c)
	real, err := findRuntime(p.Runtime)
	if err != nil {
		return fail(log, err)
	}
	var rec *starts.Record
	switch {
	case c.starts():
		light()
		os.Remove(waitingFile(&c)) // from a container of that name that was never created
		rec = newRecord(&c, &p, o, real)
		waits, err := conclude(&c, rec, prepareSafely(&c, p.Config, o, rec), &p, log)
		if err != nil {
			return fail(log, err)
		}
		if waits {
			correct(rec, starts.NotStarted, "the runtime has not made the container", &p, log)
		}
	case c.name == "start" && c.container != "" && !policy.Rootless(): // see hookable
		if err := onlyRefusal(recordStart(&p, waitingFile(&c)), log); err != nil {
			return fail(log, err)
		}
	case c.name == "delete" && c.container != "":
		os.Remove(waitingFile(&c))
	}
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, guard+"=") })
	inherited.Restore()
	err = unix.Exec(real, append([]string{real}, c.argv...), append(env, guard+"="+strconv.Itoa(os.Getpid())))
	err = fmt.Errorf("runtime %s: %w", real, err)
	if rec != nil {
		correct(rec, starts.Refused, err.Error(), &p, log)
	}
	return fail(log, err)
}

// correct records that a start did not happen.
func correct(rec *starts.Record, o starts.Outcome, reason string, p *policy.InForce, log *logger) {
	if err := (starts.Log{Record: p.RecordFile()}).Add(rec.Correct(o, reason)); err != nil {
		log.line("warning", err.Error())
	}
}

// light disables garbage collection below memoryLimit: a start needs little memory.
func light() {
	const memoryLimit = 256 << 20 // bytes
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(memoryLimit)
}

// inForce returns the configuration with the overrides of the command line, which can only make the policy
// stricter.
func inForce(c *command) policy.InForce {
	state := c.cacheDir
	if !filepath.IsAbs(state) {
		state = "" // the error is reported later
	}
	p := policy.Load(c.configFile, c.configFile != "", state)
	p.Runtime = cmp.Or(c.runtime, p.Runtime)
	if c.cacheDir != "" {
		p.CacheDir = c.cacheDir
	}
	p.FailClosed = p.FailClosed || c.failClosed
	if p.Source == starts.FromFile && c.source != "" { // the file belongs to the NRI plugin, which has another source
		p.Source = starts.Source(c.source)
	}
	return p
}

// fail writes an error to the runtime's log, which engines read, and returns it for stderr.
func fail(log *logger, err error) error {
	if log.file != "" {
		log.line("error", err.Error())
	}
	return err
}

// prepareSafely runs prepare; a panic in vfix must not keep a container from starting.
func prepareSafely(c *command, config policy.Config, o Options, rec *starts.Record) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("internal error: %v", r)
		}
	}()
	if c.cacheDir != "" && !filepath.IsAbs(c.cacheDir) {
		return fmt.Errorf("--cache-dir: %q is not an absolute path", c.cacheDir)
	}
	if rec.Bundle, err = c.bundleDir(); err != nil {
		return err
	}
	spec, err := c.specPath(rec.Bundle)
	if err != nil {
		return err
	}
	return prepare(c, spec, config, o, rec)
}

// realRuntimes are the runtimes to search for, in this order, if none is configured.
var realRuntimes = []string{"runc", "crun"}

// usualPath is searched if PATH has no runtime: engines start their runtimes with an environment of their own.
const usualPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// guard is a variable with the ID of the process that has been vfix-runtime: execve keeps the ID, so a process
// that finds its own was led back here by a link or a script.
const guard = "VFIX_RUNTIME_PID"

// findRuntime returns the path of the real runtime. named is a path, a name, or "".
func findRuntime(named string) (string, error) {
	if os.Getenv(guard) == strconv.Itoa(os.Getpid()) {
		return "", fmt.Errorf("runtime %s: leads back to vfix-runtime", named)
	}
	var self unix.Stat_t
	if err := unix.Stat("/proc/self/exe", &self); err != nil {
		return "", fmt.Errorf("/proc/self/exe: %w", err)
	}
	if strings.ContainsRune(named, '/') {
		path, err := filepath.Abs(named)
		if err != nil {
			return "", err
		}
		if err := usable(path, &self); err != nil {
			return "", fmt.Errorf("runtime %s: %w", path, err)
		}
		return path, nil
	}
	names := realRuntimes
	if named != "" {
		names = []string{named}
	}
	var last error
	for _, name := range names {
		for dir := range strings.SplitSeq(os.Getenv("PATH")+":"+usualPath, ":") {
			if !filepath.IsAbs(dir) {
				continue
			}
			path := filepath.Join(dir, name)
			err := usable(path, &self)
			if err == nil {
				return path, nil
			}
			if !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR) {
				last = fmt.Errorf("%s: %w", path, err)
			}
		}
	}
	if last != nil {
		return "", fmt.Errorf("runtime %s: %w", strings.Join(names, ", "), last)
	}
	return "", fmt.Errorf("runtime %s: not in PATH", strings.Join(names, ", "))
}

var errOurselves = errors.New("is vfix-runtime itself")

// usable returns nil if a program can be executed and is not this program.
func usable(path string, self *unix.Stat_t) error {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return err
	}
	if st.Dev == self.Dev && st.Ino == self.Ino {
		return errOurselves
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return errors.New("not a regular file")
	}
	return unix.Access(path, unix.X_OK)
}
