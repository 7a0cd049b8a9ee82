// Main of vfix-runtime: it prepares the container, then executes the real runtime.

package ociruntime

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const openNoBlock = unix.O_NONBLOCK

// Main is vfix-runtime: args is what stands behind its name on the command line. It returns
// only where the real runtime cannot be executed, or the container may not start
// (fail-closed): with what to say on stderr.
func Main(args []string, o Options) error {
	c := parseArgs(args)
	if c.name == HookCommand {
		return hook(&c, o)
	}
	log := newLogger(&c, o.Stderr)
	config, bad := configOf(&c)
	if bad != nil && c.starts() && !config.FailClosed {
		log.line("warning", bad.Error()+": ignored")
	}
	real, err := findRuntime(config.Runtime)
	if err != nil {
		return fail(log, err)
	}
	if c.starts() {
		// What a start needs is small, and nothing of it is worth collecting.
		debug.SetGCPercent(-1)
		debug.SetMemoryLimit(memoryLimit)
		rec := newRecord(&c, config, o, real)
		if bad == nil || !config.FailClosed {
			bad = start(&c, config, o, log, rec)
		}
		remember(rec, bad, config, log)
		if bad != nil && config.FailClosed {
			return fail(log, fmt.Errorf("container not started (fail-closed): %w", bad))
		}
	}
	env := append(withoutGuard(os.Environ()), guard+"="+strconv.Itoa(os.Getpid()))
	err = unix.Exec(real, append([]string{real}, c.argv...), env)
	return fail(log, fmt.Errorf("runtime %s: %w", real, err))
}

// memoryLimit is where memory is collected after all, in bytes.
const memoryLimit = 256 << 20

func withoutGuard(env []string) []string {
	var out []string
	for _, v := range env {
		if !strings.HasPrefix(v, guard+"=") {
			out = append(out, v)
		}
	}
	return out
}

// configOf is the configuration with what the command line says in its place. With an
// error it is what is known without the file.
func configOf(c *command) (Config, error) {
	path := ConfigFile
	if c.configFile != "" {
		path = c.configFile
	}
	config, err := ReadConfig(path)
	if c.runtime != "" {
		config.Runtime = c.runtime
	}
	if c.cacheDir != "" {
		config.CacheDir = c.cacheDir
		err = errors.Join(err, config.check())
	}
	if c.failClosed != nil {
		config.FailClosed = *c.failClosed
	}
	return config, err
}

// fail tells of an error in the runtime's log, where engines look, and returns it for stderr.
func fail(log *logger, err error) error {
	if log.file != "" {
		log.line("error", err.Error())
	}
	return err
}
