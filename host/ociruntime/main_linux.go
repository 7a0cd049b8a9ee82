// Main of vfix-runtime: it prepares the container, then executes the real runtime, for which it never takes itself.

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

// Main is vfix-runtime: args are the words behind its name on the command line. It returns
// only where the real runtime cannot be executed, or the container may not start
// (fail-closed): with what to say on stderr.
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
		os.Remove(waitingFile(&c)) // of a container of that name which was never made
		rec = newRecord(&c, &p, o, real)
		waits, err := conclude(&c, rec, prepareSafely(&c, p.Config, o, rec), &p, log)
		if err != nil {
			return fail(log, err)
		}
		if waits {
			correct(rec, starts.NotStarted, "the runtime has not made the container", &p, log)
		}
	case c.name == "start" && c.container != "" && !policy.Rootless(): // see hookable
		if err := recordStart(&p, waitingFile(&c)); err != nil {
			log.line("warning", "record: "+err.Error())
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

// correct records that a start has not happened.
func correct(rec *starts.Record, o starts.Outcome, reason string, p *policy.InForce, log *logger) {
	if err := (starts.Log{Record: p.RecordFile()}).Add(rec.Correct(o, reason)); err != nil {
		log.line("warning", err.Error())
	}
}

// light has nothing collected: what a start needs is small. From memoryLimit on it is, after all.
func light() {
	const memoryLimit = 256 << 20 // bytes
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(memoryLimit)
}

// inForce is the configuration with what the command line says in its place. It can make the policy stricter only.
func inForce(c *command) policy.InForce {
	state := c.cacheDir
	if !filepath.IsAbs(state) {
		state = "" // an error later on
	}
	p := policy.Load(c.configFile, c.configFile != "", state)
	p.Runtime = cmp.Or(c.runtime, p.Runtime)
	if c.cacheDir != "" {
		p.CacheDir = c.cacheDir
	}
	p.FailClosed = p.FailClosed || c.failClosed
	if p.Source == starts.FromFile && c.source != "" { // the plugin, whose file this is, has another one
		p.Source = starts.Source(c.source)
	}
	return p
}

// fail reports an error in the runtime's log, where engines look, and returns it for stderr.
func fail(log *logger, err error) error {
	if log.file != "" {
		log.line("error", err.Error())
	}
	return err
}

// prepareSafely is prepare; a fault of vfix's own must not keep a container from starting.
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

// realRuntimes are looked for, in this order, where nobody says which.
var realRuntimes = []string{"runc", "crun"}

// usualFolders are searched where PATH has no runtime: engines start theirs with an
// environment of their own.
const usualFolders = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// guard is a variable that says which process has been vfix-runtime already: execve keeps
// the process, so one that finds itself in it has been led back by a link or a script.
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
		for dir := range strings.SplitSeq(os.Getenv("PATH")+":"+usualFolders, ":") {
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

// usable is nil for a program that can be executed and is another one than this.
func usable(path string, self *unix.Stat_t) error {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return err
	}
	if st.Dev == self.Dev && st.Ino == self.Ino {
		return errOurselves
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return errors.New("no regular file")
	}
	return unix.Access(path, unix.X_OK)
}
