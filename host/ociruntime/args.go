// Command lines of runc and crun, as far as vfix-runtime must understand them, and its own
// options.

package ociruntime

import (
	"path/filepath"
	"strconv"
	"strings"
)

// command is a command line of runc's kind, as far as it matters. Sources: runc's main.go,
// create.go and run.go; crun's src/crun.c, create.c and run.c.
type command struct {
	// argv is what the real runtime gets, without its own name: everything but our options.
	argv []string
	// What our own options say; nil or "" where they are not given.
	runtime    string
	configFile string
	cacheDir   string
	failClosed *bool

	name      string // create, run, exec, …; "" for none
	bundle    string // of create, run and restore
	spec      string // crun's --config of create and run
	container string // that they make
	pid       int    // of the container's first process, where this is the hook
	log       string // --log
	logFormat string // --log-format
	debug     bool
}

// starts reports whether the command makes a container of a bundle; restore does of a
// checkpoint, whose mounts are those of config.json.
func (c *command) starts() bool { return c.name == "create" || c.name == "run" || c.name == "restore" }

// Options with a value that stand before the command, for both runtimes; an option that is
// in no list takes none, or has it behind a "=".
var globalValues = map[string]bool{
	"log": true, "log-format": true, "log-level": true, "root": true, "criu": true, "rootless": true,
	"cgroup-manager": true, "handler": true,
}

// Options with a value of create, run and restore (runc's restore.go, crun's restore.c).
var startValues = map[string]bool{
	"bundle": true, "b": true, "console-socket": true, "pid-file": true, "pidfd-socket": true,
	"preserve-fds": true, "config": true, "f": true,
	"image-path": true, "work-path": true, "parent-path": true, "manage-cgroups-mode": true, "network-lock": true,
	"empty-ns": true, "status-fd": true, "lsm-profile": true, "lsm-mount-context": true,
}

// parseArgs reads what stands behind the name of the program. What it does not know, it
// leaves to the real runtime to judge.
func parseArgs(args []string) command {
	c := command{}
	i := 0
	for i < len(args) {
		name, value, hasValue, isOption := option(args[i])
		if !isOption {
			break
		}
		width := 1
		if !hasValue && (globalValues[name] || ownValues[name]) && i+1 < len(args) {
			value, width = args[i+1], 2
		}
		if !c.own(name, value, hasValue) {
			c.global(name, value)
			c.argv = append(c.argv, args[i:i+width]...)
		}
		i += width
	}
	c.argv = append(c.argv, args[i:]...)
	if i < len(args) {
		c.name = args[i]
		c.startOptions(args[i+1:])
	}
	return c
}

// option takes an argument apart: -x, --name, --name=value, and -name, which runc takes too.
func option(arg string) (name, value string, hasValue, isOption bool) {
	if len(arg) < 2 || arg[0] != '-' || arg == "--" {
		return "", "", false, false
	}
	name, value, hasValue = strings.Cut(strings.TrimPrefix(arg[1:], "-"), "=")
	return name, value, hasValue, true
}

// Our own options; no runtime has one of these names.
var ownValues = map[string]bool{"runtime": true, "vfix-config": true, "cache-dir": true}

// own takes one of our own options; false for any other.
func (c *command) own(name, value string, hasValue bool) bool {
	switch name {
	case "runtime":
		c.runtime = value
	case "vfix-config":
		c.configFile = value
	case "cache-dir":
		c.cacheDir = value
	case "fail-closed":
		closed := true
		if b, err := strconv.ParseBool(value); hasValue && err == nil {
			closed = b
		}
		c.failClosed = &closed
	default:
		return false
	}
	return true
}

func (c *command) global(name, value string) {
	switch name {
	case "log":
		c.log = value
	case "log-format":
		c.logFormat = value
	case "debug":
		c.debug = value != "false"
	}
}

// startOptions reads the options of what starts a container. They end at the container's name.
func (c *command) startOptions(args []string) {
	for i := 0; i < len(args); i++ {
		name, value, hasValue, isOption := option(args[i])
		if !isOption {
			c.container = args[i]
			return
		}
		if !hasValue && startValues[name] && i+1 < len(args) {
			i++
			value = args[i]
		}
		switch name {
		case "bundle", "b":
			c.bundle = value
		case "config", "f":
			c.spec = value
		}
	}
}

// bundleDir is the folder of the bundle: where the runtime stands, if nothing is said.
func (c *command) bundleDir() (string, error) {
	if c.bundle == "" {
		return filepath.Abs(".")
	}
	return filepath.Abs(c.bundle)
}

// specPath is the file that describes the container: config.json in the bundle, unless crun is told of
// another one, whose name is no part of the bundle then (crun, src/create.c).
func (c *command) specPath(bundle string) (string, error) {
	if c.spec == "" || c.spec == specName {
		return filepath.Join(bundle, specName), nil
	}
	return filepath.Abs(c.spec)
}
