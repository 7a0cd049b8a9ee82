// Command lines of runc and crun, as far as vfix-runtime must understand them.

package node

import (
	"path/filepath"
	"slices"
	"strings"
)

// command is a command line of an OCI runtime. Sources: runc's main.go, create.go and run.go; crun's src/crun.c,
// create.c and run.c.
type command struct {
	verb           string // create, run, exec, …; "" for none
	bundle, config string
	container      string
	log, logFormat string
	help           bool // it only prints something
}

// valued are the options with a value, which may be the next argument.
var valued = strings.Fields("log log-format log-level root criu rootless cgroup-manager handler " +
	"bundle b console-socket pid-file pidfd-socket preserve-fds config f")

// starts reports whether the command makes a container from a bundle. A restore continues processes that have the
// original files mapped: it is left alone.
func (c *command) starts() bool { return (c.verb == "create" || c.verb == "run") && !c.help }

// parseArgs parses the command line behind the name of the program. The verb is the first word that is not an option, and
// the container the last one. Both runtimes accept --name=value and --name value; runc also -name. crun's -bDIR is not
// understood: the record of such a start says so.
func parseArgs(args []string) command {
	c := command{bundle: "."}
	options := true
	known := map[string]*string{"bundle": &c.bundle, "b": &c.bundle, "config": &c.config, "f": &c.config, "log": &c.log, "log-format": &c.logFormat}
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" && options {
			options = false
			continue
		}
		if !options || len(arg) < 2 || arg[0] != '-' {
			if c.verb == "" {
				c.verb = arg
			} else {
				c.container = arg
			}
			continue
		}
		name, value, has := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if !slices.Contains(valued, name) {
			c.help = c.help || slices.Contains([]string{"help", "h", "?", "usage", "version", "v", "V"}, name)
			continue
		}
		if !has && i+1 < len(args) {
			i++
			value = args[i]
		}
		if to := known[name]; to != nil {
			*to = value
		}
	}
	if c.config == "" { // crun's option is not relative to the bundle (src/create.c)
		c.config = filepath.Join(c.bundle, "config.json")
	}
	return c
}
