// Main of vfix-runtime: it prepares the container, then executes the real runtime, and never itself.

package ociruntime

import (
	"cmp"
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
